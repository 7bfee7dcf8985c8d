-- status: who owns the lock, and for how long. A script rather than GET, so that
-- a client that reads from replicas asks the primary.
--
-- KEYS  1 owner
-- ARGV  1 value
-- Reply {1, PTTL}   this value owns it (-1: it has no TTL)
--       {2, 0}      another value, or no string at all, is in the owner key
--       {3, 0}      no owner key
--       error       an ACL forbids to ask who owns it: that is no loss
local owner = redis.pcall('GET', KEYS[1])
if type(owner) == 'table' and string.sub(owner.err, 1, 9) ~= 'WRONGTYPE' then return owner end
if not owner then return {3, 0} end
if owner ~= ARGV[1] then return {2, 0} end
return {1, redis.call('PTTL', KEYS[1])}
