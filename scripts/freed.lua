-- freed: what happens in the room when the lock has no owner any more. Not a script of
-- its own: it is included by those that may delete an owner.
--
-- Who was told, and has not asked in the time for which the lock is kept, loses its
-- place: it stands still. If the lock comes free again in that time, whoever polls was
-- quicker, and done before it.
-- include room.lua
-- include tell.lua
local function freed(room, owner, quiet)
  local channel, _, ends, whose = mark(room)
  if ends then
    local time = now()
    local more = time and left(ends, time) or 0
    if more > 0 and whose == '' then
      quiet = math.max(quiet, more)
    elseif more > 0 then
      local heard = redis.pcall('PUBLISH', whose, owner)
      if type(heard) == 'number' and heard > 0 then return end
    end
    redis.pcall('LPOP', room)
    channel = redis.pcall('LINDEX', room, '0')
    if channel == whose then
      redis.pcall('LPOP', room)
      channel = redis.pcall('LINDEX', room, '0')
    end
  end
  tell(room, owner, quiet, channel)
end
