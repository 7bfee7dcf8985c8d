-- leave: one level less of a hold that keeps the lock. It says which depth is left,
-- not "one less", so that a request that runs twice counts once.
--
-- KEYS  1 owner   2 count
-- ARGV  1 value   2 depth that is left, above 0
-- Reply {1, count found, -1: none}   done
--       {2, 0}   another value, or no string at all, is in the owner key
--       {3, 0}   no owner key
--       error    an ACL forbids to ask who owns it: that is no loss
--
-- A full Redis accepts no SET: the hold's next call names its depth and settles it.
local owner = redis.pcall('GET', KEYS[1])
if type(owner) == 'table' and string.sub(owner.err, 1, 9) ~= 'WRONGTYPE' then return owner end
if not owner then return {3, 0} end
if owner ~= ARGV[1] then return {2, 0} end
local count = redis.pcall('GET', KEYS[2])
if ARGV[2] == '1' then
  redis.call('DEL', KEYS[2]) -- no count means one level
else
  local left = redis.call('PTTL', KEYS[1])
  if left > 0 then redis.pcall('SET', KEYS[2], ARGV[2], 'PX', left) end
end
return {1, type(count) == 'string' and tonumber(count) or -1}
