package redislock_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// runners are the Lock… functions, as calls of one shape.
func runners(b *bed) map[string]func(ctx context.Context, fn func() error) error {
	return map[string]func(context.Context, func() error) error{
		"Lock": func(ctx context.Context, fn func() error) error { return b.locks.Lock(ctx, b.key, time.Minute, fn) },
		"LockWithOptions": func(ctx context.Context, fn func() error) error {
			return b.locks.LockWithOptions(ctx, b.key, options(), fn)
		},
		"LockWithToken": func(ctx context.Context, fn func() error) error {
			return b.locks.LockWithToken(ctx, b.key, time.Minute, func(int64) error { return fn() })
		},
		"LockContext": func(ctx context.Context, fn func() error) error {
			return b.locks.LockContext(ctx, b.key, options(), func(context.Context, *redislock.RedisLock) error { return fn() })
		},
	}
}

var funcContract = []behaviour{
	{"fn_runs_once_while_the_lock_is_held", func(t *testing.T, b *bed) {
		for name, run := range runners(b) {
			ran := 0
			must(t, name, run(t.Context(), func() error {
				ran++
				if b.get(t, b.ownerKey()) == "" {
					t.Errorf("%s: fn runs without the lock", name)
				}
				return nil
			}))
			equal(t, name+": runs of fn", ran, 1)
			equal(t, name+": the owner key", b.get(t, b.ownerKey()), "")
		}
	}},
	{"fns_own_error_comes_back_unchanged", func(t *testing.T, b *bed) {
		own := errors.New("fn's own")
		for name, run := range runners(b) {
			if err := run(t.Context(), func() error { return own }); err != own { //nolint:errorlint // the very same one
				t.Errorf("%s: got %v, want fn's own error", name, err)
			}
			equal(t, name+": the owner key", b.get(t, b.ownerKey()), "")
		}
	}},
	{"fn_does_not_run_when_the_lock_is_held", func(t *testing.T, b *bed) {
		b.held(t)
		for name, run := range runners(b) {
			err := run(t.Context(), func() error { t.Errorf("%s: fn has run", name); return nil })
			wantIs(t, err, redislock.ErrLockAcquireConflict)
		}
	}},
	{"a_panic_in_fn_releases_and_goes_on", func(t *testing.T, b *bed) {
		for name, run := range runners(b) {
			got := make(chan any, 1)
			go func() {
				defer func() { got <- recover() }()
				_ = run(t.Context(), func() error { panic("fn's own") })
			}()
			equal(t, name+": the panic", closes(t, name+" panics", got), any("fn's own"))
			equal(t, name+": the owner key", b.get(t, b.ownerKey()), "")
		}
	}},
	{"a_Goexit_in_fn_releases_and_goes_on", func(t *testing.T, b *bed) {
		for name, run := range runners(b) {
			ended, returned := make(chan struct{}), false
			go func() {
				defer close(ended)
				_ = run(t.Context(), func() error { runtime.Goexit(); return nil })
				returned = true
			}()
			closes(t, name+" ends", ended)
			equal(t, name+" returned", returned, false)
			equal(t, name+": the owner key", b.get(t, b.ownerKey()), "")
		}
	}},
	{"a_loss_under_fn_is_joined_with_its_error", func(t *testing.T, b *bed) {
		own := errors.New("fn's own")
		for name, run := range runners(b) {
			for _, fnErr := range []error{nil, own} {
				err := run(t.Context(), func() error { b.del(t, b.ownerKey(), b.countKey()); return fnErr })
				wantIs(t, err, redislock.ErrLockNotHeld, redislock.ErrLockLost)
				if fnErr != nil {
					wantIs(t, err, fnErr)
				}
				var lost *redislock.LostError
				if !errors.As(err, &lost) || lost.Key != b.key || lost.Reason != "vanished" {
					t.Errorf("%s: LostError %+v", name, lost)
				}
			}
		}
	}},
	{"a_lock_taken_over_under_fn_stays_with_its_new_owner", func(t *testing.T, b *bed) {
		for name, run := range runners(b) {
			err := run(t.Context(), func() error { b.takenElsewhere(t, "a-peer", 1, time.Minute); return nil })
			wantIs(t, err, redislock.ErrLockNotHeld, redislock.ErrLockLost)
			equal(t, name+": the owner", b.get(t, b.ownerKey()), "a-peer")
			b.del(t, b.ownerKey(), b.countKey())
		}
	}},
	{"levels_that_fn_leaves_are_released", func(t *testing.T, b *bed) {
		err := b.locks.LockContext(t.Context(), b.key, options(), func(ctx context.Context, lock *redislock.RedisLock) error {
			return lock.Acquire(ctx)
		})
		must(t, "LockContext", err)
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
		equal(t, "the count key", b.get(t, b.countKey()), "")
	}},
	{"a_release_behind_fn_that_fails_is_joined", func(t *testing.T, b *bed) {
		own := errors.New("fn's own")
		err := b.locks.LockWithOptions(t.Context(), b.key, options(timeout(callTimeout)), func() error {
			b.wire.refuse()
			return own
		})
		b.wire.heal()
		wantIs(t, err, own)
		if err == own { //nolint:errorlint // more than fn's own is wanted
			t.Error("the release's failure is not told")
		}
	}},
}

