-- mint: the next fencing token of a counter, as a number or an exact string, or an
-- error that names the counter. Not a script of its own: it stands before those that
-- begin a hold. keep is the TTL of the counter in ms; 0: a FenceKey, which has none.
local function named(reply, key)
  return {err = reply.err .. ' (key ' .. key .. ')'}
end

local function count(counter, mode)
  if mode == 'clock' then
    local t = redis.call('TIME')
    local now = t[1] * 1000000 + t[2]
    local last = redis.pcall('GET', counter)
    if type(last) == 'table' then return last end
    -- Anything but a plain number is left to INCR, which says what is wrong.
    if not last or (string.match(last, '^%d+$') and tonumber(last) < now) then
      redis.call('SET', counter, string.format('%.0f', now), 'KEEPTTL')
      return now
    end
  end
  return redis.pcall('INCR', counter)
end

local function mint(counter, mode, keep)
  local token = count(counter, mode)
  if type(token) == 'table' then return named(token, counter) end
  if token < 1 then
    redis.call('DECR', counter)
    return {err = 'ERR the fencing counter is below 0 (key ' .. counter .. ')'}
  end
  -- Lua's numbers are doubles: from 2^53 on only the string is exact.
  if token >= 9007199254740992 then token = redis.call('GET', counter) end
  -- A tenth of it may be used up, so that not every hold has to set it.
  if keep > 0 and redis.call('PTTL', counter) < keep * 9 / 10 then
    redis.call('PEXPIRE', counter, keep)
  end
  return token
end
