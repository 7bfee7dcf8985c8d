-- acquire: take a free lock for a new hold, and mint its fencing token.
-- It stands behind mint.lua.
--
-- KEYS  1 owner   2 count   3 mark of this value   4 counter (the lock's own, or the FenceKey)
--       5 room (only for a waiter)
-- ARGV  1 value (fresh for every new acquisition)
--       2 lease, ms
--       3 TTL of the counter, ms (set again when a tenth of it is used up); 0: a FenceKey, which has none
--       4 "clock": TokenClock; "": TokenCounter
--       5 the waiter's channel, to be told on; "": it will not hear anything
--       6 "front": it was told, and somebody may have been quicker; "probe": look first
--         whether this user may publish; "soon": it will have a channel when it needs one; ""
-- Reply {1, token}  taken, or taken by an earlier send of this very request
--       {2, PTTL}   another value owns it (-1: it has no TTL), or it is kept for another
--       {4, 0}      this value was given up: the request came after its cleanup
--       {6, PTTL}   as 2, and the channel is in the room, or it is kept for it from then on
--       {6, PTTL, hold}  the same, and it is the first there: if another hold is seen
--                   later, and nobody was told, then the last one told nobody
--       error       names the key that holds something else; the lock is as it was
--
-- Scripts are not rolled back, so what can fail (the token) comes first and the
-- owner is written last. A refused acquire writes nothing but the room.
local room, me = KEYS[5], ARGV[5]
local polls = me == '' and ARGV[6] ~= 'soon'

-- kept is for how many ms more the free lock is not this process's; see tell.lua.
-- mine: it is after that.
local function kept()
  local first = redis.pcall('LINDEX', room, 0)
  if type(first) ~= 'string' or string.sub(first, 1, 1) ~= '!' then return 0 end
  local quiet, ends, whose = string.match(first, '^!(%d+)-(%d+)(.*)$')
  if quiet and (quiet ~= '0' or whose ~= me) then
    local t, left = redis.pcall('TIME'), 0
    local now = t.err and tonumber(ends) or t[1] * 1000 + t[2] / 1000
    if now >= tonumber(quiet) then
      if whose ~= '' and whose ~= me then left = math.ceil(ends - now) end
    elseif not polls then
      left = math.ceil(quiet - now)
    end
    if left > 0 and left <= 100 then return left, me ~= '' and whose == me end -- more than it is ever kept: the clock went back
  end
  redis.pcall('LPOP', room)
  return 0
end

-- hold tells the owner's hold from others: the published version uses a value again.
local function hold(owner)
  local token = ARGV[3] ~= '0' and redis.pcall('GET', KEYS[4])
  return type(token) == 'string' and owner .. '/' .. token or owner
end

-- The announcement outlives the owner key by nothing: whoever waits comes back then.
local function refused(left, owner)
  if not room or me == '' then return {2, left} end
  if ARGV[6] == 'probe' and type(redis.pcall('PUBLISH', me, '')) == 'table' then return {2, left} end
  local front = ARGV[6] == 'front'
  local at = redis.pcall('LPOS', room, me)
  local first = at == 0
  if not at then
    at = redis.pcall(front and 'LPUSH' or 'RPUSH', room, me) -- how many there are now
    first = front or at == 1
  end
  if type(at) == 'table' then return {2, left} end
  local stays = left < 0 and 2000 or left
  if redis.call('PTTL', room) < stays then redis.call('PEXPIRE', room, stays) end
  return {6, left, first and owner and hold(owner) or nil}
end

local stale = false -- a count without an owner means nothing
local owner = redis.pcall('GET', KEYS[1])
if type(owner) == 'table' then return named(owner, KEYS[1]) end
if owner and owner ~= ARGV[1] then return refused(redis.call('PTTL', KEYS[1]), owner) end
if owner then
  -- A re-send: the same answer again. Only a counter lost since is minted anew.
  local token = redis.pcall('GET', KEYS[4])
  if type(token) == 'string' then return {1, token} end
else
  if redis.call('EXISTS', KEYS[2], KEYS[3]) > 0 then
    if redis.call('EXISTS', KEYS[3]) == 1 then return {4, 0} end
    stale = true
  end
  if room then
    local left, mine = kept()
    if mine then return {6, left} end
    if left > 0 then return refused(left) end
  end
end

local token = mint(KEYS[4], ARGV[4], tonumber(ARGV[3]))
if type(token) == 'table' then return token end
if not owner then
  if stale then redis.call('DEL', KEYS[2]) end
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
return {1, token}
