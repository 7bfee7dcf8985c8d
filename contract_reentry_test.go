package redislock_test

import (
	"context"
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

var reentryContract = []behaviour{
	{"n_acquires_need_n_releases", func(t *testing.T, b *bed) {
		lock, other := b.lock(t), b.lock(t)
		for range 3 {
			must(t, "Acquire", lock.Acquire(t.Context()))
		}
		value := lock.GetValue()
		for range 2 {
			must(t, "Release", lock.Release(t.Context()))
			equal(t, "Err", lock.Err(), nil)
			equal(t, "Done is closed", isClosed(lock.Done()), false)
			equal(t, "the owner", b.get(t, b.ownerKey()), value)
			wantIs(t, other.Acquire(t.Context()), redislock.ErrLockAcquireConflict)
		}
		must(t, "the last Release", lock.Release(t.Context()))
		wantIs(t, lock.Err(), redislock.ErrLockNotHeld)
		must(t, "Acquire of the other", other.Acquire(t.Context()))
		wantIs(t, lock.Release(t.Context()), redislock.ErrLockNotHeld)
		equal(t, "the owner", b.get(t, b.ownerKey()), other.GetValue())
	}},
	{"reentrancy_is_per_instance_not_per_key", func(t *testing.T, b *bed) {
		lock, twin := b.held(t), b.lock(t)
		wantIs(t, twin.Acquire(t.Context()), redislock.ErrLockAcquireConflict)
		wantIs(t, twin.Release(t.Context()), redislock.ErrLockNotHeld)
		equal(t, "the owner", b.get(t, b.ownerKey()), lock.GetValue())
	}},
	{"a_nested_Lock_call_on_the_key_is_another_holder", func(t *testing.T, b *bed) {
		err := b.locks.LockWithOptions(t.Context(), b.key, options(), func() error {
			return b.locks.LockWithOptions(t.Context(), b.key, options(), func() error { t.Error("fn has run"); return nil })
		})
		wantIs(t, err, redislock.ErrLockAcquireConflict)
	}},
	{"the_count_key_when_present_is_the_plain_depth", func(t *testing.T, b *bed) {
		lock := b.held(t)
		count := func(depths ...string) {
			t.Helper()
			got := b.get(t, b.countKey())
			for _, want := range depths {
				if got == want {
					return
				}
			}
			t.Errorf("count key %q, want one of %q", got, depths)
		}
		count("", "1") // absent means one level
		must(t, "Acquire", lock.Acquire(t.Context()))
		count("2")
		must(t, "Acquire", lock.Acquire(t.Context()))
		count("3")
		between(t, "TTL of the count key", b.pttl(t, b.countKey()), 0, time.Minute)
		must(t, "Release", lock.Release(t.Context()))
		count("2")
		must(t, "Release", lock.Release(t.Context()))
		count("", "1")
		must(t, "Release", lock.Release(t.Context()))
		count("")
	}},
	{"a_reentry_refreshes_the_TTL", func(t *testing.T, b *bed) {
		lock := b.held(t)
		b.pexpire(t, b.ownerKey(), 20*time.Second)
		before := lock.GetExpiresAt()
		must(t, "Acquire", lock.Acquire(t.Context()))
		between(t, "TTL of the owner key", b.pttl(t, b.ownerKey()), 30*time.Second, time.Minute)
		between(t, "TTL of the count key", b.pttl(t, b.countKey()), 30*time.Second, time.Minute)
		if !lock.GetExpiresAt().After(before) {
			t.Errorf("GetExpiresAt stays %s", before)
		}
	}},
	{"a_partial_release_leaves_the_TTL_as_it_is", func(t *testing.T, b *bed) {
		lock := b.held(t)
		must(t, "Acquire", lock.Acquire(t.Context()))
		must(t, "Acquire", lock.Acquire(t.Context()))
		b.pexpire(t, b.ownerKey(), 20*time.Second)
		before := lock.GetExpiresAt()
		for range 2 {
			must(t, "Release", lock.Release(t.Context()))
			between(t, "TTL of the owner key", b.pttl(t, b.ownerKey()), time.Second, 20*time.Second)
			equal(t, "GetExpiresAt", lock.GetExpiresAt(), before)
		}
	}},
	{"a_reentry_keeps_token_value_and_time_of_the_hold", func(t *testing.T, b *bed) {
		b.set(t, b.tokenKey(), "41", time.Minute)
		lock := b.held(t)
		value, at := lock.GetValue(), lock.GetAcquiredAt()
		must(t, "Acquire", lock.Acquire(t.Context()))
		equal(t, "GetToken", lock.GetToken(), 42)
		equal(t, "the counter", b.get(t, b.tokenKey()), "42")
		equal(t, "GetValue", lock.GetValue(), value)
		equal(t, "GetAcquiredAt", lock.GetAcquiredAt(), at)
		must(t, "Release", lock.Release(t.Context()))
		equal(t, "GetToken", lock.GetToken(), 42)
		must(t, "Release", lock.Release(t.Context()))
		must(t, "Acquire", lock.Acquire(t.Context()))
		equal(t, "GetToken of a new hold", lock.GetToken(), 43)
	}},
	{"a_count_without_an_owner_means_nothing", func(t *testing.T, b *bed) {
		b.set(t, b.countKey(), "7", time.Minute)
		lock := b.held(t)
		must(t, "the only Release", lock.Release(t.Context()))
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
		equal(t, "the count key", b.get(t, b.countKey()), "")
	}},
	{"a_deleted_count_key_frees_nothing", func(t *testing.T, b *bed) {
		lock := b.held(t)
		must(t, "Acquire", lock.Acquire(t.Context()))
		must(t, "Acquire", lock.Acquire(t.Context()))
		for range 2 {
			b.del(t, b.countKey())
			must(t, "Release", lock.Release(t.Context()))
			equal(t, "Err", lock.Err(), nil)
			equal(t, "the owner", b.get(t, b.ownerKey()), lock.GetValue())
		}
		must(t, "the last Release", lock.Release(t.Context()))
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
	}},
	{"goroutines_that_share_an_instance_are_levels", func(t *testing.T, b *bed) {
		lock, got := b.lock(t), make(chan error, 8)
		call := func(run func(context.Context) error) {
			t.Helper()
			for range cap(got) {
				go func() { got <- run(t.Context()) }()
			}
			for range cap(got) {
				must(t, "a call", closes(t, "a call returns", got))
			}
		}
		call(lock.Acquire)
		equal(t, "the count", b.get(t, b.countKey()), "8")
		equal(t, "the token", lock.GetToken(), 1)
		call(lock.Release)
		wantIs(t, lock.Err(), redislock.ErrLockNotHeld)
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
		wantIs(t, lock.Release(t.Context()), redislock.ErrLockNotHeld)
	}},
	{"AcquireWait_and_AcquireWithRetry_on_a_held_lock_are_reentries", func(t *testing.T, b *bed) {
		lock := b.held(t)
		must(t, "AcquireWait", lock.AcquireWait(t.Context()))
		equal(t, "the count", b.get(t, b.countKey()), "2")
		must(t, "AcquireWithRetry", lock.AcquireWithRetry(t.Context(), redislock.RetryStrategy{}))
		equal(t, "the count", b.get(t, b.countKey()), "3")
		equal(t, "the token", lock.GetToken(), 1)
		for range 3 {
			must(t, "Release", lock.Release(t.Context()))
		}
		wantIs(t, lock.Err(), redislock.ErrLockNotHeld)
	}},
	{"AcquireWait_of_a_holder_passes_its_waiters", func(t *testing.T, b *bed) {
		lock, other := b.held(t), b.lock(t)
		b.wire.reset()
		got := async(func() error { return other.AcquireWait(t.Context()) })
		eventually(t, "the other waits", func() bool { return b.wire.scripts() > 0 })
		must(t, "AcquireWait", closes(t, "the reentry returns", async(func() error { return lock.AcquireWait(t.Context()) })))
		must(t, "Release", lock.Release(t.Context()))
		must(t, "Release", lock.Release(t.Context()))
		must(t, "AcquireWait of the other", closes(t, "the other has it", got))
	}},
	{"a_reentry_inside_LockContext_is_a_level", func(t *testing.T, b *bed) {
		err := b.locks.LockContext(t.Context(), b.key, options(), func(ctx context.Context, lock *redislock.RedisLock) error {
			must(t, "Acquire", lock.Acquire(ctx))
			must(t, "Release", lock.Release(ctx))
			equal(t, "the owner", b.get(t, b.ownerKey()), lock.GetValue())
			return ctx.Err()
		})
		must(t, "LockContext", err)
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
	}},
}
