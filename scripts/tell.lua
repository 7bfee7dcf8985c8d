-- tell: wake the process that has waited longest for a lock that has no owner any
-- more. Not a script of its own: it is included by those that may delete an owner.
--
-- PUBLISH says how many have heard it on this node, so that a process which has died is
-- passed over. For the one that heard, the lock is kept a moment: else whoever has just
-- released it would be back first, every time. With quiet, in ms, it is first left to
-- those who poll, for so long, and kept then.
--
-- What Redis refuses here (an ACL, no memory) costs the wake-up, never the release:
-- nobody depends on being told.
local KEPT = 50

-- tell begins with the channel that was read at the head of the room.
local function tell(room, owner, quiet, channel)
  local told = ''
  while told == '' and type(channel) == 'string' do
    local heard = redis.pcall('PUBLISH', channel, owner)
    if type(heard) == 'number' and heard > 0 then
      told = channel
    else
      if type(redis.pcall('LPOP', room)) ~= 'string' then return end
      channel = redis.pcall('LINDEX', room, '0')
    end
  end
  local ms = quiet + (told ~= '' and KEPT or 0)
  if ms == 0 then return end
  local t, n = redis.pcall('TIME'), nil -- now() is in room.lua, which the usual release does without
  if not t.err then
    local time = t[1] * 1000 + t[2] / 1000
    n = redis.pcall('LPUSH', room, string.format('!%.0f-%.0f', quiet > 0 and time + quiet or 0, time + ms) .. told)
  end
  if n == 1 and type(redis.pcall('PEXPIRE', room, ms)) ~= 'number' then redis.pcall('LPOP', room) end
  -- Without a mark it would be told for ever, whether it asks or not.
  if type(n) ~= 'number' and told ~= '' then redis.pcall('LPOP', room) end
end
