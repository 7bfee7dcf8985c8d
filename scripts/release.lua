-- release: end a hold and free its lock.
--
-- KEYS  1 owner   2 room   3 count (only when this hold wrote one)   4 mark
--       An absent key makes a slot that is being moved answer TRYAGAIN: it is then
--       sent again with the owner alone. A count runs out by itself, and so does a wait.
-- ARGV  1 value   2 TTL of the mark, ms; 0: no mark
--       3 for how many ms the lock is left to those who poll, before the first who waits; 0
--       4 the process's channel (only with 3), which goes behind the others
-- Reply 0        done
--       {2, 0}   another value, or no string at all, is in the owner key
--       {3, 0}   no owner key
--       {7, c}   as {c, 0}, but Redis refused the mark: it is still owed
--       error    an ACL forbids to ask who owns it: that is no loss
--
-- The mark makes acquire refuse this value from now on: it is left when a send
-- of the value's acquire was never answered and may still arrive. A full Redis
-- accepts GET and DEL but no SET: the lock is freed, the mark is owed.
local owed = false
if KEYS[4] and ARGV[2] ~= '0' then
  owed = redis.pcall('SET', KEYS[4], '1', 'PX', ARGV[2]).err
end
local owner = redis.pcall('GET', KEYS[1])
if type(owner) == 'table' and string.sub(owner.err, 1, 9) ~= 'WRONGTYPE' then return owner end
if not owner then return owed and {7, 3} or {3, 0} end
if owner ~= ARGV[1] then return owed and {7, 2} or {2, 0} end
if KEYS[3] then redis.call('DEL', KEYS[1], KEYS[3]) else redis.call('DEL', KEYS[1]) end
local done = owed and {7, 1} or 0
if not KEYS[2] then return done end

-- What is usual comes first, and what the rest needs after it.
local head, quiet = redis.pcall('LINDEX', KEYS[2], '0'), ARGV[3] ~= '0'
if not head and not quiet then return done end
-- include tell.lua
if not quiet and type(head) == 'string' and string.sub(head, 1, 1) ~= '!' then
  tell(KEYS[2], KEYS[1], 0, head)
  return done
end
-- include freed.lua
local there = ARGV[4] and leave(KEYS[2], ARGV[4])
if type(there) == 'number' and there > 0 and redis.pcall('RPUSH', KEYS[2], ARGV[4]) == 1 then
  outlast(KEYS[2], ARGV[4], NAP)
end
freed(KEYS[2], KEYS[1], tonumber(ARGV[3]))
return done
