-- tell: wake the process that has waited longest for a lock that has no owner any
-- more. Not a script of its own: it stands, behind room.lua, before those that may
-- delete an owner.
--
-- PUBLISH says how many have heard it on this node, so that a process which has died is
-- passed over. For the one that heard, the lock is kept a moment: else whoever has just
-- released it would be back first, every time. With quiet, in ms, it is first left to
-- those who poll, for so long, and kept then.
--
-- Who was told, and has not asked in that time, loses its place: it stands still. If
-- the lock comes free again in that time, whoever polls was quicker, and done before it.
--
-- What Redis refuses here (an ACL, no memory) costs the wake-up, never the release:
-- nobody depends on being told.
local KEPT = 50

local function keep(room, channel, quiet, kept)
  local time, n = now(), nil
  if time then
    local from = quiet > 0 and time + quiet or 0
    n = redis.pcall('LPUSH', room, string.format('!%.0f-%.0f', from, time + quiet + kept) .. channel)
  end
  if n == 1 then redis.pcall('PEXPIRE', room, quiet + kept) end
  -- Without a mark it would be told for ever, whether it asks or not.
  if type(n) ~= 'number' and channel ~= '' then redis.pcall('LPOP', room) end
end

-- head: what has been read at the head of the room already.
local function tell(room, owner, quiet, head)
  local channel, _, ends, whose = mark(room, head)
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
    channel = redis.pcall('LINDEX', room, 0)
    if channel == whose then
      redis.pcall('LPOP', room)
      channel = redis.pcall('LINDEX', room, 0)
    end
  end
  while type(channel) == 'string' do
    local heard = redis.pcall('PUBLISH', channel, owner)
    if type(heard) == 'number' and heard > 0 then return keep(room, channel, quiet, KEPT) end
    if type(redis.pcall('LPOP', room)) ~= 'string' then return end
    channel = redis.pcall('LINDEX', room, 0)
  end
  if quiet > 0 then keep(room, '', quiet, 0) end
end
