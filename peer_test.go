package redislock_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
	"github.com/go-lynx/lynx-redis-lock/internal/v163"
)

// peer is a holder of the published version, written by hand from what it sends.
type peer struct {
	client *redis.Client
	key    string
	value  string
	ttl    time.Duration
}

var peerValues atomic.Int64

func (p *peer) keys() []string {
	tag := redislock.HashTag(p.key)
	return []string{tag + ":owner", tag + ":count", tag + ":token"}
}

func (p *peer) run(ctx context.Context, t *testing.T, s *redis.Script, args ...any) int64 {
	t.Helper()
	n, err := s.Run(ctx, p.client, p.keys(), args...).Int64()
	if err != nil {
		t.Error(err)
	}
	return n
}

// acquire returns the token, 0 when the lock is another's.
func (p *peer) acquire(ctx context.Context, t *testing.T) int64 {
	t.Helper()
	return p.run(ctx, t, v163.Acquire, p.value, p.ttl.Milliseconds(), (24 * time.Hour).Milliseconds())
}

// release returns the depth that is left, -1 when the lock is another's.
func (p *peer) release(ctx context.Context, t *testing.T) int64 {
	t.Helper()
	return p.run(ctx, t, v163.Release, p.value)
}

// renew returns 1 when both keys were there, -1 when the lock is another's.
func (p *peer) renew(ctx context.Context, t *testing.T, ttl time.Duration) int64 {
	t.Helper()
	return p.run(ctx, t, v163.Renew, p.value, ttl.Milliseconds())
}

// peerRig is one key that both versions use.
type peerRig struct {
	client *redis.Client
	ours   redislock.Provider
	key    string
}

func (r *peerRig) peer() *peer {
	return &peer{client: r.client, key: r.key, value: fmt.Sprint("peer-", peerValues.Add(1)), ttl: time.Minute}
}

func (r *peerRig) lock(t *testing.T) *redislock.RedisLock {
	t.Helper()
	options := redislock.DefaultLockOptions
	options.Expiration = time.Minute
	options.ScriptCallTimeout = 10 * time.Second
	lock, err := r.ours.NewLock(t.Context(), r.key, options)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

// wantKeys checks owner and count, "" for an absent key.
func (r *peerRig) wantKeys(t *testing.T, owner, count string) {
	t.Helper()
	tag := redislock.HashTag(r.key)
	for key, want := range map[string]string{tag + ":owner": owner, tag + ":count": count} {
		if got := r.client.Get(t.Context(), key).Val(); got != want {
			t.Errorf("%s holds %q, want %q", key, got, want)
		}
	}
}

func (r *peerRig) pttl(t *testing.T, suffix string) time.Duration {
	t.Helper()
	left, err := r.client.PTTL(t.Context(), redislock.HashTag(r.key)+suffix).Result()
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func TestPeer(t *testing.T) {
	t.Parallel()
	for _, backend := range []struct {
		name  string
		start func(t *testing.T) *redis.Client
	}{
		{"miniredis", func(t *testing.T) *redis.Client {
			c := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr(), ContextTimeoutEnabled: true})
			t.Cleanup(func() { _ = c.Close() })
			return c
		}},
		{"standalone", func(t *testing.T) *redis.Client { return redistest.Start(t).Client(t) }},
	} {
		t.Run(backend.name, func(t *testing.T) {
			t.Parallel()
			client := backend.start(t)
			for i, c := range peerCases {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.run(t, &peerRig{client, redislock.NewProvider(client), fmt.Sprint("peer-", i)})
				})
			}
		})
	}
}

var peerCases = []struct {
	name string
	run  func(t *testing.T, r *peerRig)
}{
	{"ours excludes the published version until the last release", oursExcludesThePeer},
	{"the published version excludes ours until its last release", peerExcludesOurs},
	{"its renewal and release leave our hold alone", peerLeavesOursAlone},
	{"our renewal and release leave its hold alone", oursLeavesThePeerAlone},
	{"a waiter of ours gets the lock that it releases without telling", waiterGetsThePeersLock},
	{"a stale count of its hold is no depth of ours", peersStaleCount},
	{"tokens strictly increase across both", tokensIncreaseAcrossBoth},
	{"UnlockByValue of its hold goes as published", unlockOfAPeersHold},
	{"two of ours and two of the published version contend", bothContend},
}
