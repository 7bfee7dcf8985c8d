-- guard: run apply(), unless a newer token was applied before.
--
-- What is sent is "local function apply() BODY end" and then this, so that line
-- numbers in an error are those of BODY.
--
-- KEYS  those of BODY, then the key of the highest applied token
-- ARGV  those of BODY, then the token
-- Reply {1, result}    applied; result is what BODY returned, or is missing
--       {2, applied}   refused: the applied token is newer, nothing was written
--       {3, applied}   refused: what is in the key is no token, nothing was written
--       error          of BODY, or of Redis
--
-- Tokens are compared as text, shorter is smaller: a Lua number is exact up to 2^53
-- only. The token is recorded before BODY runs: Redis does not undo what a script has
-- written when it fails later, and no older holder may write over that. A token that
-- is recorded already is not written again, so that its holder can still delete
-- something when Redis is full.
local key, token = table.remove(KEYS), table.remove(ARGV)
local applied = redis.call('GET', key)
if applied then
  if not string.match(applied, '^[1-9]%d*$') then return {3, applied} end
  if #applied > #token or (#applied == #token and applied > token) then return {2, applied} end
end
if applied ~= token then redis.call('SET', key, token) end
local result = apply()
if type(result) == 'table' and result.err then return result end
return {1, result}
