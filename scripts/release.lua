-- release: leave one level of a hold, or, at the last, free the lock. It says
-- which depth is left, so that a request that runs twice counts once.
--
-- KEYS  1 owner   2 count (only when this hold wrote one: an absent key named
--       here makes a slot that is being moved answer TRYAGAIN)   3 mark
-- ARGV  1 value   2 depth that is left, 0: free the lock   3 TTL of the mark, ms; 0: no mark
-- Reply {1, count found, -1: none}   done
--       {2, 0}   another value, or no string at all, is in the owner key
--       {3, 0}   no owner key
--
-- The mark makes acquire refuse this value from now on: it is left when a send
-- of the value's acquire was never answered and may still arrive. A full Redis
-- accepts GET, DEL and PEXPIRE but no SET: the lock is freed without the mark,
-- and a partial release is settled by the hold's next call, which names its depth.
if ARGV[3] ~= '0' then redis.pcall('SET', KEYS[3], '1', 'PX', ARGV[3]) end
local owner = redis.pcall('GET', KEYS[1])
if not owner then return {3, 0} end
if owner ~= ARGV[1] then return {2, 0} end
local found = -1
if KEYS[2] then
  local count = redis.pcall('GET', KEYS[2])
  if type(count) == 'string' then found = tonumber(count) or -1 end
end
if ARGV[2] == '0' then
  if KEYS[2] then redis.call('DEL', KEYS[2]) end
  redis.call('DEL', KEYS[1])
elseif ARGV[2] == '1' then
  redis.call('DEL', KEYS[2]) -- no count means one level
else
  local left = redis.call('PTTL', KEYS[1])
  if left > 0 then redis.pcall('SET', KEYS[2], ARGV[2], 'PX', left) end
end
return {1, found}
