-- waiter: what an acquire does for who waits, when the lock is free or another's.
-- Not a script of its own: it stands behind acquire.lua and room.lua.

-- kept is for how many ms more the free lock is not this waiter's. promised: it is its
-- process's then.
local function kept(quiet, ends, whose)
  if not ends or (quiet == 0 and whose == me) then return 0 end
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
  for _, cmd in ipairs({{'PUBLISH', me, ''}, {'LINDEX', room, 0}, {'LREM', room, 0, '!0-0'}, {'LPUSH', room, '!0-0'}, {'LPOP', room}}) do
    local reply = redis.pcall(unpack(cmd))
    if type(reply) == 'table' and reply.err then
      redis.pcall('LREM', room, 0, '!0-0')
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
if me == '' and ARGV[6] ~= 'soon' then return take() end -- it polls
local head, quiet, ends, whose = mark(room)
local ms, promised = kept(quiet, ends, whose)
if promised then return {9, ms} end
if ms > 0 then return refused(ms) end
local reply = take()
if head and me ~= '' and (type(reply) ~= 'table' or not reply.err) then leave(room, me, head) end
return reply