var leaseContextContract = []behaviour{
	{"a_lease_context_ends_with_the_release", func(t *testing.T, b *bed) {
		lock := b.held(t)
		must(t, "Acquire", lock.Acquire(t.Context()))
		ctx, cancel := lock.Context(t.Context())
		defer cancel()
		must(t, "a partial Release", lock.Release(t.Context()))
		must(t, "Err", ctx.Err())
		must(t, "Release", lock.Release(t.Context()))
		closes(t, "Done", ctx.Done())
		wantIs(t, context.Cause(ctx), redislock.ErrLockNotHeld)
		wantNot(t, context.Cause(ctx), redislock.ErrLockLost)
	}},
	{"a_lease_context_belongs_to_one_hold", func(t *testing.T, b *bed) {
		lock := b.held(t)
		first, cancel := lock.Context(t.Context())
		defer cancel()
		done := lock.Done()
		must(t, "Release", lock.Release(t.Context()))
		must(t, "Acquire", lock.Acquire(t.Context()))
		second, cancel := lock.Context(t.Context())
		defer cancel()
		equal(t, "the first one's Err", first.Err(), context.Canceled)
		equal(t, "the first Done is closed", isClosed(done), true)
		must(t, "the second one's Err", second.Err())
		equal(t, "the second Done is closed", isClosed(lock.Done()), false)
	}},
	{"a_lease_context_without_a_hold_has_ended", func(t *testing.T, b *bed) {
		lock := b.lock(t)
		equal(t, "Done is closed", isClosed(lock.Done()), true)
		for range 2 {
			ctx, cancel := lock.Context(t.Context())
			defer cancel()
			wantIs(t, context.Cause(ctx), redislock.ErrLockNotHeld)
			must(t, "Acquire", lock.Acquire(t.Context()))
			must(t, "Release", lock.Release(t.Context()))
		}
	}},
	{"a_lease_context_ends_with_its_parent_and_its_CancelFunc", func(t *testing.T, b *bed) {
		type name struct{}
		own := errors.New("the parent's own")
		parent, end := context.WithCancelCause(context.WithValue(t.Context(), name{}, "value"))
		lock := b.held(t)
		child, cancel := lock.Context(parent)
		defer cancel()
		equal(t, "a value of the parent", child.Value(name{}), any("value"))
		other, stop := lock.Context(parent)
		stop()
		closes(t, "Done after the CancelFunc", other.Done())
		equal(t, "Err", other.Err(), context.Canceled)
		must(t, "Err of the other child", child.Err())
		end(own)
		closes(t, "Done after the parent's end", child.Done())
		wantIs(t, context.Cause(child), own)
		equal(t, "Err of the lock", lock.Err(), nil)
	}},
	{"contexts_derived_from_it_end_with_the_lease", func(t *testing.T, b *bed) {
		lock := b.held(t)
		ctx, cancel := lock.Context(t.Context())
		defer cancel()
		derived, cancel := context.WithCancel(ctx)
		defer cancel()
		b.del(t, b.ownerKey())
		_, _ = lock.IsLocked(t.Context())
		closes(t, "Done", derived.Done())
		wantIs(t, context.Cause(derived), redislock.ErrLockLost)
	}},
	{"LockContext_cancels_fn_the_moment_the_lease_is_lost", func(t *testing.T, b *bed) {
		err := b.locks.LockContext(t.Context(), b.key, options(renewed, expiration(lease)), func(ctx context.Context, lock *redislock.RedisLock) error {
			must(t, "Err", ctx.Err())
			b.del(t, b.ownerKey(), b.countKey())
			closes(t, "the context of fn ends", ctx.Done())
			wantLost(t, context.Cause(ctx), lock, "vanished")
			return context.Cause(ctx)
		})
		wantIs(t, err, redislock.ErrLockNotHeld, redislock.ErrLockLost)
	}},
	{"LockContext_cancels_fn_with_its_caller_and_releases", func(t *testing.T, b *bed) {
		parent, end := context.WithCancel(t.Context())
		err := b.locks.LockContext(parent, b.key, options(), func(ctx context.Context, lock *redislock.RedisLock) error {
			end()
			closes(t, "the context of fn ends", ctx.Done())
			must(t, "Err of the lock", lock.Err())
			return ctx.Err()
		})
		wantIs(t, err, context.Canceled)
		wantNot(t, err, redislock.ErrLockLost)
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
	}},
	{"the_context_of_fn_has_ended_after_LockContext", func(t *testing.T, b *bed) {
		var kept context.Context
		must(t, "LockContext", b.locks.LockContext(t.Context(), b.key, options(), func(ctx context.Context, _ *redislock.RedisLock) error {
			kept = ctx
			return nil
		}))
		closes(t, "Done", kept.Done())
	}},
	{"a_lease_context_reads_the_clock_itself", func(t *testing.T, b *bed) {
		lock := b.held(t, expiration(500*time.Millisecond))
		ctx, cancel := lock.Context(t.Context())
		defer cancel()
		at := lock.GetExpiresAt()
		for time.Now().Before(at) { // busy, so that no timer is asked
			runtime.Gosched()
		}
		if ctx.Err() == nil {
			t.Error("Err is nil after GetExpiresAt")
		}
		wantLost(t, context.Cause(ctx), lock, "expired")
	}},
}
