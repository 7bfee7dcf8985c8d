package fence

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis writes to keys of a Redis server, Sentinel group or Cluster, of version 7.0
// or later, or Valkey. It may be used by several goroutines and holds nothing that
// must be closed.
//
// Beside each resource it keeps the highest applied token, in the key [AppliedKey]
// and without a TTL. Both are written in one step, and Redis replicates and persists
// them in one. As long as Redis keeps that key, no older token writes; whatever loses
// it (DEL, FLUSHALL, an allkeys eviction policy, a failover that loses the last
// writes) lets the next writer pass, whoever that is. Writes past this package are
// not checked.
type Redis struct {
	client redis.UniversalClient
}

// NewRedis makes the resource; nothing is sent yet. A nil client and a *redis.Ring,
// whose shards stand in for each other without the data, are ErrInvalid.
func NewRedis(client redis.UniversalClient) (*Redis, error) {
	if client == nil {
		return nil, invalid("the Redis client must not be nil")
	}
	if _, ring := client.(*redis.Ring); ring {
		return nil, invalid("a *redis.Ring must not be used: its shards stand in for each other without the applied tokens")
	}
	return &Redis{client: client}, nil
}

// Set writes value to key unless token is stale: SET with PX, or without when ttl is
// 0. Value is of the types that go-redis takes; what else had key a TTL or another
// type is replaced, as SET does. ttl is 0 or at least 1 ms, and is cut to whole
// milliseconds; the applied token outlives it.
//
// The client may send it again after a lost reply, which is harmless: it is the same
// value under the same token. The error Is ErrStale or ErrInvalid, or leaves it open
// whether the value was written; Set may then be called again.
func (r *Redis) Set(ctx context.Context, key string, token int64, value any, ttl time.Duration) error {
	if ttl < 0 || ttl > 0 && ttl < time.Millisecond {
		return invalid("time to live %s must be 0 (none) or at least 1ms", ttl)
	}
	_, err := setScript.run(ctx, r.client, request{key: key, token: token, args: []any{value, ttl.Milliseconds()}})
	return err
}

// Del deletes key unless token is stale. That it did not exist is no error. The
// applied token stays, or a stale holder could write again. As with Set, it may be
// sent or called again.
func (r *Redis) Del(ctx context.Context, key string, token int64) error {
	_, err := delScript.run(ctx, r.client, request{key: key, token: token})
	return err
}

// Run runs a script of yours unless token is stale. Its KEYS are key, the resource
// that remembers the token, and then keys; its ARGV are args. In a Cluster all of
// them are in one slot, as with every script; others are refused by Redis before
// anything is written.
//
// The result is what the script returned, as go-redis gives it: int64, string,
// []any, nil; redis.NewCmdResult(fenced.Run(…)) has conversions. The script is sent
// at most once, whatever retries the client is configured for, because it may be one
// that must not run twice: after an error that is neither ErrStale nor ErrInvalid nor
// an answer of Redis, it may have run.
func (r *Redis) Run(ctx context.Context, key string, token int64, script *Script, keys []string, args ...any) (any, error) {
	if script == nil {
		return nil, invalid("the script must not be nil")
	}
	return script.run(ctx, r.client, request{key: key, token: token, once: true, keys: keys, args: args})
}

// AppliedKey is where Redis keeps the highest token applied to a resource: in the
// same Cluster slot as key, "{stock:42}:n" → "{stock:42}:n:applied-token" and
// "stock:42" → "applied-token:{stock:42}". Resources of different names have
// different ones. ErrInvalid: key is empty, or it has a closing brace and no hash tag,
// for which there is no such name.
//
// An operator may set it, to the last token before a change of the lock's counter, or
// delete it together with a resource that is out of use.
func AppliedKey(key string) (string, error) {
	switch {
	case key == "":
		return "", invalid(`key "" must not be empty`)
	case hasTag(key):
		return key + ":applied-token", nil
	case strings.Contains(key, "}"):
		return "", invalid("key %q must have a hash tag ({…}, not empty) or no closing brace", key)
	}
	return "applied-token:{" + key + "}", nil
}

// hasTag: between the first opening brace and the next closing one there is something,
// which then alone decides the slot.
func hasTag(key string) bool {
	_, rest, _ := strings.Cut(key, "{")
	return strings.IndexByte(rest, '}') > 0
}
