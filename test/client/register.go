package client

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lynx/lynx-redis-lock/test/history"
)

// register is the resource that the locks protect: one value a key, on a server of its
// own. A write with an older token than the newest it has seen is refused.
type register struct{ client *redis.Client }

func newRegister(addr string) register {
	return register{redis.NewClient(&redis.Options{Addr: addr})}
}

// Reply {1, n}: the n'th write that was applied; {0, highest}: a newer token was seen.
var writeScript = redis.NewScript(`
	local highest = tonumber(redis.call('HGET', KEYS[1], 'token') or '0')
	if tonumber(ARGV[1]) < highest then return {0, highest} end
	redis.call('HSET', KEYS[1], 'token', ARGV[1])
	return {1, redis.call('HINCRBY', KEYS[1], 'seq', 1)}`)

// write applies one write for a hold, which believes it holds the lock right now.
func (r register) write(s *scribe, key, hold string, token int64) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	op := history.Op{Do: history.Write, Key: key, Hold: hold, Token: token, Call: history.Now()}
	reply, err := writeScript.Run(ctx, r.client, []string{key}, token).Int64Slice()
	op.Return, op.Error = history.Now(), text(err)
	switch {
	case err != nil:
		op.Result = history.Unknown
	case reply[0] == 1:
		op.Result, op.Seq = history.OK, reply[1]
	default:
		op.Result, op.Highest = history.Refused, reply[1]
	}
	s.op(op)
}
