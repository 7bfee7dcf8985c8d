-- tell: wake the process that has waited longest for a lock that has no owner any
-- more. Not a script of its own: it stands before those that may delete an owner.
--
-- The room is a list of channels, one a process, in which it is once, however many
-- of its waiters want the lock. PUBLISH says how many have heard it on this node, so
-- that a process which has died is passed over. For the one that heard, the lock is
-- kept a moment ("!", until when in ms, its channel): else whoever has just released
-- it would be back first, every time. Only waiters respect that. Kept without a
-- channel it is for whoever polls.
--
-- What Redis refuses here (an ACL, no memory) costs the wake-up, never the release:
-- nobody depends on being told.
local KEPT = 50

local function keep(room, channel, ms)
  local t = redis.pcall('TIME')
  if t.err then return end
  local ends = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000) + ms)
  redis.pcall('LPUSH', room, '!' .. ends .. channel)
  if redis.pcall('PTTL', room) == -1 then redis.pcall('PEXPIRE', room, ms) end
end

local function tell(room, owner)
  local channel = redis.pcall('LPOP', room)
  while type(channel) == 'string' do
    if string.sub(channel, 1, 1) ~= '!' then
      local heard = redis.pcall('PUBLISH', channel, owner)
      if type(heard) == 'number' and heard > 0 then return keep(room, channel, KEPT) end
    end
    channel = redis.pcall('LPOP', room)
  end
end
