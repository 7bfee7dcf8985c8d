-- wake: pass on what a process was told and has no waiter for any more.
--
-- KEYS  1 owner   2 room
-- ARGV  1 the channel of the process that was told; "": it has none
-- Reply {1, 0}  done
-- include freed.lua
local _, _, ends, whose = mark(KEYS[2])
if ends and whose ~= ARGV[1] then return {1, 0} end -- another was told since
local free = redis.call('EXISTS', KEYS[1]) == 0
if free or ends then leave(KEYS[2], ARGV[1]) end -- else it has asked since, or got the lock
if free then freed(KEYS[2], KEYS[1], 0) end
return {1, 0}
