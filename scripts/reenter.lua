-- reenter: one more level of a hold. It says which depth is wanted, not "one
-- more", so that a request that runs twice counts once.
--
-- KEYS  1 owner   2 count   3 counter (absent with a FenceKey)
-- ARGV  1 value   2 lease, ms   3 depth wanted   4 least TTL of the counter, ms
-- Reply {1, count found, -1: none}   done: both keys live at least the lease; a reentry only lengthens
--       {2, 0}   another value, or no string at all, is in the owner key
--       {3, 0}   no owner key
--       error    names the key that holds something else; nothing was written
local owner = redis.pcall('GET', KEYS[1])
if type(owner) == 'table' and string.sub(owner.err, 1, 9) ~= 'WRONGTYPE' then return owner end
if not owner then return {3, 0} end
if owner ~= ARGV[1] then return {2, 0} end
local found = redis.pcall('GET', KEYS[2])
if type(found) == 'table' then
  return {err = found.err .. ' (key ' .. KEYS[2] .. ')'}
end
local left = math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[2]))
redis.call('SET', KEYS[2], ARGV[3], 'PX', left) -- first: a full Redis refuses it
redis.call('PEXPIRE', KEYS[1], left)
if KEYS[3] and redis.call('PTTL', KEYS[3]) < tonumber(ARGV[4]) then
  redis.call('PEXPIRE', KEYS[3], ARGV[4])
end
return {1, tonumber(found) or -1}
