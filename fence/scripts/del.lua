-- del: DEL under the guard; the applied token stays.
--
-- KEYS  1 the resource
return redis.call('DEL', KEYS[1])
