-- handover: the last release of a hold that gives the lock to a waiter of the same
-- process, in one step. When it cannot, it frees the lock and tells the room.
--
-- KEYS  1 owner   2 room   3 count   4 mark of the new value   5 counter of the new hold
--       With the owner alone (a slot that is being moved) it only frees the lock.
-- ARGV  1 old value   2 new value (fresh)   3 its lease, ms
--       4 TTL of the counter, ms; 0: a FenceKey   5 "clock": TokenClock; ""
--       6 the process's channel, "": none
--       7 "queued": the channel may be in the room; "yield": others go first, if there
--         are any; ""
-- Reply token       handed over, now or by an earlier send of this very request; {1, token} where it is a string
--       {2, 0}      another value, or no string at all, is in the owner key
--       {3, 0}      no owner key
--       {8, 0}      freed: the token could not be minted, or the new value was given up
--       {8, 1}      freed for others, who waited; the channel is behind them in the room
--       error       an ACL forbids to ask who owns it
local owner = redis.pcall('GET', KEYS[1])
if type(owner) == 'table' and string.sub(owner.err, 1, 9) ~= 'WRONGTYPE' then return owner end
if not owner then return {3, 0} end
local again = owner == ARGV[2]
if not again and owner ~= ARGV[1] then return {2, 0} end
if #KEYS == 1 then
  redis.call('DEL', KEYS[1])
  return {8, 0}
end
if again then
  local token = redis.pcall('GET', KEYS[5])
  if type(token) == 'string' then return {1, token} end
end

-- include mint.lua
-- give is the reply when the new value has the lock, and else nil.
local function give()
  if redis.call('EXISTS', KEYS[4]) == 1 then return nil end
  local token = mint(KEYS[5], ARGV[5], tonumber(ARGV[4]))
  if type(token) == 'table' then return nil end
  if not again then
    redis.call('DEL', KEYS[3])
    if redis.pcall('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]).err then return nil end
  end
  return type(token) == 'string' and {1, token} or token
end

local reply = ARGV[7] == '' and give()
if reply then return reply end

-- include freed.lua
local room, me, queued = KEYS[2], ARGV[6], 0
local function othersWait()
  local n = redis.pcall('LLEN', room)
  local _, _, marked = mark(room)
  return type(n) == 'number' and n > (marked and 1 or 0)
end

if ARGV[7] ~= '' and me ~= '' then leave(room, me) end
if ARGV[7] == 'yield' and not again and othersWait() then
  if me ~= '' and type(redis.pcall('RPUSH', room, me)) == 'number' then queued = 1 end
  if not outlast(room, me, math.max(tonumber(ARGV[3]), NAP)) then queued = 0 end
elseif ARGV[7] ~= '' then
  reply = give()
  if reply then return reply end
end
redis.call('DEL', KEYS[1], KEYS[3])
freed(room, KEYS[1], 0)
return {8, queued}
