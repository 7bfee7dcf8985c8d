package redislock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// wantLost checks that err tells of the loss of the lock's last hold.
func wantLost(t *testing.T, err error, lock *redislock.RedisLock, reason redislock.LossReason) {
	t.Helper()
	wantIs(t, err, redislock.ErrLockLost)
	var lost *redislock.LostError
	if !errors.As(err, &lost) {
		t.Fatalf("error %v has no *LostError in it", err)
	}
	equal(t, "Key", lost.Key, lock.GetKey())
	equal(t, "Token", lost.Token, lock.GetToken())
	equal(t, "Reason", lost.Reason, reason)
	if lost.At.Before(lock.GetAcquiredAt()) || lost.At.After(time.Now()) {
		t.Errorf("At %s is not between the acquisition (%s) and now", lost.At, lock.GetAcquiredAt())
	}
}

// losses are the ways in which a lease ends under its holder. Each makes the keys
// so and lets a call find it.
var losses = []struct {
	name   string
	reason redislock.LossReason
	lose   func(*testing.T, *bed, *redislock.RedisLock)
}{
	{"vanished", "vanished", func(t *testing.T, b *bed, lock *redislock.RedisLock) {
		b.del(t, b.ownerKey(), b.countKey())
		locked, err := lock.IsLocked(t.Context())
		must(t, "IsLocked", err)
		equal(t, "IsLocked", locked, false)
	}},
	{"taken", "taken", func(t *testing.T, b *bed, lock *redislock.RedisLock) {
		b.takenElsewhere(t, "a-peer", 1, time.Minute)
		locked, err := lock.IsLocked(t.Context())
		must(t, "IsLocked", err)
		equal(t, "IsLocked", locked, false)
	}},
	{"expired", "expired", func(t *testing.T, b *bed, lock *redislock.RedisLock) {
		must(t, "Renew", lock.Renew(t.Context(), 200*time.Millisecond))
		closes(t, "Done", lock.Done())
	}},
}

// eachLoss runs a check on a freshly lost lock, for every way to lose it. The
// lock had the given number of levels.
func eachLoss(levels int, check func(*testing.T, *bed, *redislock.RedisLock, redislock.LossReason)) func(*testing.T, *bed) {
	return func(t *testing.T, b *bed) {
		for _, loss := range losses {
			t.Run(loss.name, func(t *testing.T) {
				b := newBed(t, b.env)
				lock := b.held(t)
				for range levels - 1 {
					must(t, "Acquire", lock.Acquire(t.Context()))
				}
				loss.lose(t, b, lock)
				check(t, b, lock, loss.reason)
			})
		}
	}
}

