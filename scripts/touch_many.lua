-- touch_many: keep many fencing counters alive in one round trip; see touch.
--
-- KEYS  the counters
-- ARGV  the least TTL of each, ms
-- Reply for each, in order:
--       1   it lives at least so long; nothing is ever shortened
--       3   no counter
--       0   not known: asked for again with a later renewal
local codes = {}
for i = 1, #KEYS do
  local left = redis.pcall('PTTL', KEYS[i])
  local code = 1
  if type(left) == 'table' then
    code = 0
  elseif left == -2 then
    code = 3
  elseif left < tonumber(ARGV[i]) and type(redis.pcall('PEXPIRE', KEYS[i], ARGV[i])) == 'table' then
    code = 0
  end
  codes[i] = code
end
return codes
