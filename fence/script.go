package fence

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	_ "embed"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed scripts/guard.lua
	guardSource string
	//go:embed scripts/set.lua
	setSource string
	//go:embed scripts/del.lua
	delSource string

	setScript = NewScript(setSource)
	delScript = NewScript(delSource)
)

// Script is a Lua script that runs only under a token that is not stale. Make it with
// NewScript, once; it may be used by several goroutines.
type Script struct {
	source, sha string
}

// NewScript puts the check in front of a Lua script of yours, for [Redis.Run]. In it
// KEYS and ARGV are yours alone, and what it returns is what Run returns. An empty
// body is a script that only records the token.
//
// The check and the script are one step, as every script of Redis is. Redis does not
// undo the writes of a script that fails half-way; the token is recorded by then, so
// that no older holder can write over them. Body is code and goes to Redis as it is:
// data belongs into ARGV. Mistakes in it are reported by Run.
func NewScript(body string) *Script {
	source := "local function apply() " + body + "\nend\n" + guardSource
	sum := sha1.Sum([]byte(source)) //nolint:gosec // as above
	return &Script{source: source, sha: hex.EncodeToString(sum[:])}
}

// command lets go-redis repeat a request after a lost reply, or forbids it.
type command struct {
	*redis.Cmd
	once bool
}

func (c command) NoRetry() bool { return c.once }

func (c command) Clone() redis.Cmder { return command{c.Cmd.Clone().(*redis.Cmd), c.once} }

// request is one guarded script on its way.
type request struct {
	key   string
	token int64
	once  bool // it is not known to be idempotent: never send twice what may have run
	keys  []string
	args  []any
}

// run sends the script by its name, and with its source where Redis does not know it.
func (s *Script) run(ctx context.Context, client redis.UniversalClient, r request) (any, error) {
	applied, err := AppliedKey(r.key)
	if err != nil {
		return nil, err
	}
	if err := checkToken(r.token); err != nil {
		return nil, err
	}
	words := []any{"evalsha", s.sha, len(r.keys) + 2, r.key}
	for _, key := range r.keys {
		words = append(words, key)
	}
	words = append(words, applied)
	words = append(append(words, r.args...), r.token)

	reply, err := r.send(ctx, client, words)
	if redis.HasErrorPrefix(err, "NOSCRIPT") { // an answer: nothing ran
		words[0], words[1] = "eval", s.source
		reply, err = r.send(ctx, client, words)
	}
	if err != nil {
		return nil, fmt.Errorf("fence: %q with token %d: %w", r.key, r.token, err)
	}
	return r.parse(applied, reply)
}

func (r request) send(ctx context.Context, client redis.UniversalClient, words []any) (any, error) {
	cmd := command{redis.NewCmd(ctx, words...), r.once}
	cmd.SetFirstKeyPos(3)
	_ = client.Process(ctx, cmd) // the command keeps its error
	return cmd.Result()
}

// parse reads a reply of guard.lua.
func (r request) parse(appliedKey string, reply any) (any, error) {
	pair, _ := reply.([]any)
	if len(pair) == 1 {
		pair = append(pair, nil) // Redis ends a list at its first nil
	}
	if len(pair) != 2 {
		return nil, fmt.Errorf("fence: %q with token %d: reply %v is not a pair", r.key, r.token, reply)
	}
	switch pair[0] {
	case int64(1):
		return pair[1], nil
	case int64(2):
		if applied, err := strconv.ParseInt(fmt.Sprint(pair[1]), 10, 64); err == nil {
			return nil, &StaleError{Resource: strconv.Quote(r.key), Token: r.token, Applied: applied}
		}
	}
	return nil, fmt.Errorf("fence: %q with token %d: the applied token in %q is %q, not an integer from 1 to 2^63-1",
		r.key, r.token, appliedKey, fmt.Sprint(pair[1]))
}
