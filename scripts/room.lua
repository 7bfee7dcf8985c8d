-- room: the list of the channels of those who wait, one a process, in which it is once,
-- however many of its waiters want the lock. Not a script of its own: it is included
-- by those that look into it. A process stays in its place until it has the lock.
local NAP = 2000 -- ms that one sleeps at most; longestNap in wait.go

-- A mark at the head says for whom the free lock is kept: "!", until when it is left
-- to those who merely poll (0: it is not), "-", until when it is kept then, both in ms,
-- and the channel of the process that was told, if there is one. It is the next in the
-- list. Only waiters respect it. head: what has been read there already.
local function mark(room, head)
  head = head or redis.pcall('LINDEX', room, '0')
  if type(head) ~= 'string' then return end
  local quiet, ends, whose = string.match(head, '^!(%d+)-(%d+)(.*)$')
  return head, tonumber(quiet), tonumber(ends), whose
end

-- now is the server's clock in ms; nil: not allowed.
local function now()
  local t = redis.pcall('TIME')
  return not t.err and t[1] * 1000 + t[2] / 1000 or nil
end

-- left is how long something ends from now, in ms, 0 when it is over. Nothing is kept for
-- longer than that from the beginning: if it seems so the clock went back.
local function left(ends, time)
  local ms = math.ceil(ends - time)
  return ms > 0 and ms <= 200 and ms or 0
end

-- leave takes a process out, with what is kept for it. It says how often it was there.
-- head: as in mark.
local function leave(room, channel, head)
  local first, _, _, whose = mark(room, head)
  if whose == channel then redis.pcall('LPOP', room) end
  return first and redis.pcall('LREM', room, '0', channel) or 0
end

-- outlast has the room live for ms at least, in which the process has just been put. Where
-- that is refused it is out again, and false.
local function outlast(room, channel, ms)
  local lives = redis.pcall('PTTL', room)
  if type(lives) == 'number' and lives < ms then lives = redis.pcall('PEXPIRE', room, ms) end
  if type(lives) ~= 'table' then return true end
  redis.pcall('LREM', room, '0', channel)
  return false
end
