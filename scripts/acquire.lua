-- acquire: take a free lock for a new hold, and mint its fencing token.
--
-- KEYS  1 owner   2 count   3 mark of this value   4 counter (the lock's own, or the FenceKey)
-- ARGV  1 value (fresh for every new acquisition)
--       2 lease, ms
--       3 least TTL of the counter, ms; 0: a FenceKey, which has no TTL
--       4 "clock": TokenClock; "": TokenCounter
-- Reply {1, token}  taken, or taken by an earlier send of this very request
--       {2, PTTL}   another value owns it (-1: it has no TTL)
--       {4, 0}      this value was given up: the request came after its cleanup
--       error       names the key that holds something else; the lock is as it was
--
-- Scripts are not rolled back, so what can fail (the token) comes first and the
-- owner is written last. A refused acquire writes nothing.
local function named(reply, key)
  return {err = reply.err .. ' (key ' .. key .. ')'}
end

local function mint()
  if ARGV[4] == 'clock' then
    local t = redis.call('TIME')
    local now = t[1] * 1000000 + t[2]
    local last = redis.pcall('GET', KEYS[4])
    if type(last) == 'table' then return last end
    -- Anything but a plain number is left to INCR, which says what is wrong.
    if not last or (string.match(last, '^%d+$') and tonumber(last) < now) then
      redis.call('SET', KEYS[4], string.format('%.0f', now), 'KEEPTTL')
      return now
    end
  end
  return redis.pcall('INCR', KEYS[4])
end

local owner = redis.pcall('GET', KEYS[1])
if type(owner) == 'table' then return named(owner, KEYS[1]) end
if owner and owner ~= ARGV[1] then return {2, redis.call('PTTL', KEYS[1])} end
if owner then
  -- A re-send: the same answer again. Only a counter lost since is minted anew.
  local token = redis.pcall('GET', KEYS[4])
  if type(token) == 'string' then return {1, token} end
elseif redis.call('EXISTS', KEYS[3]) == 1 then
  return {4, 0}
end

local token = mint()
if type(token) == 'table' then return named(token, KEYS[4]) end
if token < 1 then
  redis.call('DECR', KEYS[4])
  return {err = 'ERR the fencing counter is below 0 (key ' .. KEYS[4] .. ')'}
end
-- Lua's numbers are doubles: from 2^53 on only the string is exact.
if token >= 9007199254740992 then token = redis.call('GET', KEYS[4]) end
local keep = tonumber(ARGV[3])
if keep > 0 and redis.call('PTTL', KEYS[4]) < keep then
  redis.call('PEXPIRE', KEYS[4], keep)
end
if not owner then
  redis.call('DEL', KEYS[2]) -- a count without an owner means nothing
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
return {1, token}
