-- acquire: take a free lock for a new hold, and mint its fencing token.
--
-- KEYS  1 owner   2 count   3 mark of this value   4 counter (the lock's own, or the FenceKey)
--       5 room (only for a waiter)
-- ARGV  1 value (fresh for every new acquisition)
--       2 lease, ms
--       3 TTL of the counter, ms (set again when a tenth of it is used up); 0: a FenceKey, which has none
--       4 "clock": TokenClock; "": TokenCounter
--       5 the waiter's channel, to be told on; "": it will not hear anything
--       6 "probe": look first whether this user may tell; "soon": it will have a
--         channel when it needs one; ""
-- Reply token       taken, or taken by an earlier send of this very request; {1, token} where it is a string
--       {2, PTTL}   another value owns it (-1: it has no TTL), or it is kept for another
--       {4, 0}      this value was given up: the request came after its cleanup
--       {6, PTTL}   as 2, and the channel is in the room
--       {6, PTTL, hold}  the same, and it is the first there: if another hold is seen
--                   later, and nobody was told, then the last one told nobody
--       {9, ms}     free, and in so long kept for this process; now for those who poll
--       error       names the key that holds something else; the lock is as it was
--
-- Scripts are not rolled back, so what can fail (the token) comes first and the
-- owner is written last. A refused acquire writes nothing but the room.
--
-- What is usual comes first, and what the rest needs after it: to make a function takes
-- Redis as long as a command. Numbers are strings: of others it makes them, by printf.
-- include mint.lua
local room, me = KEYS[5], ARGV[5]
local owner, stale = false, false -- a count without an owner means nothing

-- take answers, and says whether the lock is this value's.
local function take()
  local token = mint(KEYS[4], ARGV[4], tonumber(ARGV[3]))
  if type(token) == 'table' then return token end
  if not owner then
    if stale then redis.call('DEL', KEYS[2]) end
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  end
  return type(token) == 'string' and {1, token} or token, true
end

if redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3]) > 0 then
  owner = redis.pcall('GET', KEYS[1])
  if type(owner) == 'table' then return named(owner, KEYS[1]) end
  if not owner and redis.call('EXISTS', KEYS[3]) == 1 then return {4, 0} end
  stale = not owner
end
if owner == ARGV[1] then
  -- A re-send: the same answer again. Only a counter lost since is minted anew.
  local token = redis.pcall('GET', KEYS[4])
  return type(token) == 'string' and {1, token} or take()
end
local waits = room and (me ~= '' or ARGV[6] == 'soon') -- else it polls, and respects nothing
if not waits then return owner and {2, redis.call('PTTL', KEYS[1])} or take() end

local head = not owner and redis.pcall('LINDEX', room, '0')
-- told: the lock is kept for this very process.
local told = type(head) == 'string' and me ~= '' and string.sub(head, 1, 3) == '!0-' and string.sub(head, -#me) == me
if not owner and (told or not head) then
  local reply, taken = take()
  if told and taken then
    redis.pcall('LPOP', room) -- the mark, and with it this process, the next behind it
    redis.pcall('LREM', room, '1', me)
  end
  return reply
end

-- include room.lua

-- kept is for how many ms more the free lock is not this waiter's. promised: it is its
-- process's then.
local function kept(quiet, ends, whose)
  if not ends then return 0 end
  local time = now()
  if not time then return 0 end
  if time < quiet then
    local ms = left(quiet, time)
    return ms, ms > 0 and me ~= '' and whose == me
  end
  return whose ~= '' and whose ~= me and left(ends, time) or 0
end

-- hold tells the owner's hold from others: the published version uses a value again.
local function hold(owner)
  local token = ARGV[3] ~= '0' and redis.pcall('GET', KEYS[4])
  return type(token) == 'string' and owner .. '/' .. token or owner
end

-- announce puts the process into the room, which outlives the owner key by nothing:
-- whoever waits comes back then. first: it is the next to be told; nil: not allowed.
local function announce(stays)
  local at = redis.pcall('LPOS', room, me)
  if at ~= 0 then
    local _, _, ends, whose = mark(room)
    if whose == me then redis.pcall('LPOP', room) end -- it was told, and has asked
    if ends and at == 1 then at = 0 end
  end
  if not at then
    at = redis.pcall('RPUSH', room, me) -- how many there are now
    if type(at) == 'number' then at = at - 1 end
  end
  if type(at) == 'table' or not outlast(room, me, stays) then return nil end
  return at == 0
end

-- tells is whether this user may do what telling takes.
local function tells()
  for _, cmd in ipairs({{'PUBLISH', me, ''}, {'LINDEX', room, '0'}, {'LREM', room, '0', '!0-0'}, {'LPUSH', room, '!0-0'}, {'LPOP', room}}) do
    local reply = redis.pcall(unpack(cmd))
    if type(reply) == 'table' and reply.err then
      redis.pcall('LREM', room, '0', '!0-0')
      return false
    end
  end
  return true
end

local function refused(ms, owner)
  if me == '' or (ARGV[6] == 'probe' and not tells()) then return {2, ms} end
  local first = announce(ms < 0 and NAP or ms)
  if first == nil then return {2, ms} end
  return {6, ms, first and owner and hold(owner) or nil}
end

if owner then return refused(redis.call('PTTL', KEYS[1]), owner) end
local _, quiet, ends, whose = mark(room, head)
local ms, promised = kept(quiet, ends, whose)
if promised then return {9, ms} end
if ms > 0 then return refused(ms) end
local reply, taken = take()
if taken and me ~= '' then leave(room, me, head) end
return reply
