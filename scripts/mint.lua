-- mint: the next fencing token of a counter, as a number or an exact string, or an
-- error that names the counter. Not a script of its own: it is included by those that
-- begin a hold. keep is the TTL of the counter in ms; 0: a FenceKey, which has none.
-- It raises no error: a hand-over that can mint none still has a lock to free.
local function named(reply, key)
  return {err = reply.err .. ' (key ' .. key .. ')'}
end

-- count is the next token, or an error. new: the counter was not there.
local function count(counter, mode)
  if mode == 'clock' then
    local t = redis.pcall('TIME')
    if t.err then return t end
    local now = t[1] * 1000000 + t[2]
    local last = redis.pcall('GET', counter)
    if type(last) == 'table' then return last end
    -- Anything but a plain number is left to INCR, which says what is wrong.
    if not last or (string.match(last, '^%d+$') and tonumber(last) < now) then
      local set = redis.pcall('SET', counter, string.format('%.0f', now), 'KEEPTTL')
      if set.err then return set end
      return now, not last
    end
  end
  local token = redis.pcall('INCR', counter)
  return token, token == 1
end

local function mint(counter, mode, keep)
  local token, new = count(counter, mode)
  if type(token) == 'table' then return named(token, counter) end
  if token < 1 then
    local back = redis.pcall('DECR', counter)
    if type(back) == 'table' then return named(back, counter) end
    return {err = 'ERR the fencing counter is below 0 (key ' .. counter .. ')'}
  end
  -- Lua's numbers are doubles: from 2^53 on only the string is exact.
  if token >= 9007199254740992 then token = redis.pcall('GET', counter) end
  if keep == 0 then return token end
  -- A tenth of the TTL may be used up, so that not every hold has to set it.
  local lives = redis.pcall('PTTL', counter)
  if type(lives) == 'number' and lives < keep * 9 / 10 then lives = redis.pcall('PEXPIRE', counter, keep) end
  if type(lives) ~= 'table' then return token end
  if new then redis.pcall('DEL', counter) end -- it would stay for ever
  return named(lives, counter)
end
