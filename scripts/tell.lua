-- tell: wake the process that has waited longest for a lock that has no owner any
-- more. Not a script of its own: it stands before those that may delete an owner.
--
-- The room is a list of channels, one a process, in which it is once, however many
-- of its waiters want the lock. PUBLISH says how many have heard it on this node, so
-- that a process which has died is passed over. For the one that heard, the lock is
-- kept a moment: else whoever has just released it would be back first, every time.
-- With quiet, in ms, it is first left to those who merely poll, for so long, and kept
-- then. "!" stands for that at the head of the room: until when it is quiet (0: it is
-- not), a "-", until when it is kept, both in ms, and the channel, if anybody heard.
-- Only waiters respect it.
--
-- What Redis refuses here (an ACL, no memory) costs the wake-up, never the release:
-- nobody depends on being told.
local KEPT = 50

local function keep(room, channel, quiet, kept)
  local t = redis.pcall('TIME')
  if t.err then return end
  local now = t[1] * 1000 + math.floor(t[2] / 1000)
  local from = quiet > 0 and now + quiet or 0
  redis.pcall('LPUSH', room, string.format('!%.0f-%.0f', from, now + quiet + kept) .. channel)
  if redis.pcall('PTTL', room) == -1 then redis.pcall('PEXPIRE', room, quiet + kept) end
end

local function tell(room, owner, quiet)
  local channel = redis.pcall('LPOP', room)
  while type(channel) == 'string' do
    if string.sub(channel, 1, 1) ~= '!' then
      local heard = redis.pcall('PUBLISH', channel, owner)
      if type(heard) == 'number' and heard > 0 then return keep(room, channel, quiet, KEPT) end
    end
    channel = redis.pcall('LPOP', room)
  end
  if quiet > 0 then keep(room, '', quiet, 0) end
end
