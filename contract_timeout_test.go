package redislock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// timeout is the ScriptCallTimeout.
func timeout(d time.Duration) option {
	return func(o *redislock.LockOptions) { o.ScriptCallTimeout = d }
}

// callTimeout is the timeout of calls that are cut off. The same locks also make
// calls that have to be answered within it on a busy machine. farAbove is more
// than such a call may take and less than what would bound it otherwise.
const callTimeout, farAbove = 800 * time.Millisecond, 6 * time.Second

// cutOff runs a call against a silent Redis: the lock's own timeout has to end it.
func cutOff(t *testing.T, b *bed, what string, call func() error) error {
	t.Helper()
	resume := b.wire.stall(t)
	defer resume()
	started := time.Now()
	err := closes(t, what+" returns", async(call))
	between(t, "time of "+what, time.Since(started), callTimeout/2, farAbove)
	wantIs(t, err, context.DeadlineExceeded)
	wantNot(t, err, context.Canceled, redislock.ErrRedisClientNotFound)
	return err
}

var timeoutContract = []behaviour{
	{"ScriptCallTimeout_bounds_an_acquire_and_its_key_is_cleaned_up", func(t *testing.T, b *bed) {
		lock := b.lock(t, timeout(callTimeout))
		err := cutOff(t, b, "Acquire", func() error { return lock.Acquire(context.Background()) })
		wantIs(t, err, redislock.ErrLockAcquireFailed)
		wantIs(t, lock.Err(), redislock.ErrLockNotHeld)
		eventually(t, "the late acquire was cleaned up", func() bool { return b.get(t, b.ownerKey()) == "" })
		eventually(t, "another can have it", func() bool { return b.lock(t).Acquire(t.Context()) == nil })
	}},
	{"ScriptCallTimeout_bounds_a_release", func(t *testing.T, b *bed) {
		lock := b.held(t, timeout(callTimeout))
		_ = cutOff(t, b, "Release", func() error { return lock.Release(context.Background()) })
		wantIs(t, lock.Err(), redislock.ErrLockNotHeld)
	}},
	{"ScriptCallTimeout_bounds_Renew", func(t *testing.T, b *bed) {
		lock := b.held(t, timeout(callTimeout))
		err := cutOff(t, b, "Renew", func() error { return lock.Renew(context.Background(), time.Minute) })
		wantIs(t, err, redislock.ErrLockRenewalFailed)
		equal(t, "Err", lock.Err(), nil)
	}},
	{"ScriptCallTimeout_bounds_IsLocked_and_TTL", func(t *testing.T, b *bed) {
		lock := b.held(t, timeout(callTimeout))
		_ = cutOff(t, b, "IsLocked", func() error { _, err := lock.IsLocked(context.Background()); return err })
		_ = cutOff(t, b, "TTL", func() error { _, err := lock.TTL(context.Background()); return err })
		equal(t, "Err", lock.Err(), nil)
	}},
	{"ScriptCallTimeout_bounds_a_reentry", func(t *testing.T, b *bed) {
		lock := b.held(t, timeout(callTimeout))
		err := cutOff(t, b, "a reentry", func() error { return lock.Acquire(context.Background()) })
		wantIs(t, err, redislock.ErrLockAcquireFailed)
		equal(t, "Err", lock.Err(), nil)
		must(t, "the only Release", lock.Release(t.Context()))
		eventually(t, "the lock is free", func() bool { return b.get(t, b.ownerKey()) == "" })
	}},
	{"ScriptCallTimeout_bounds_the_Lock_functions", func(t *testing.T, b *bed) {
		err := cutOff(t, b, "LockWithOptions", func() error {
			return b.locks.LockWithOptions(context.Background(), b.key, options(timeout(callTimeout)), func() error {
				t.Error("fn has run")
				return nil
			})
		})
		wantIs(t, err, redislock.ErrLockAcquireFailed)
	}},
	{"the_release_behind_fn_is_bounded_too", func(t *testing.T, b *bed) {
		resume := func() {}
		got := async(func() error {
			return b.locks.LockWithOptions(context.Background(), b.key, options(timeout(callTimeout)), func() error {
				resume = b.wire.stall(t)
				return nil
			})
		})
		wantIs(t, closes(t, "LockWithOptions returns", got), context.DeadlineExceeded)
		resume()
		eventually(t, "the key is gone", func() bool { return b.get(t, b.ownerKey()) == "" })
	}},
	{"a_call_is_left_at_its_timeout_also_when_the_client_does_not_let_go", func(t *testing.T, b *bed) {
		w := &wire{}
		client := w.client(t, b, func(o *redis.UniversalOptions) { o.ContextTimeoutEnabled = false })
		lock := lockOf(t, redislock.NewProvider(client), b.key, timeout(callTimeout))
		resume := w.stall(t)
		started := time.Now()
		err := closes(t, "Acquire returns", async(func() error { return lock.Acquire(context.Background()) }))
		between(t, "time of Acquire", time.Since(started), callTimeout/2, farAbove)
		wantIs(t, err, redislock.ErrLockAcquireFailed, context.DeadlineExceeded)
		resume()
		eventually(t, "another can have it", func() bool { return b.lock(t).Acquire(t.Context()) == nil })
	}},
	{"a_longer_ScriptCallTimeout_is_honoured", func(t *testing.T, b *bed) {
		lock := b.lock(t, timeout(20*time.Second))
		b.wire.delayReplies(time.Second) // above the default of 600 ms
		must(t, "Acquire", lock.Acquire(t.Context()))
	}},
	{"a_ScriptCallTimeout_of_0_is_no_timeout_of_its_own", func(t *testing.T, b *bed) {
		lock := b.lock(t, timeout(0))
		b.wire.delayReplies(time.Second) // above the default of 600 ms
		must(t, "Acquire", lock.Acquire(t.Context()))
	}},
	{"the_callers_deadline_binds_before_a_longer_ScriptCallTimeout", func(t *testing.T, b *bed) {
		lock := b.lock(t, timeout(20*time.Second))
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		defer cancel()
		err := cutOff(t, b, "Acquire", func() error { return lock.Acquire(ctx) })
		wantIs(t, err, redislock.ErrLockAcquireTimeout)
	}},
}
