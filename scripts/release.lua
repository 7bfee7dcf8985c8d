-- release: leave one level of a hold, or, at the last, free the lock. It says
-- which depth is left, so that a request that runs twice counts once.
--
-- KEYS  1 owner   2 count (only when this hold wrote one)   3 mark
--       An absent key makes a slot that is being moved answer TRYAGAIN: the last
--       level is then sent again with the owner alone, and a count runs out by itself.
-- ARGV  1 value   2 depth that is left, 0: free the lock   3 TTL of the mark, ms; 0: no mark
-- Reply {1, count found, -1: none}   done
--       {2, 0}   another value, or no string at all, is in the owner key
--       {3, 0}   no owner key
--       {7, c}   as {c, …}, but Redis refused the mark: it is still owed
--       error    an ACL forbids to ask who owns it: that is no loss
--
-- The mark makes acquire refuse this value from now on: it is left when a send
-- of the value's acquire was never answered and may still arrive. A full Redis
-- accepts GET, DEL and PEXPIRE but no SET: the lock is freed, the mark is owed,
-- and a partial release is settled by the hold's next call, which names its depth.
local owed = false
if KEYS[3] and ARGV[3] ~= '0' then
  owed = redis.pcall('SET', KEYS[3], '1', 'PX', ARGV[3]).err
end
local owner = redis.pcall('GET', KEYS[1])
if type(owner) == 'table' and string.sub(owner.err, 1, 9) ~= 'WRONGTYPE' then return owner end
if not owner then return owed and {7, 3} or {3, 0} end
if owner ~= ARGV[1] then return owed and {7, 2} or {2, 0} end
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
return owed and {7, 1} or {1, found}
