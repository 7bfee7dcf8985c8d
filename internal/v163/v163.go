// Package v163 has what version v1.6.3 of this plugin sends, written by hand from
// its description: for the peers that tests put beside the lock.
package v163

import "github.com/redis/go-redis/v9"

// The scripts. KEYS are owner, count and, of Acquire, token; ARGV are the value, the
// lease in ms (not of Release), and of Acquire the TTL of the token in ms.
var (
	// Acquire answers the token, or 0: refused.
	Acquire = redis.NewScript(`
		local owner = redis.call('GET', KEYS[1])
		if not owner then
			redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX')
			redis.call('SET', KEYS[2], 1, 'PX', ARGV[2])
			local token = redis.call('INCR', KEYS[3])
			redis.call('PEXPIRE', KEYS[3], ARGV[3])
			return token
		elseif owner == ARGV[1] then
			redis.call('INCR', KEYS[2])
			redis.call('PEXPIRE', KEYS[1], ARGV[2])
			redis.call('PEXPIRE', KEYS[2], ARGV[2])
			return tonumber(redis.call('GET', KEYS[3]))
		end
		return 0`)
	// Release answers the depth that is left, or -1: not the owner.
	Release = redis.NewScript(`
		if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end
		local left = redis.call('DECR', KEYS[2])
		if left <= 0 then
			redis.call('DEL', KEYS[1])
			redis.call('DEL', KEYS[2])
		end
		return left`)
	// Renew answers 1, 0 when a key was missing, or -1: not the owner.
	Renew = redis.NewScript(`
		if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end
		local owner = redis.call('PEXPIRE', KEYS[1], ARGV[2])
		local count = redis.call('PEXPIRE', KEYS[2], ARGV[2])
		if owner == 1 and count == 1 then return 1 end
		return 0`)
)
