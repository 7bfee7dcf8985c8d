-- unlock: take one level off a hold that another process owns, known by its
-- value only: of this version or of the published one, whose count goes down
-- by DECR and whose keys are both kept above 0 and both deleted at 0.
--
-- KEYS  1 owner   2 count   3 room
-- ARGV  1 value   2 depth it is believed to have; 0: only tell
-- Reply {1, depth that is left}   done
--       {2, 0}       another value, or no string at all, is in the owner key
--       {3, 0}       no owner key
--       {5, depth}   nothing was done: this is the depth (no count: 1)
--       error        names the key that holds something else
--
-- Compare-and-set, because "one less" would count twice in a request that runs
-- twice. The TTL stays as it is.
-- include freed.lua
local owner = redis.pcall('GET', KEYS[1])
if type(owner) == 'table' and string.sub(owner.err, 1, 9) ~= 'WRONGTYPE' then return owner end
if not owner then return {3, 0} end
if owner ~= ARGV[1] then return {2, 0} end
local count = redis.pcall('GET', KEYS[2])
if type(count) == 'table' then
  return {err = count.err .. ' (key ' .. KEYS[2] .. ')'}
end
-- Whatever is no count of ours (at most 15 digits) frees no more than one level.
local depth = 1
if count and string.match(count, '^%d+$') and #count < 16 then
  depth = math.max(tonumber(count), 1)
end
if depth ~= tonumber(ARGV[2]) then return {5, depth} end
if depth > 1 then
  redis.call('SET', KEYS[2], string.format('%.0f', depth - 1), 'KEEPTTL')
else
  redis.call('DEL', KEYS[2])
  redis.call('DEL', KEYS[1])
  freed(KEYS[3], KEYS[1], 0)
end
return {1, depth - 1}
