package redislock_test

import (
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

var renewContract = []behaviour{
	{"Renew_lengthens_the_lease", func(t *testing.T, b *bed) {
		lock := b.held(t)
		must(t, "Renew", lock.Renew(t.Context(), 10*time.Minute))
		between(t, "TTL of the owner key", b.pttl(t, b.ownerKey()), 9*time.Minute, 10*time.Minute)
		between(t, "GetRemainingTime", lock.GetRemainingTime(), 9*time.Minute, 10*time.Minute)
		equal(t, "GetExpiration", lock.GetExpiration(), 10*time.Minute)
	}},
	{"Renew_shortens_the_lease", func(t *testing.T, b *bed) {
		lock := b.held(t)
		must(t, "Renew", lock.Renew(t.Context(), 20*time.Second))
		between(t, "TTL of the owner key", b.pttl(t, b.ownerKey()), time.Second, 20*time.Second)
		between(t, "GetRemainingTime", lock.GetRemainingTime(), time.Second, 20*time.Second)
		equal(t, "GetExpiration", lock.GetExpiration(), 20*time.Second)
	}},
	{"Renew_renews_the_count_as_well", func(t *testing.T, b *bed) {
		lock := b.held(t)
		must(t, "Acquire", lock.Acquire(t.Context()))
		for _, ttl := range []time.Duration{10 * time.Minute, 20 * time.Second} {
			must(t, "Renew", lock.Renew(t.Context(), ttl))
			between(t, "TTL of the count key", b.pttl(t, b.countKey()), ttl/2, ttl)
		}
		equal(t, "the count", b.get(t, b.countKey()), "2")
		must(t, "Release", lock.Release(t.Context()))
		equal(t, "Err", lock.Err(), nil)
	}},
	{"Renew_with_a_bad_duration_is_ErrInvalidOptions_and_touches_nothing", func(t *testing.T, b *bed) {
		lock := b.held(t)
		b.wire.reset()
		at := lock.GetExpiresAt()
		for _, d := range []time.Duration{0, 500 * time.Microsecond, -time.Second, 9 * time.Millisecond} {
			err := lock.Renew(t.Context(), d)
			wantIs(t, err, redislock.ErrInvalidOptions)
			wantNot(t, err, redislock.ErrLockLost, redislock.ErrLockNotHeld)
		}
		equal(t, "script calls", b.wire.scripts(), 0)
		equal(t, "GetExpiresAt", lock.GetExpiresAt(), at)
		equal(t, "Err", lock.Err(), nil)
		between(t, "TTL of the owner key", b.pttl(t, b.ownerKey()), 30*time.Second, time.Minute)
	}},
	{"Renew_of_what_is_not_held_is_ErrLockRenewalFailed_and_ErrLockNotHeld", func(t *testing.T, b *bed) {
		lock := b.lock(t)
		wantIs(t, lock.Renew(t.Context(), time.Minute), redislock.ErrLockRenewalFailed, redislock.ErrLockNotHeld)
		must(t, "Acquire", lock.Acquire(t.Context()))
		must(t, "Release", lock.Release(t.Context()))
		err := lock.Renew(t.Context(), time.Minute)
		wantIs(t, err, redislock.ErrLockRenewalFailed, redislock.ErrLockNotHeld)
		wantNot(t, err, redislock.ErrLockLost)
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
	}},
	{"Renew_after_a_loss_touches_neither_the_next_owner_nor_an_absent_key", func(t *testing.T, b *bed) {
		lock := b.held(t)
		b.takenElsewhere(t, "a-peer", 1, 20*time.Second)
		for range 2 {
			wantIs(t, lock.Renew(t.Context(), 10*time.Minute), redislock.ErrLockRenewalFailed, redislock.ErrLockNotHeld, redislock.ErrLockLost)
			between(t, "TTL of the owner key", b.pttl(t, b.ownerKey()), 0, 20*time.Second)
		}
		b.del(t, b.ownerKey(), b.countKey())
		other := b.held(t)
		b.del(t, b.ownerKey())
		wantIs(t, other.Renew(t.Context(), 10*time.Minute), redislock.ErrLockRenewalFailed, redislock.ErrLockNotHeld, redislock.ErrLockLost)
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
	}},
	{"a_reentry_after_Renew_takes_the_new_lease", func(t *testing.T, b *bed) {
		lock := b.held(t)
		must(t, "Renew", lock.Renew(t.Context(), 10*time.Minute))
		must(t, "Acquire", lock.Acquire(t.Context()))
		between(t, "TTL of the owner key", b.pttl(t, b.ownerKey()), 9*time.Minute, 10*time.Minute)
		between(t, "TTL of the count key", b.pttl(t, b.countKey()), 9*time.Minute, 10*time.Minute)
	}},
	{"the_next_acquisition_starts_from_the_options_again", func(t *testing.T, b *bed) {
		lock := b.held(t)
		must(t, "Renew", lock.Renew(t.Context(), 10*time.Minute))
		must(t, "Release", lock.Release(t.Context()))
		equal(t, "GetExpiration", lock.GetExpiration(), time.Minute)
		must(t, "Acquire", lock.Acquire(t.Context()))
		equal(t, "GetExpiration", lock.GetExpiration(), time.Minute)
		between(t, "TTL of the owner key", b.pttl(t, b.ownerKey()), 0, time.Minute)
		between(t, "GetRemainingTime", lock.GetRemainingTime(), 0, time.Minute)
	}},
	{"a_failed_Renew_leaves_the_hold", func(t *testing.T, b *bed) {
		lock := b.held(t, timeout(callTimeout))
		b.wire.refuse()
		err := lock.Renew(t.Context(), 30*time.Second)
		wantIs(t, err, redislock.ErrLockRenewalFailed)
		wantNot(t, err, redislock.ErrLockNotHeld, redislock.ErrLockLost)
		b.wire.heal()
		equal(t, "Err", lock.Err(), nil)
		must(t, "Renew", lock.Renew(t.Context(), time.Minute))
	}},
	{"a_Renew_that_may_still_arrive_is_never_outlived_by_trust", func(t *testing.T, b *bed) {
		lock := b.held(t, timeout(callTimeout))
		resume := b.wire.stall(t)
		err := closes(t, "Renew returns", async(func() error { return lock.Renew(t.Context(), 2*time.Second) }))
		wantIs(t, err, redislock.ErrLockRenewalFailed)
		resume()
		_ = lock.Renew(t.Context(), 10*time.Minute) // answered, but the late one may still shorten it
		if left := lock.GetRemainingTime(); left > 2*time.Second {
			t.Errorf("trusted for %s", left)
		}
	}},
	{"GetExpiresAt_is_less_than_the_lease_and_what_Redis_keeps_is_more", func(t *testing.T, b *bed) {
		lock := b.lock(t)
		trusted := func(what string, call func() error) {
			t.Helper()
			before := time.Now()
			must(t, what, call())
			if at := lock.GetExpiresAt(); !at.Before(before.Add(time.Minute)) {
				t.Errorf("after %s: GetExpiresAt has no margin (%s after the call began)", what, at.Sub(before))
			}
			left := lock.GetRemainingTime()
			if kept := b.pttl(t, b.ownerKey()); kept <= left-time.Second { // the reads are not at one moment
				t.Errorf("after %s: trusted for %s, Redis keeps %s", what, left, kept)
			}
			between(t, "GetRemainingTime", left, 30*time.Second, time.Minute)
			rest, expired := lock.GetStatus()
			between(t, "the rest in GetStatus", rest, 30*time.Second, left)
			equal(t, "expired in GetStatus", expired, false)
			between(t, "time until GetExpiresAt", time.Until(lock.GetExpiresAt()), 30*time.Second, left)
		}
		trusted("Acquire", func() error { return lock.Acquire(t.Context()) })
		trusted("Renew", func() error { return lock.Renew(t.Context(), time.Minute) })
		trusted("a reentry", func() error { return lock.Acquire(t.Context()) })
	}},
	{"TTL_is_what_Redis_says", func(t *testing.T, b *bed) {
		lock := b.held(t)
		b.pexpire(t, b.ownerKey(), 20*time.Second)
		left, err := lock.TTL(t.Context())
		must(t, "TTL", err)
		between(t, "TTL", left, 10*time.Second, 20*time.Second)
		other, err := b.lock(t).TTL(t.Context())
		must(t, "TTL of another instance", err)
		equal(t, "TTL of another instance", other, 0)
	}},
	{"TTL_and_IsLocked_of_a_lost_lock_are_0_and_false", func(t *testing.T, b *bed) {
		for _, take := range []func(){
			func() { b.del(t, b.ownerKey()) },
			func() { b.takenElsewhere(t, "a-peer", 1, time.Minute) },
		} {
			lock := b.held(t)
			take()
			left, err := lock.TTL(t.Context())
			must(t, "TTL", err)
			equal(t, "TTL", left, 0)
			locked, err := lock.IsLocked(t.Context())
			must(t, "IsLocked", err)
			equal(t, "IsLocked", locked, false)
			wantIs(t, lock.Err(), redislock.ErrLockLost)
			b.del(t, b.ownerKey(), b.countKey())
		}
	}},
}
