package redislock_test

import (
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// toldOnce checks that OnLockRenewalFailed was called exactly once, for the loss.
func toldOnce(t *testing.T, r *recorder, lock *redislock.RedisLock, reason redislock.LossReason) {
	t.Helper()
	r.eventually(t, "renewal failed", 1)
	settle(t)
	calls := r.exactly(t, "renewal failed", 1)
	wantLost(t, calls[0].err, lock, reason)
}

var lossCallbackContract = []behaviour{
	{"OnLockRenewalFailed_once_when_a_renewal_finds_the_loss", func(t *testing.T, b *bed) {
		r := b.record(t, nil)
		lock := b.held(t, renewed, expiration(lease))
		b.del(t, b.ownerKey(), b.countKey())
		closes(t, "Done", lock.Done())
		wantIs(t, lock.Release(t.Context()), redislock.ErrLockLost)
		toldOnce(t, r, lock, "vanished")
		equal(t, "OnLockReleased", r.count("released"), 0)
	}},
	{"OnLockRenewalFailed_once_when_another_took_the_lock", func(t *testing.T, b *bed) {
		r := b.record(t, nil)
		lock := b.held(t, renewed, expiration(lease))
		b.takenElsewhere(t, "a-peer", 1, time.Minute)
		toldOnce(t, r, lock, "taken")
	}},
	{"OnLockRenewalFailed_once_for_an_unrenewed_lease_that_runs_out", func(t *testing.T, b *bed) {
		r := b.record(t, nil)
		lock := b.held(t, expiration(500*time.Millisecond))
		toldOnce(t, r, lock, "expired")
		wantIs(t, lock.Acquire(t.Context()), redislock.ErrLockLost)
		toldOnce(t, r, lock, "expired")
	}},
	{"OnLockRenewalFailed_once_for_a_renewed_lease_that_runs_out_on_a_silent_Redis", func(t *testing.T, b *bed) {
		r := b.record(t, nil)
		lock := b.held(t, renewed, expiration(400*time.Millisecond))
		resume := b.wire.stall(t)
		closes(t, "Done", lock.Done())
		resume()
		toldOnce(t, r, lock, "expired")
	}},
	{"OnLockRenewalFailed_once_when_Renew_finds_the_loss", func(t *testing.T, b *bed) {
		r := b.record(t, nil)
		lock := b.held(t)
		b.del(t, b.ownerKey())
		wantIs(t, lock.Renew(t.Context(), time.Minute), redislock.ErrLockLost)
		toldOnce(t, r, lock, "vanished")
	}},
	{"OnLockRenewalFailed_once_when_a_reentry_or_Release_or_IsLocked_finds_the_loss", func(t *testing.T, b *bed) {
		for _, call := range []func(*redislock.RedisLock){
			func(lock *redislock.RedisLock) { wantIs(t, lock.Acquire(t.Context()), redislock.ErrLockLost) },
			func(lock *redislock.RedisLock) { wantIs(t, lock.Release(t.Context()), redislock.ErrLockLost) },
			func(lock *redislock.RedisLock) { _, _ = lock.IsLocked(t.Context()) },
		} {
			r := b.record(t, nil)
			lock := b.held(t)
			b.del(t, b.ownerKey())
			call(lock)
			toldOnce(t, r, lock, "vanished")
		}
	}},
	{"OnLockRenewalFailed_once_for_each_failed_manual_Renew", func(t *testing.T, b *bed) {
		r := b.record(t, nil)
		lock := b.lock(t, timeout(callTimeout))
		fails := func(call string, n int, class error) {
			t.Helper()
			wantIs(t, lock.Renew(t.Context(), time.Minute), redislock.ErrLockRenewalFailed)
			r.eventually(t, "renewal failed", n)
			settle(t)
			t.Log("after " + call)
			calls := r.exactly(t, "renewal failed", n)
			wantIs(t, calls[n-1].err, class)
		}
		fails("a Renew of what is not held", 1, redislock.ErrLockNotHeld)
		must(t, "Acquire", lock.Acquire(t.Context()))
		b.wire.refuse()
		fails("a Renew without an answer", 2, redislock.ErrLockRenewalFailed)
		b.wire.heal()
		b.del(t, b.ownerKey())
		fails("the Renew that finds the loss", 3, redislock.ErrLockLost)
		fails("a Renew after the loss", 4, redislock.ErrLockLost)
	}},
	{"no_OnLockRenewalFailed_for_a_lock_that_is_released", func(t *testing.T, b *bed) {
		r := b.record(t, nil)
		lock := b.held(t, renewed, expiration(400*time.Millisecond))
		must(t, "Release", lock.Release(t.Context()))
		time.Sleep(500 * time.Millisecond) // a negative: the lease would have ended in it
		settle(t)
		equal(t, "OnLockRenewalFailed", r.count("renewal failed"), 0)
	}},
	{"an_automatic_renewal_that_is_repeated_with_success_tells_no_failure", func(t *testing.T, b *bed) {
		r := b.record(t, nil)
		lock := b.held(t, renewed, expiration(3*time.Second), func(o *redislock.LockOptions) { o.RenewalConfig.CallTimeout = 100 * time.Millisecond })
		b.wire.reset()
		b.wire.refuse()
		eventually(t, "a few tries", func() bool { return b.wire.scripts() >= 3 })
		b.wire.heal()
		r.eventually(t, "renewed", 1)
		must(t, "Release", lock.Release(t.Context()))
		settle(t)
		equal(t, "OnLockRenewalFailed", r.count("renewal failed"), 0)
	}},
}

// panicContract is about callbacks that panic.
var panicContract = []behaviour{
	{"a_panic_in_OnLockAcquired_changes_no_result_and_keeps_no_lock", func(t *testing.T, b *bed) {
		b.record(t, func(string) { panic("a callback's own") })
		ran := false
		must(t, "LockWithOptions", b.locks.LockWithOptions(t.Context(), b.key, options(), func() error { ran = true; return nil }))
		equal(t, "fn has run", ran, true)
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
		lock := b.held(t)
		must(t, "a reentry", lock.Acquire(t.Context()))
		must(t, "Release", lock.Release(t.Context()))
		must(t, "Release", lock.Release(t.Context()))
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
	}},
	{"a_panic_in_OnLockAcquireFailed_changes_no_result", func(t *testing.T, b *bed) {
		b.held(t)
		b.record(t, func(string) { panic("a callback's own") })
		err := b.lock(t).AcquireWithRetry(t.Context(), strategy(2, time.Millisecond))
		wantIs(t, err, redislock.ErrMaxRetriesExceeded, redislock.ErrLockAcquireConflict)
	}},
	{"a_panic_in_OnLockRenewed_never_ends_renewal", func(t *testing.T, b *bed) {
		r := b.record(t, func(string) { panic("a callback's own") })
		lock := b.held(t, renewed, expiration(lease))
		r.eventually(t, "renewed", 2)
		staysHeld(t, b, lock)
		must(t, "Renew", lock.Renew(t.Context(), time.Minute))
		must(t, "Release", lock.Release(t.Context()))
	}},
	{"a_panic_in_OnLockRenewalFailed_changes_no_result", func(t *testing.T, b *bed) {
		r := b.record(t, func(string) { panic("a callback's own") })
		lock := b.held(t)
		b.del(t, b.ownerKey())
		wantIs(t, lock.Renew(t.Context(), time.Minute), redislock.ErrLockRenewalFailed, redislock.ErrLockLost)
		r.eventually(t, "renewal failed", 1)
		wantLost(t, lock.Acquire(t.Context()), lock, "vanished")
		must(t, "the next Acquire", lock.Acquire(t.Context()))
	}},
}
