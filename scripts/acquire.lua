-- acquire: take a free lock for a new hold, and mint its fencing token.
-- It stands behind mint.lua, and before room.lua and waiter.lua, which are for waiters.
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
-- Whoever does not wait is done before the functions of waiters are made: to make them
-- takes Redis longer than a command.
local room, me = KEYS[5], ARGV[5]
local owner, stale = false, false -- a count without an owner means nothing

local function take()
  local token = mint(KEYS[4], ARGV[4], tonumber(ARGV[3]))
  if type(token) == 'table' then return token end
  if not owner then
    if stale then redis.call('DEL', KEYS[2]) end
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  end
  return type(token) == 'string' and {1, token} or token
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
if not room then return owner and {2, redis.call('PTTL', KEYS[1])} or take() end
