package redislock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// waits are the calls that wait for a held lock until their context ends.
func waits(b *bed, o redislock.LockOptions) map[string]func(*testing.T, context.Context) error {
	waitForEver, retry := o, o
	waitForEver.WaitTimeout = -1
	retry.RetryStrategy = strategy(1_000_000, 2*time.Millisecond)
	fn := func() error { return errors.New("fn has run") }
	return map[string]func(*testing.T, context.Context) error{
		"AcquireWait": func(t *testing.T, ctx context.Context) error { return b.lock(t).AcquireWait(ctx) },
		"AcquireWithRetry": func(t *testing.T, ctx context.Context) error {
			return b.lock(t).AcquireWithRetry(ctx, retry.RetryStrategy)
		},
		"LockWithOptions, WaitTimeout < 0": func(_ *testing.T, ctx context.Context) error {
			return b.locks.LockWithOptions(ctx, b.key, waitForEver, fn)
		},
		"LockWithOptions, retries": func(_ *testing.T, ctx context.Context) error {
			return b.locks.LockWithOptions(ctx, b.key, retry, fn)
		},
		"LockContext": func(_ *testing.T, ctx context.Context) error {
			return b.locks.LockContext(ctx, b.key, waitForEver, func(context.Context, *redislock.RedisLock) error { return fn() })
		},
	}
}

var contextContract = []behaviour{
	{"a_deadline_that_ends_a_wait_is_DeadlineExceeded_and_ErrLockAcquireTimeout", func(t *testing.T, b *bed) {
		b.held(t)
		for name, wait := range waits(b, options()) {
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
			err := closes(t, name+" returns", async(func() error { return wait(t, ctx) }))
			cancel()
			wantIs(t, err, context.DeadlineExceeded, redislock.ErrLockAcquireTimeout)
			wantNot(t, err, context.Canceled, redislock.ErrRedisClientNotFound)
		}
	}},
	{"a_deadline_that_ends_a_call_to_a_silent_Redis_is_ErrLockAcquireTimeout_every_time", func(t *testing.T, b *bed) {
		b.wire.stall(t)
		for i := range 25 { // the call's timer and the context's fire in either order
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			err := closes(t, "LockWithOptions returns", async(func() error {
				return b.locks.LockWithOptions(ctx, b.key, options(), func() error { return errors.New("fn has run") })
			}))
			cancel()
			wantIs(t, err, context.DeadlineExceeded, redislock.ErrLockAcquireTimeout)
			if t.Failed() {
				t.Fatalf("in round %d", i)
			}
		}
	}},
	{"a_cancel_that_ends_a_wait_is_Canceled", func(t *testing.T, b *bed) {
		b.held(t)
		for name, wait := range waits(b, options()) {
			ctx, cancel := context.WithCancel(t.Context())
			b.wire.reset()
			got := async(func() error { return wait(t, ctx) })
			eventually(t, name+" has tried", func() bool { return b.wire.scripts() > 0 })
			cancel()
			err := closes(t, name+" returns", got)
			wantIs(t, err, context.Canceled)
			wantNot(t, err, context.DeadlineExceeded, redislock.ErrRedisClientNotFound, redislock.ErrLockAcquireTimeout)
		}
	}},
	{"a_context_that_has_ended_takes_nothing", func(t *testing.T, b *bed) {
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer cancel()
		for name, wait := range waits(b, options()) {
			err := wait(t, cancelled)
			wantIs(t, err, context.Canceled)
			wantNot(t, err, redislock.ErrRedisClientNotFound)
			err = wait(t, late)
			wantIs(t, err, context.DeadlineExceeded, redislock.ErrLockAcquireTimeout)
			if t.Failed() {
				t.Fatalf("in %s", name)
			}
		}
		wantIs(t, b.lock(t).Acquire(cancelled), context.Canceled)
		wantIs(t, b.lock(t).Acquire(late), context.DeadlineExceeded)
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
		equal(t, "the counter", b.get(t, b.tokenKey()), "")
	}},
	{"a_cancel_while_the_acquire_is_in_flight_leaves_no_key", func(t *testing.T, b *bed) {
		resume := b.wire.stall(t)
		ctx, cancel := context.WithCancel(t.Context())
		ran := false
		got := async(func() error {
			return b.locks.LockWithOptions(ctx, b.key, options(), func() error { ran = true; return nil })
		})
		eventually(t, "the acquire is in flight", func() bool { return b.wire.scripts() == 1 })
		cancel()
		err := closes(t, "the call returns while Redis is silent", got)
		wantIs(t, err, context.Canceled)
		wantNot(t, err, redislock.ErrRedisClientNotFound)
		equal(t, "fn has run", ran, false)
		resume()
		eventually(t, "the late acquire was cleaned up", func() bool { return b.get(t, b.ownerKey()) == "" })
	}},
	{"a_cancelled_caller_still_releases", func(t *testing.T, b *bed) {
		ctx, cancel := context.WithCancel(t.Context())
		must(t, "LockWithOptions", b.locks.LockWithOptions(ctx, b.key, options(), func() error { cancel(); return nil }))
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
	}},
	{"Release_under_an_ended_context_releases", func(t *testing.T, b *bed) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer cancel()
		lock := b.held(t)
		must(t, "Release", lock.Release(ctx))
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
		must(t, "Acquire", lock.Acquire(t.Context()))
		must(t, "Release", lock.Release(late))
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
	}},
	{"Renew_IsLocked_and_TTL_under_an_ended_context_touch_nothing", func(t *testing.T, b *bed) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		lock := b.held(t)
		b.wire.reset()
		wantIs(t, lock.Renew(ctx, 10*time.Second), redislock.ErrLockRenewalFailed, context.Canceled)
		_, err := lock.IsLocked(ctx)
		wantIs(t, err, context.Canceled)
		_, err = lock.TTL(ctx)
		wantIs(t, err, context.Canceled)
		equal(t, "script calls", b.wire.scripts(), 0)
		equal(t, "Err", lock.Err(), nil)
		between(t, "TTL of the owner key", b.pttl(t, b.ownerKey()), 30*time.Second, time.Minute)
	}},
	{"a_deadline_ends_a_reentry_and_leaves_the_outer_level", func(t *testing.T, b *bed) {
		lock := b.held(t)
		resume := b.wire.stall(t)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err := closes(t, "the reentry returns", async(func() error { return lock.Acquire(ctx) }))
		wantIs(t, err, context.DeadlineExceeded)
		equal(t, "Err", lock.Err(), nil)
		resume()
		must(t, "the only Release", lock.Release(t.Context()))
		wantIs(t, lock.Err(), redislock.ErrLockNotHeld)
		eventually(t, "the lock is free", func() bool { return b.get(t, b.ownerKey()) == "" })
	}},
}
