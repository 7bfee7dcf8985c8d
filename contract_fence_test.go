package redislock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// fence is the FenceKey of a bed.
func (b *bed) fence() string { return redislock.HashTag(b.key) + ":fence" }

func (b *bed) fenced(o *redislock.LockOptions) { o.FenceKey = b.fence() }

var fenceContract = []behaviour{
	{"HashTag_is_the_tag_of_the_locks_keys", func(t *testing.T, b *bed) {
		equal(t, "HashTag", redislock.HashTag(b.key), "{lynx:lock:"+b.key+"}")
		lock := b.held(t)
		equal(t, "the owner", b.get(t, redislock.HashTag(b.key)+":owner"), lock.GetValue())
	}},
	{"with_a_FenceKey_the_token_is_its_value_and_no_other_counter_is_kept", func(t *testing.T, b *bed) {
		b.set(t, b.fence(), "41", 0)
		t.Cleanup(func() { b.del(t, b.fence()) })
		lock := b.held(t, b.fenced)
		equal(t, "GetToken", lock.GetToken(), 42)
		equal(t, "the FenceKey", b.get(t, b.fence()), "42")
		must(t, "Acquire", lock.Acquire(t.Context()))
		must(t, "Renew", lock.Renew(t.Context(), time.Minute))
		equal(t, "the FenceKey after a reentry", b.get(t, b.fence()), "42")
		must(t, "Release", lock.Release(t.Context()))
		must(t, "Release", lock.Release(t.Context()))
		equal(t, "the lock's own counter", b.pttl(t, b.tokenKey()), -2)
	}},
	{"a_FenceKey_starts_at_1_has_no_TTL_and_is_never_deleted", func(t *testing.T, b *bed) {
		t.Cleanup(func() { b.del(t, b.fence()) })
		for want := range int64(3) {
			lock := b.held(t, b.fenced, tokenTTL(time.Second))
			equal(t, "GetToken", lock.GetToken(), want+1)
			equal(t, "TTL of the FenceKey while held", b.pttl(t, b.fence()), -1)
			must(t, "Acquire", lock.Acquire(t.Context()))
			must(t, "Renew", lock.Renew(t.Context(), time.Minute))
			must(t, "Release", lock.Release(t.Context()))
			must(t, "Release", lock.Release(t.Context()))
			equal(t, "TTL of the FenceKey after the release", b.pttl(t, b.fence()), -1)
		}
		equal(t, "the FenceKey", b.get(t, b.fence()), "3")
	}},
	{"a_renewed_hold_gives_its_FenceKey_no_TTL", func(t *testing.T, b *bed) {
		t.Cleanup(func() { b.del(t, b.fence()) })
		lock := b.held(t, b.fenced, renewed, expiration(lease), tokenTTL(10*time.Millisecond))
		staysHeld(t, b, lock)
		equal(t, "TTL of the FenceKey", b.pttl(t, b.fence()), -1)
	}},
	{"a_refused_acquire_leaves_the_FenceKey", func(t *testing.T, b *bed) {
		t.Cleanup(func() { b.del(t, b.fence()) })
		b.held(t, b.fenced)
		wantIs(t, b.lock(t, b.fenced).Acquire(t.Context()), redislock.ErrLockAcquireConflict)
		equal(t, "the FenceKey", b.get(t, b.fence()), "1")
	}},
	{"a_FenceKey_that_cannot_count_takes_no_lock", func(t *testing.T, b *bed) {
		b.set(t, b.fence(), "abc", time.Minute)
		err := b.lock(t, b.fenced).Acquire(t.Context())
		wantIs(t, err, redislock.ErrLockAcquireFailed)
		if err == nil || !strings.Contains(err.Error(), b.fence()) {
			t.Errorf("error %v does not name the FenceKey", err)
		}
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
		equal(t, "the FenceKey", b.get(t, b.fence()), "abc")
	}},
	{"TokenMode_applies_to_the_FenceKey", func(t *testing.T, b *bed) {
		t.Cleanup(func() { b.del(t, b.fence()) })
		first := b.hold(t, b.fenced, clock)
		if first < time.Now().Add(-time.Minute).UnixMicro() {
			t.Errorf("the token %d does not follow the clock", first)
		}
		equal(t, "the FenceKey", b.counter(t, b.fence()), first)
		equal(t, "TTL of the FenceKey", b.pttl(t, b.fence()), -1)
		if next := b.hold(t, b.fenced, clock); next <= first {
			t.Errorf("the token %d is not above %d", next, first)
		}
	}},
	{"LockContext_with_a_FenceKey_gives_its_value", func(t *testing.T, b *bed) {
		b.set(t, b.fence(), "7", time.Minute)
		err := b.locks.LockContext(t.Context(), b.key, options(b.fenced), func(_ context.Context, lock *redislock.RedisLock) error {
			equal(t, "GetToken", lock.GetToken(), 8)
			return nil
		})
		must(t, "LockContext", err)
	}},
	{"a_FenceKey_that_is_one_of_the_locks_own_keys_is_refused", func(t *testing.T, b *bed) {
		for _, key := range []string{
			b.ownerKey(), b.countKey(), b.tokenKey(), redislock.HashTag(b.key) + ":room", redislock.HashTag("another") + ":mark:x",
		} {
			_, err := b.locks.NewLock(t.Context(), b.key, options(func(o *redislock.LockOptions) { o.FenceKey = key }))
			wantIs(t, err, redislock.ErrInvalidOptions)
			if err == nil || !strings.Contains(err.Error(), key) {
				t.Errorf("error %v does not name %s", err, key)
			}
		}
		equal(t, "script calls", b.wire.scripts(), 0)
	}},
	{"a_FenceKey_in_another_Cluster_slot_is_refused_before_anything_is_locked", func(t *testing.T, b *bed) {
		// The client never speaks: the check needs no server.
		cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
		t.Cleanup(func() { _ = cluster.Close() })
		locks := redislock.NewProvider(cluster)
		foreign := options(func(o *redislock.LockOptions) { o.FenceKey = "orders:fence" })
		_, err := locks.NewLock(t.Context(), "orders", foreign)
		wantIs(t, err, redislock.ErrInvalidOptions)
		for _, part := range []string{"orders:fence", "{lynx:lock:orders}:owner", "HashTag"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("error %v does not name %s", err, part)
			}
		}
		err = locks.LockWithOptions(t.Context(), "orders", foreign, func() error { t.Error("fn has run"); return nil })
		wantIs(t, err, redislock.ErrInvalidOptions)
		_, err = locks.NewLock(t.Context(), "orders", options(func(o *redislock.LockOptions) { o.FenceKey = redislock.HashTag("orders") + ":fence" }))
		must(t, "NewLock with a FenceKey in the lock's slot", err)
	}},
}
