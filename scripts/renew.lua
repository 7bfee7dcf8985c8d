-- renew: give a hold a new lease.
--
-- KEYS  1 owner   2 count (only when this hold wrote one)
-- ARGV  1 value   2 lease, ms   3 "set": exactly this lease; "lengthen": never a shorter one
-- Reply {1, 0}   done
--       {2, 0}   another value, or no string at all, is in the owner key
--       {3, 0}   no owner key
--       error    an ACL forbids to ask who owns it: that is no loss
--
-- An automatic renewal only lengthens: it may arrive late, after a longer lease
-- was asked for. A missing count is no loss, it frees nothing.
local owner = redis.pcall('GET', KEYS[1])
if type(owner) == 'table' and string.sub(owner.err, 1, 9) ~= 'WRONGTYPE' then return owner end
if not owner then return {3, 0} end
if owner ~= ARGV[1] then return {2, 0} end
for i = 1, #KEYS do
  if ARGV[3] == 'set' or redis.call('PTTL', KEYS[i]) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[i], ARGV[2])
  end
end
return {1, 0}
