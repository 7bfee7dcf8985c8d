-- touch: keep a fencing counter alive. Sent rarely and apart from the renewals
-- of the lease, so that a missing counter can never cost a lease.
--
-- KEYS  1 counter
-- ARGV  1 least TTL, ms
-- Reply {1, 0}   it lives at least so long; nothing is ever shortened
--       {3, 0}   no counter
local left = redis.call('PTTL', KEYS[1])
if left == -2 then return {3, 0} end
if left < tonumber(ARGV[1]) then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return {1, 0}
