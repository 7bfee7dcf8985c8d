-- wake: pass on what a process was told and has no waiter for any more.
-- It stands behind tell.lua.
--
-- KEYS  1 owner   2 room
-- ARGV  1 the channel of the process that was told
-- Reply {1, 0}  done
local first = redis.pcall('LINDEX', KEYS[2], 0)
if type(first) == 'string' and string.sub(first, 1, 1) == '!' then
  if string.match(first, '^!%d+-%d+(.*)$') ~= ARGV[1] then return {1, 0} end -- another has been told since
  redis.pcall('LPOP', KEYS[2])
end
if redis.call('EXISTS', KEYS[1]) == 0 then tell(KEYS[2], KEYS[1], 0) end
return {1, 0}
