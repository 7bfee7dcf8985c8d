// Package script runs the lock's Lua scripts: one runner for all of them, which
// owns every re-send and tells an answer from an unknown outcome.
package script

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1 (SCRIPT LOAD)
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// Codes of the scripts' replies; the same number means the same in each script.
const (
	Done   = 1 // it has happened, now or by an earlier send
	Other  = 2 // another value is in the owner key
	Absent = 3 // there is no owner key
	Void   = 4 // this value was given up and takes nothing any more
	Differ = 5 // the depth is another one, nothing was done
	Queued = 6 // as Other, and the waiter's channel is in the room
	Owed   = 7 // as the code in Reply.N, but a mark that was to be left is still owed
	Freed  = 8 // the lock was to be handed over and is free instead
	Kept   = 9 // the lock is free, and will be kept for this process
)

// Script is one Lua source and its SHA-1.
type Script struct {
	name, source, sha string
	short             bool
	bySHA, byText     any // sha and source, as words of a command
}

// New makes a script; name is for error messages.
func New(name, source string) *Script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // as above
	s := &Script{name: name, source: source, sha: hex.EncodeToString(sum[:])}
	s.bySHA, s.byText = s.sha, s.source
	return s
}

// Short says that the script answers with a number alone for {Done, number}: a list costs
// Redis a block of memory. Of others such an answer is an error.
func (s *Script) Short() *Script {
	s.short = true
	return s
}

// Cluster is what a *redis.ClusterClient has and other clients have not; an interface,
// so that one that is embedded in something of the application is known as well.
type Cluster interface {
	ForEachMaster(ctx context.Context, fn func(ctx context.Context, client *redis.Client) error) error
	ReloadState(ctx context.Context)
	MasterForKey(ctx context.Context, key string) (*redis.Client, error)
}

// Load puts the scripts into the cache of every primary (SCRIPT LOAD), so that
// the first calls do not show as command errors in the host's metrics.
func Load(ctx context.Context, client redis.UniversalClient, scripts ...*Script) error {
	load := func(ctx context.Context, c redis.Scripter) error {
		for _, s := range scripts {
			if err := c.ScriptLoad(ctx, s.source).Err(); err != nil {
				return fmt.Errorf("SCRIPT LOAD of %s: %w", s.name, err)
			}
		}
		return nil
	}
	if cluster, ok := client.(Cluster); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
			return load(ctx, c)
		})
	}
	return load(ctx, client)
}

// Reply is a script's answer: a code above, a number whose meaning each script's
// header gives, and with Queued perhaps the hold that refused.
type Reply struct {
	Code int64
	N    int64
	Hold string
}

// parse checks the shape of a reply: two integers, of which the second may come
// as a string where a Lua number could not hold it, and a hold where there is one; or one
// alone, see Short.
func (s *Script) parse(v any) (Reply, error) {
	if n, ok := v.(int64); ok && s.short {
		return Reply{Code: Done, N: n}, nil
	}
	list, ok := v.([]any)
	if !ok || len(list) != 3 {
		return s.parsePair(v)
	}
	reply, err := s.parsePair(list[:2])
	if err != nil {
		return Reply{}, err
	}
	if reply.Hold, ok = list[2].(string); !ok || reply.Code != Queued {
		return Reply{}, fmt.Errorf("script %s: reply %v is not a pair, and names no hold", s.name, v)
	}
	return reply, nil
}

func (s *Script) parsePair(v any) (Reply, error) {
	pair, ok := v.([]any)
	if !ok || len(pair) != 2 {
		return Reply{}, fmt.Errorf("script %s: reply %v is not a pair", s.name, v)
	}
	code, ok := pair[0].(int64)
	if !ok {
		return Reply{}, fmt.Errorf("script %s: reply code %v is not an integer", s.name, pair[0])
	}
	switch n := pair[1].(type) {
	case int64:
		return Reply{Code: code, N: n}, nil
	case string:
		i, err := strconv.ParseInt(n, 10, 64)
		if err != nil {
			return Reply{}, fmt.Errorf("script %s: reply %q is not an integer", s.name, n)
		}
		return Reply{Code: code, N: i}, nil
	}
	return Reply{}, fmt.Errorf("script %s: reply %v is not an integer", s.name, pair[1])
}
