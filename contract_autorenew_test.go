package redislock_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// lease is the expiration of locks that are renewed within a test: long enough that
// a busy machine loses none, short enough to be waited for.
const lease = time.Second

// staysHeld waits longer than a lease lasts, and finds the lock held all the time.
// It is a negative and has to wait.
func staysHeld(t *testing.T, b *bed, lock *redislock.RedisLock) {
	t.Helper()
	value := lock.GetValue()
	for end := time.Now().Add(lease + lease/3); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err := lock.Err(); err != nil {
			t.Fatalf("Err: %v", err)
		}
		if owner := b.get(t, b.ownerKey()); owner != value {
			t.Fatalf("the owner key is %q, want %q", owner, value)
		}
	}
}

// runsOut waits for the loss by expiry.
func runsOut(t *testing.T, lock *redislock.RedisLock) {
	t.Helper()
	closes(t, "Done", lock.Done())
	wantLost(t, lock.Err(), lock, "expired")
}

var autoRenewContract = []behaviour{
	{"a_lock_with_RenewalEnabled_is_renewed_from_its_Acquire_on", func(t *testing.T, b *bed) {
		staysHeld(t, b, b.held(t, renewed, expiration(lease)))
	}},
	{"a_reentered_lock_is_renewed_with_its_count", func(t *testing.T, b *bed) {
		lock := b.held(t, renewed, expiration(lease))
		must(t, "Acquire", lock.Acquire(t.Context()))
		staysHeld(t, b, lock)
		equal(t, "the count", b.get(t, b.countKey()), "2")
	}},
	{"without_RenewalEnabled_the_lease_runs_out", func(t *testing.T, b *bed) {
		runsOut(t, b.held(t, expiration(500*time.Millisecond)))
	}},
	{"EnableAutoRenew_starts_renewal_of_a_held_lock", func(t *testing.T, b *bed) {
		lock := b.held(t, expiration(lease))
		lock.EnableAutoRenew(options(expiration(lease))) // a zero RenewalConfig: the defaults apply
		staysHeld(t, b, lock)
	}},
	{"EnableAutoRenew_twice_is_once", func(t *testing.T, b *bed) {
		lock := b.held(t, renewed, expiration(lease))
		for range 3 {
			lock.EnableAutoRenew(options(expiration(lease)))
		}
		staysHeld(t, b, lock)
	}},
	{"EnableAutoRenew_without_a_hold_does_nothing", func(t *testing.T, b *bed) {
		lock := b.lock(t, expiration(500*time.Millisecond))
		lock.EnableAutoRenew(options())
		equal(t, "script calls", b.wire.scripts(), 0)
		must(t, "Acquire", lock.Acquire(t.Context()))
		runsOut(t, lock)
	}},
	{"EnableAutoRenew_does_not_outlive_the_hold", func(t *testing.T, b *bed) {
		lock := b.held(t, expiration(500*time.Millisecond))
		lock.EnableAutoRenew(options())
		must(t, "Release", lock.Release(t.Context()))
		must(t, "Acquire", lock.Acquire(t.Context()))
		runsOut(t, lock)
	}},
	{"a_released_lock_is_renewed_no_more", func(t *testing.T, b *bed) {
		lock := b.held(t, renewed, expiration(lease))
		must(t, "Release", lock.Release(t.Context()))
		b.wire.reset()
		time.Sleep(lease) // a negative: a renewal would be due in it
		equal(t, "script calls", b.wire.scripts(), 0)
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
	}},
	{"LockWithOptions_renews_only_if_RenewalEnabled", func(t *testing.T, b *bed) {
		run := func(mods ...option) error {
			o := options(append(mods, expiration(lease))...)
			return b.locks.LockContext(t.Context(), b.key, o, func(ctx context.Context, _ *redislock.RedisLock) error {
				select {
				case <-ctx.Done():
				case <-time.After(lease + lease/3): // a negative: no loss comes
				}
				return nil
			})
		}
		must(t, "with RenewalEnabled", run(renewed))
		wantIs(t, run(), redislock.ErrLockNotHeld, redislock.ErrLockLost)
	}},
	{"Lock_and_LockWithToken_renew_while_fn_runs", func(t *testing.T, b *bed) {
		fn := func() error {
			time.Sleep(lease + lease/3) // a negative: the lease would end in it
			if b.get(t, b.ownerKey()) == "" {
				return errors.New("the owner key is gone")
			}
			return nil
		}
		must(t, "Lock", b.locks.Lock(t.Context(), b.key, lease, fn))
		must(t, "LockWithToken", b.locks.LockWithToken(t.Context(), b.key, lease, func(int64) error { return fn() }))
	}},
	{"renewals_go_on_with_the_lease_of_Renew", func(t *testing.T, b *bed) {
		lock := b.held(t, renewed)
		must(t, "Renew", lock.Renew(t.Context(), lease))
		staysHeld(t, b, lock)
		between(t, "TTL of the owner key", b.pttl(t, b.ownerKey()), 0, lease)
	}},
	{"an_automatic_renewal_never_shortens", func(t *testing.T, b *bed) {
		b.held(t, renewed, expiration(lease))
		b.pexpire(t, b.ownerKey(), time.Minute)
		b.wire.reset()
		eventually(t, "a renewal", func() bool { return b.wire.scripts() > 1 })
		between(t, "TTL of the owner key", b.pttl(t, b.ownerKey()), lease, time.Minute)
	}},
	{"an_extreme_threshold_neither_loops_nor_loses", func(t *testing.T, b *bed) {
		for _, threshold := range []float64{1, 0.0001} {
			lock := b.held(t, renewed, expiration(lease), func(o *redislock.LockOptions) { o.RenewalThreshold = threshold })
			b.wire.reset()
			started := time.Now()
			staysHeld(t, b, lock)
			// Never in the first half of a lease, so at most two renewals a lease.
			if most := 2*int(time.Since(started)/lease) + 3; b.wire.scripts() > most {
				t.Errorf("threshold %v: %d renewals, want at most %d", threshold, b.wire.scripts(), most)
			}
			must(t, "Release", lock.Release(t.Context()))
		}
	}},
	{"a_renewal_goes_on_while_lease_time_is_left", func(t *testing.T, b *bed) {
		lock := b.held(t, renewed, expiration(3*time.Second), func(o *redislock.LockOptions) {
			// The budget of one renewal is spent long before Redis answers again.
			o.RenewalConfig = redislock.RenewalConfig{MaxRetries: 1, BaseDelay: time.Millisecond, MaxDelay: 2 * time.Millisecond, CallTimeout: 300 * time.Millisecond}
		})
		var failures atomic.Int64
		b.wire.break_(func(ctx context.Context, send func(context.Context) error) error {
			if failures.Add(1) > 12 {
				return send(ctx)
			}
			return io.ErrUnexpectedEOF
		})
		at := lock.GetExpiresAt()
		eventually(t, "a renewal succeeds", func() bool { return lock.GetExpiresAt().After(at) || lock.Err() != nil })
		equal(t, "Err", lock.Err(), nil)
	}},
	{"a_renewed_lock_on_a_silent_Redis_ends_at_its_deadline", func(t *testing.T, b *bed) {
		lock := b.held(t, renewed, expiration(500*time.Millisecond))
		ctx, cancel := lock.Context(t.Context())
		defer cancel()
		b.wire.stall(t)
		closes(t, "the lease context ends", ctx.Done())
		wantLost(t, context.Cause(ctx), lock, "expired")
		runsOut(t, lock)
	}},
	{"one_lock_has_at_most_one_renewal_in_flight", func(t *testing.T, b *bed) {
		lock := b.held(t, renewed, expiration(lease), func(o *redislock.LockOptions) { o.RenewalConfig.CallTimeout = 10 * time.Second })
		b.wire.reset()
		b.wire.stall(t)
		closes(t, "Done", lock.Done())
		if n := b.wire.scripts(); n > 2 { // a try and its re-send
			t.Errorf("%d renewals were sent to a silent Redis", n)
		}
	}},
	{"each_lock_is_served_by_its_own_options", func(t *testing.T, b *bed) {
		slow := lockOf(t, b.locks, b.key+":2", renewed, func(o *redislock.LockOptions) { o.RenewalConfig.CheckInterval = 20 * time.Second })
		must(t, "Acquire", slow.Acquire(t.Context()))
		staysHeld(t, b, b.held(t, renewed, expiration(lease)))
	}},
	{"a_renewed_hold_keeps_its_counter_alive", func(t *testing.T, b *bed) {
		lock := b.held(t, renewed, expiration(lease), func(o *redislock.LockOptions) { o.TokenTTL = 200 * time.Millisecond })
		staysHeld(t, b, lock)
		must(t, "Release", lock.Release(t.Context()))
		must(t, "Acquire", lock.Acquire(t.Context()))
		equal(t, "the next token", lock.GetToken(), 2)
	}},
	{"an_automatic_renewal_of_a_lost_lock_touches_nothing", func(t *testing.T, b *bed) {
		lock := b.held(t, renewed, expiration(lease))
		b.takenElsewhere(t, "a-peer", 1, time.Minute)
		b.pexpire(t, b.ownerKey(), 20*time.Second)
		closes(t, "Done", lock.Done())
		wantLost(t, lock.Err(), lock, "taken")
		equal(t, "the owner", b.get(t, b.ownerKey()), "a-peer")
		between(t, "TTL of the owner key", b.pttl(t, b.ownerKey()), 0, 20*time.Second)
	}},
}
