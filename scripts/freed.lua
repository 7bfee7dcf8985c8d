-- freed: what a release does for those who wait, now that the lock is free.
-- Not a script of its own: it stands behind release.lua, room.lua and tell.lua.
if ARGV[4] then
  head = nil
  local there = leave(KEYS[2], ARGV[4])
  if type(there) == 'number' and there > 0 and redis.pcall('RPUSH', KEYS[2], ARGV[4]) == 1 then
    redis.pcall('PEXPIRE', KEYS[2], NAP)
  end
end
tell(KEYS[2], KEYS[1], tonumber(ARGV[3]), head)
return owed and {7, 1} or 0
