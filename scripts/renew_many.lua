-- renew_many: lengthen the leases of many holds in one round trip.
--
-- KEYS  for each hold: its owner, and its count (only when this hold wrote one)
-- ARGV  for each hold: value, lease in ms, how many of KEYS are its own
-- Reply for each hold, in order:
--       1      done; a longer lease was left as it is
--       2      another value, or no string at all, is in the owner key
--       3      no owner key
--       0      not known: "renew" of this hold alone gives the error
--       error  what the first hold met: most likely everybody's
--
-- One hold's trouble is no other's, hence pcall. What is said in renew about late
-- arrivals and missing counts holds here as well.
local function lengthen(key, lease)
  local done = redis.pcall('PEXPIRE', key, lease, 'GT')
  if done == 0 and redis.pcall('PTTL', key) == -1 then -- to GT, no TTL is an endless one
    done = redis.pcall('PEXPIRE', key, lease)
  end
  return done
end

local codes, key = {}, 1
for i = 1, #ARGV, 3 do
  local code, trouble, keys = 1, nil, tonumber(ARGV[i + 2])
  local owner = redis.pcall('GET', KEYS[key])
  if type(owner) == 'table' then
    code = 2
    if string.sub(owner.err, 1, 9) ~= 'WRONGTYPE' then trouble = owner end
  elseif not owner then
    code = 3
  elseif owner ~= ARGV[i] then
    code = 2
  else
    for k = key, key + keys - 1 do
      local done = lengthen(KEYS[k], ARGV[i + 1])
      if type(done) == 'table' then trouble = done; break end
    end
  end
  if trouble and i == 1 then return trouble end
  if trouble then code = 0 end
  codes[#codes + 1] = code
  key = key + keys
end
return codes