var lossContract = []behaviour{
	{"a_loss_is_told_by_Done_Err_and_LostError", eachLoss(1, func(t *testing.T, b *bed, lock *redislock.RedisLock, reason redislock.LossReason) {
		closes(t, "Done", lock.Done())
		wantLost(t, lock.Err(), lock, reason)
		equal(t, "IsExpired", lock.IsExpired(), true)
		equal(t, "GetRemainingTime", lock.GetRemainingTime(), 0)
		equal(t, "GetToken", lock.GetToken(), 1)
		equal(t, "GetValue", lock.GetValue(), "")
		wantLost(t, lock.Err(), lock, reason) // it stays
	})},
	{"the_first_Acquire_after_a_loss_reports_it_once", eachLoss(1, func(t *testing.T, b *bed, lock *redislock.RedisLock, reason redislock.LossReason) {
		wantLost(t, lock.Acquire(t.Context()), lock, reason)
		b.del(t, b.ownerKey(), b.countKey())
		must(t, "the next Acquire", lock.Acquire(t.Context()))
		equal(t, "GetToken", lock.GetToken(), 2)
		equal(t, "Err", lock.Err(), nil)
		must(t, "the only Release", lock.Release(t.Context()))
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
	})},
	{"a_loss_is_reported_by_Acquire_whoever_holds_the_key_by_then", eachLoss(2, func(t *testing.T, b *bed, lock *redislock.RedisLock, reason redislock.LossReason) {
		b.del(t, b.ownerKey(), b.countKey())
		other := b.held(t)
		wantLost(t, lock.Acquire(t.Context()), lock, reason)
		err := lock.Acquire(t.Context())
		wantIs(t, err, redislock.ErrLockAcquireConflict)
		wantNot(t, err, redislock.ErrLockLost)
		must(t, "Release of the other", other.Release(t.Context()))
		must(t, "Acquire", lock.Acquire(t.Context()))
		must(t, "the only Release", lock.Release(t.Context())) // no level of the old hold is left
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
	})},
	{"AcquireWait_and_AcquireWithRetry_report_a_loss_as_well", eachLoss(1, func(t *testing.T, b *bed, lock *redislock.RedisLock, reason redislock.LossReason) {
		got := closes(t, "AcquireWait returns", async(func() error { return lock.AcquireWait(t.Context()) }))
		wantLost(t, got, lock, reason)
		b.del(t, b.ownerKey(), b.countKey())
		must(t, "Acquire", lock.Acquire(t.Context()))
		b.del(t, b.ownerKey())
		_, _ = lock.IsLocked(t.Context())
		wantLost(t, lock.AcquireWithRetry(t.Context(), strategy(3, time.Millisecond)), lock, "vanished")
	})},
	{"Release_after_a_loss_is_ErrLockNotHeld_and_ErrLockLost", eachLoss(1, func(t *testing.T, b *bed, lock *redislock.RedisLock, reason redislock.LossReason) {
		owner := b.get(t, b.ownerKey())
		err := lock.Release(t.Context())
		wantIs(t, err, redislock.ErrLockNotHeld)
		wantLost(t, err, lock, reason)
		if reason == "taken" {
			equal(t, "the owner", b.get(t, b.ownerKey()), owner)
		}
		wantIs(t, lock.Release(t.Context()), redislock.ErrLockNotHeld)
	})},
	{"after_a_Release_has_reported_the_loss_Acquire_starts_anew_at_once", eachLoss(2, func(t *testing.T, b *bed, lock *redislock.RedisLock, reason redislock.LossReason) {
		wantIs(t, lock.Release(t.Context()), redislock.ErrLockLost)
		b.del(t, b.ownerKey(), b.countKey())
		must(t, "Acquire", lock.Acquire(t.Context()))
		must(t, "the only Release", lock.Release(t.Context()))
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
	})},
	{"Renew_after_a_loss_reports_it", eachLoss(1, func(t *testing.T, b *bed, lock *redislock.RedisLock, reason redislock.LossReason) {
		err := lock.Renew(t.Context(), time.Minute)
		wantIs(t, err, redislock.ErrLockRenewalFailed, redislock.ErrLockNotHeld)
		wantLost(t, err, lock, reason)
	})},
	{"the_lease_context_ends_with_the_loss_as_its_cause", func(t *testing.T, b *bed) {
		for _, loss := range losses {
			b := newBed(t, b.env)
			lock := b.held(t)
			ctx, cancel := lock.Context(t.Context())
			defer cancel()
			equal(t, "Err of the context", ctx.Err(), nil)
			loss.lose(t, b, lock)
			closes(t, "Done of the context", ctx.Done())
			equal(t, "Err of the context", ctx.Err(), context.Canceled)
			wantLost(t, context.Cause(ctx), lock, loss.reason)
		}
	}},
}

// found checks that every call finds a loss that nobody knows of yet.
func found(take func(*testing.T, *bed), reason redislock.LossReason) func(*testing.T, *bed) {
	calls := map[string]func(*testing.T, *redislock.RedisLock) error{
		"a reentry":         func(t *testing.T, lock *redislock.RedisLock) error { return lock.Acquire(t.Context()) },
		"a reentry by wait": func(t *testing.T, lock *redislock.RedisLock) error { return lock.AcquireWait(t.Context()) },
		"Renew":             func(t *testing.T, lock *redislock.RedisLock) error { return lock.Renew(t.Context(), time.Minute) },
		"a partial release": func(t *testing.T, lock *redislock.RedisLock) error { return lock.Release(t.Context()) },
		"a renewal": func(t *testing.T, lock *redislock.RedisLock) error {
			lock.EnableAutoRenew(options())
			closes(t, "Done", lock.Done())
			return lock.Err()
		},
	}
	return func(t *testing.T, b *bed) {
		find := func(name string, levels int, call func(*testing.T, *redislock.RedisLock) error) {
			t.Run(name, func(t *testing.T) {
				b := newBed(t, b.env)
				lock := b.held(t, expiration(2*time.Second))
				for range levels - 1 {
					must(t, "Acquire", lock.Acquire(t.Context()))
				}
				take(t, b)
				wantLost(t, call(t, lock), lock, reason)
				closes(t, "Done", lock.Done())
				wantLost(t, lock.Err(), lock, reason)
			})
		}
		for name, call := range calls {
			find(name, 2, call)
		}
		find("the last release", 1, calls["a partial release"])
	}
}

