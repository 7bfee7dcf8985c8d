-- set: SET under the guard.
--
-- KEYS  1 the resource
-- ARGV  1 value   2 time to live, ms; 0: none
if ARGV[2] == '0' then return redis.call('SET', KEYS[1], ARGV[1]) end
return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
