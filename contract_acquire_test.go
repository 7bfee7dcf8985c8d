package redislock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

var acquireContract = []behaviour{
	{"a_free_lock_is_taken", func(t *testing.T, b *bed) {
		lock := b.lock(t)
		before := time.Now()
		must(t, "Acquire", lock.Acquire(t.Context()))
		if value := lock.GetValue(); value == "" || b.get(t, b.ownerKey()) != value {
			t.Errorf("owner key %q, GetValue %q", b.get(t, b.ownerKey()), value)
		}
		between(t, "TTL of the owner key", b.pttl(t, b.ownerKey()), 30*time.Second, 60*time.Second)
		locked, err := lock.IsLocked(t.Context())
		must(t, "IsLocked", err)
		equal(t, "IsLocked", locked, true)
		equal(t, "Err", lock.Err(), nil)
		equal(t, "IsExpired", lock.IsExpired(), false)
		equal(t, "Done is closed", isClosed(lock.Done()), false)
		equal(t, "GetKey", lock.GetKey(), b.key)
		if at := lock.GetAcquiredAt(); at.Before(before) || at.After(time.Now()) {
			t.Errorf("GetAcquiredAt %s is not within the call", at)
		}
	}},
	{"another_instance_is_refused_with_ErrLockAcquireConflict", func(t *testing.T, b *bed) {
		holder := b.held(t)
		for name, other := range map[string]*redislock.RedisLock{
			"of the same provider": b.lock(t), "of another client": lockOf(t, b.provider(t), b.key),
		} {
			err := other.Acquire(t.Context())
			wantIs(t, err, redislock.ErrLockAcquireConflict)
			wantNot(t, err, redislock.ErrMaxRetriesExceeded, redislock.ErrLockLost, redislock.ErrLockNotHeld, redislock.ErrLockAcquireTimeout)
			wantIs(t, other.Err(), redislock.ErrLockNotHeld)
			equal(t, "the value of an instance "+name, other.GetValue(), "")
		}
		equal(t, "the owner", b.get(t, b.ownerKey()), holder.GetValue())
	}},
	{"a_hold_of_another_process_excludes_us", func(t *testing.T, b *bed) {
		b.takenElsewhere(t, "a-peer", 2, time.Minute)
		b.set(t, b.tokenKey(), "5", time.Minute)
		wantIs(t, b.lock(t).Acquire(t.Context()), redislock.ErrLockAcquireConflict)
		equal(t, "the owner", b.get(t, b.ownerKey()), "a-peer")
		equal(t, "the count", b.get(t, b.countKey()), "2")
		equal(t, "the counter, as a refused acquire mints nothing", b.get(t, b.tokenKey()), "5")
	}},
	{"our_hold_excludes_a_peer_of_the_published_version", func(t *testing.T, b *bed) {
		b.held(t)
		taken, err := b.control.SetNX(t.Context(), b.ownerKey(), "a-peer", time.Minute).Result()
		must(t, "SET NX", err)
		equal(t, "the peer's SET NX", taken, false)
	}},
	{"different_keys_do_not_exclude_each_other", func(t *testing.T, b *bed) {
		b.held(t)
		must(t, "Acquire of another key", lockOf(t, b.locks, b.key+":2").Acquire(t.Context()))
	}},
	{"every_hold_has_an_owner_value_of_its_own", func(t *testing.T, b *bed) {
		lock, seen := b.lock(t), map[string]bool{}
		for range 20 {
			must(t, "Acquire", lock.Acquire(t.Context()))
			seen[lock.GetValue()] = true
			must(t, "Release", lock.Release(t.Context()))
		}
		equal(t, "different values", len(seen), 20)
	}},
	{"keys_of_255_bytes_with_spaces_and_colons_work", func(t *testing.T, b *bed) {
		key := b.key + ": a b/~!" + strings.Repeat("x", redislock.MaxLockKeyLength)
		lock := lockOf(t, b.locks, key[:redislock.MaxLockKeyLength])
		must(t, "Acquire", lock.Acquire(t.Context()))
		equal(t, "the owner", b.get(t, "{lynx:lock:"+lock.GetKey()+"}:owner"), lock.GetValue())
		must(t, "Release", lock.Release(t.Context()))
	}},
	{"a_Redis_failure_is_ErrLockAcquireFailed_with_its_cause_and_takes_nothing", func(t *testing.T, b *bed) {
		for _, counter := range []string{"abc", "9223372036854775807"} {
			b.set(t, b.tokenKey(), counter, time.Minute)
			lock := b.lock(t)
			err := lock.Acquire(t.Context())
			wantIs(t, err, redislock.ErrLockAcquireFailed)
			wantNot(t, err, redislock.ErrLockAcquireConflict, redislock.ErrRedisClientNotFound)
			var cause redis.Error
			if !errors.As(err, &cause) {
				t.Errorf("error %v has no redis.Error in it", err)
			}
			equal(t, "the owner key", b.get(t, b.ownerKey()), "")
			wantIs(t, lock.Err(), redislock.ErrLockNotHeld)
		}
	}},
	{"an_owner_key_of_another_type_is_a_clear_error", func(t *testing.T, b *bed) {
		must(t, "RPUSH", b.control.RPush(t.Context(), b.ownerKey(), "x").Err())
		t.Cleanup(func() { b.del(t, b.ownerKey()) })
		err := b.lock(t).Acquire(t.Context())
		wantIs(t, err, redislock.ErrLockAcquireFailed)
		if err == nil || !strings.Contains(err.Error(), b.ownerKey()) {
			t.Errorf("error %v does not name the key %s", err, b.ownerKey())
		}
	}},
	{"a_refused_connection_is_ErrLockAcquireFailed_with_its_cause", func(t *testing.T, b *bed) {
		b.wire.refuse()
		err := b.lock(t, timeout(callTimeout)).Acquire(t.Context())
		wantIs(t, err, redislock.ErrLockAcquireFailed)
		wantNot(t, err, redislock.ErrRedisClientNotFound)
		if err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("error %v does not name its cause", err)
		}
	}},
	{"after_the_client_was_closed_calls_are_ErrRedisClientNotFound_and_keys_stay", func(t *testing.T, b *bed) {
		client := b.NewClient(t)
		locks := redislock.NewProvider(client)
		lock := lockOf(t, locks, b.key)
		must(t, "Acquire", lock.Acquire(t.Context()))
		owner := lock.GetValue()
		must(t, "Close", client.Close())
		wantIs(t, lockOf(t, locks, b.key+":2").Acquire(t.Context()), redislock.ErrRedisClientNotFound)
		wantIs(t, lock.Release(t.Context()), redislock.ErrRedisClientNotFound)
		ran := false
		err := locks.LockWithOptions(t.Context(), b.key+":3", options(), func() error { ran = true; return nil })
		wantIs(t, err, redislock.ErrRedisClientNotFound)
		equal(t, "fn has run", ran, false)
		equal(t, "the owner key", b.get(t, b.ownerKey()), owner)
	}},
	{"AcquireWait_on_a_closed_client_does_not_wait", func(t *testing.T, b *bed) {
		client := b.NewClient(t)
		lock := lockOf(t, redislock.NewProvider(client), b.key)
		must(t, "Close", client.Close())
		got := closes(t, "AcquireWait returns", async(func() error { return lock.AcquireWait(context.Background()) }))
		wantIs(t, got, redislock.ErrRedisClientNotFound)
	}},
	{"one_instance_can_be_used_again_and_again", func(t *testing.T, b *bed) {
		lock := b.lock(t)
		for i := range int64(5) {
			must(t, "Acquire", lock.Acquire(t.Context()))
			equal(t, "the token", lock.GetToken(), i+1)
			equal(t, "Done is closed", isClosed(lock.Done()), false)
			must(t, "Release", lock.Release(t.Context()))
			equal(t, "Done is closed", isClosed(lock.Done()), true)
		}
	}},
	{"eight_instances_exclude_each_other", func(t *testing.T, b *bed) {
		// Not atomic: the race detector finds an overlap, the lock is its only guard
		// within the process.
		inside, done := 0, make(chan error, 8)
		for range cap(done) {
			go func() {
				o := options()
				o.WaitTimeout = -1
				done <- b.locks.LockWithOptions(t.Context(), b.key, o, func() error {
					inside++
					if inside != 1 {
						return errors.New("two holders at once")
					}
					time.Sleep(time.Millisecond) // widens the window
					inside--
					return nil
				})
			}()
		}
		for range cap(done) {
			must(t, "LockWithOptions", closes(t, "a holder ends", done))
		}
	}},
}