var lossReportContract = []behaviour{
	{"a_deleted_owner_key_is_found_by_every_call", found(func(t *testing.T, b *bed) { b.del(t, b.ownerKey(), b.countKey()) }, "vanished")},
	{"another_owner_is_found_by_every_call", found(func(t *testing.T, b *bed) { b.takenElsewhere(t, "a-peer", 1, time.Minute) }, "taken")},
	{"an_Acquire_that_finds_the_loss_has_reported_it", func(t *testing.T, b *bed) {
		lock := b.held(t)
		b.del(t, b.ownerKey())
		wantLost(t, lock.Acquire(t.Context()), lock, "vanished")
		must(t, "the next Acquire", lock.Acquire(t.Context()))
		equal(t, "GetToken", lock.GetToken(), 2)
	}},
	{"two_levels_lost_and_a_key_used_by_another_never_mix_two_holds", func(t *testing.T, b *bed) {
		lock := b.held(t)
		must(t, "Acquire", lock.Acquire(t.Context()))
		b.del(t, b.ownerKey(), b.countKey())
		other := b.held(t)
		must(t, "Release of the other", other.Release(t.Context()))
		wantLost(t, lock.Acquire(t.Context()), lock, "vanished")
		must(t, "the next Acquire", lock.Acquire(t.Context()))
		must(t, "the only Release", lock.Release(t.Context()))
		wantIs(t, lock.Err(), redislock.ErrLockNotHeld)
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
	}},
	{"a_hold_ends_at_its_local_deadline_while_Redis_still_keeps_the_key", func(t *testing.T, b *bed) {
		lock := b.held(t, expiration(500*time.Millisecond))
		must(t, "PERSIST", b.control.Persist(t.Context(), b.ownerKey()).Err())
		t.Cleanup(func() { b.del(t, b.ownerKey()) })
		value, at := lock.GetValue(), lock.GetExpiresAt()
		closes(t, "Done", lock.Done())
		if now := time.Now(); now.Before(at) {
			t.Errorf("Done is %s before GetExpiresAt", at.Sub(now))
		}
		equal(t, "the owner key", b.get(t, b.ownerKey()), value)
		wantLost(t, lock.Err(), lock, "expired")
		locked, err := lock.IsLocked(t.Context())
		must(t, "IsLocked", err)
		equal(t, "IsLocked", locked, false)
		wantIs(t, lock.Renew(t.Context(), time.Minute), redislock.ErrLockLost) // nothing makes it valid again
		wantLost(t, lock.Release(t.Context()), lock, "expired")
	}},
	{"GetExpiresAt_is_when_Err_begins_to_tell_the_loss", func(t *testing.T, b *bed) {
		lock := b.held(t, expiration(500*time.Millisecond))
		at := lock.GetExpiresAt()
		for {
			before := time.Now()
			expired, err := lock.IsExpired(), lock.Err()
			after := time.Now()
			if (expired || err != nil) && after.Before(at) {
				t.Fatalf("ended %s too early: expired %v, Err %v", at.Sub(after), expired, err)
			}
			if (!expired || err == nil) && before.After(at) {
				t.Fatalf("still valid %s too late: expired %v, Err %v", before.Sub(at), expired, err)
			}
			if err != nil {
				return
			}
		}
	}},
	{"a_reply_after_the_deadline_does_not_revive_a_hold", func(t *testing.T, b *bed) {
		lock := b.held(t, expiration(500*time.Millisecond))
		resume := b.wire.stall(t)
		got := async(func() error { return lock.Renew(t.Context(), time.Minute) })
		closes(t, "Done", lock.Done())
		resume()
		wantIs(t, closes(t, "Renew returns", got), redislock.ErrLockRenewalFailed, redislock.ErrLockLost)
		wantLost(t, lock.Err(), lock, "expired")
	}},
	{"a_loss_of_one_instance_is_not_the_loss_of_another", func(t *testing.T, b *bed) {
		lock := b.held(t)
		other := lockOf(t, b.locks, b.key+":2")
		must(t, "Acquire", other.Acquire(t.Context()))
		b.del(t, b.ownerKey())
		_, _ = lock.IsLocked(t.Context())
		wantIs(t, lock.Err(), redislock.ErrLockLost)
		equal(t, "Err of the other", other.Err(), nil)
	}},
}
