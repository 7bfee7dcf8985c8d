package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// Calls that cross on one instance: the manual ones with each other, and with the
// automatic renewals, which run at any time.

// believesNoMoreThanRedis watches that the hold is never trusted beyond the moment
// at which Redis drops its key.
func (r *faultRig) believesNoMoreThanRedis(t *testing.T, lock *redislock.RedisLock, during time.Duration) {
	t.Helper()
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(3 * time.Millisecond) {
		believed := lock.GetExpiresAt()
		left, err := r.direct.PTTL(t.Context(), r.redisKey(":owner")).Result()
		must(t, "PTTL", err)
		// PTTL rounds to 1 ms, and time has passed since it was answered.
		if over := believed.Sub(time.Now().Add(left + time.Millisecond)); over > 0 && lock.Err() == nil {
			t.Fatalf("the hold is trusted %s longer than Redis keeps its key, which has %s left", over, left)
		}
	}
}

// crossRenewal makes a hold of 1.5 s, whose renewal is due after 1050 ms at the
// latest, and sends a shortening Renew before that, which Redis gets after it.
func crossRenewal(t *testing.T, late, callTime, ttl time.Duration) (*faultRig, *redislock.RedisLock) {
	t.Helper()
	r := newFaultRig(t)
	options := faultOptions(1500 * time.Millisecond)
	options.ScriptCallTimeout = callTime
	lock := r.held(t, options)
	t.Cleanup(func() { _ = lock.Release(context.Background()) })
	time.Sleep(time.Until(lock.GetAcquiredAt().Add(700 * time.Millisecond)))
	r.proxy.DelayRequests(late, 2, requestsOf(t, "renew", "set"))
	err := lock.Renew(t.Context(), ttl)
	t.Logf("Renew(%s): %v", ttl, err)
	return r, lock
}

func TestARenewalSentWhileARenewIsInFlightIsBelievedNoLongerThanIt(t *testing.T) {
	t.Parallel()
	r, lock := crossRenewal(t, 600*time.Millisecond, 4*time.Second, 900*time.Millisecond)
	r.believesNoMoreThanRedis(t, lock, 300*time.Millisecond)
}

func TestARenewThatArrivesLongAfterItsCallDoesNotCutABelievedLease(t *testing.T) {
	t.Parallel()
	r, lock := crossRenewal(t, 900*time.Millisecond, 500*time.Millisecond, 600*time.Millisecond)
	r.believesNoMoreThanRedis(t, lock, 1200*time.Millisecond)
}

func TestARenewalThatArrivesAfterTheReleaseFindsNoLoss(t *testing.T) {
	r := newFaultRig(t)
	var told atomic.Int32
	callBack(t, hooks{failed: func(error) { told.Add(1) }})
	options := faultOptions(time.Second)
	options.ScriptCallTimeout = 3 * time.Second
	options.RenewalConfig.CallTimeout = 3 * time.Second
	isRenewal := requestsOf(t, "renew")
	r.proxy.DelayRequests(150*time.Millisecond, 1, isRenewal)
	lock := r.held(t, options)
	becomes(t, 2*time.Second, "a renewal is on its way", func() bool { return r.proxy.Count(isRenewal) > 0 })
	// The renewal's answer, that there is no key, comes before the release's.
	r.proxy.DelayReplies(400*time.Millisecond, 1, requestsOf(t, "release"))
	succeeds(t, "Release", lock.Release(t.Context()))
	wantNot(t, lock.Err(), redislock.ErrLockLost)
	stays(t, 50*time.Millisecond, "no OnLockRenewalFailed", func() bool { return told.Load() == 0 })
	succeeds(t, "the next Acquire", lock.Acquire(t.Context()))
	succeeds(t, "its Release", lock.Release(t.Context()))
}

// Nothing forces a question to be answered within a release: it is asked often.
func TestAQuestionThatCrossesAReleaseFindsNoLoss(t *testing.T) {
	r := newFaultRig(t)
	var told atomic.Int32
	callBack(t, hooks{failed: func(error) { told.Add(1) }})
	lock := r.lock(t, r.another, faultOptions(30*time.Second))
	ctx, cancel := context.WithCancel(t.Context())
	var askers sync.WaitGroup
	for range 8 {
		askers.Go(func() {
			for ctx.Err() == nil {
				_, _ = lock.IsLocked(ctx)
			}
		})
	}
	defer askers.Wait()
	defer cancel()
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); {
		succeeds(t, "Acquire", lock.Acquire(t.Context()))
		succeeds(t, "Release", lock.Release(t.Context()))
	}
	equal(t, "OnLockRenewalFailed calls", told.Load(), 0)
}

// No network fault: the releases are at the moment at which the renewal is due.
func TestAReleaseAtTheDueTimeOfARenewalFindsNoLoss(t *testing.T) {
	r := newFaultRig(t)
	var vanished atomic.Int32
	callBack(t, hooks{failed: func(err error) {
		var lost *redislock.LostError
		if errors.As(err, &lost) && lost.Reason == "vanished" {
			vanished.Add(1)
		}
	}})
	const due = 200 * time.Millisecond
	var holders sync.WaitGroup
	for i := range 40 {
		lock, err := r.another.NewLock(t.Context(), fmt.Sprint(r.key, "-", i), faultOptions(2*due))
		must(t, "NewLock", err)
		holders.Go(func() {
			for j := range 12 {
				if lock.Acquire(t.Context()) != nil {
					continue // a lease of 400 ms may be lost on a busy machine
				}
				off := time.Duration((i+j)%20)*100*time.Microsecond - 500*time.Microsecond
				time.Sleep(time.Until(lock.GetAcquiredAt().Add(due + off)))
				_ = lock.Release(t.Context())
			}
		})
	}
	holders.Wait()
	equal(t, "holds that vanished", vanished.Load(), 0)
}

func TestAReleaseOfLockContextThatOtherCallsHoldUpEndsTheRenewal(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	options := faultOptions(time.Second)
	options.ScriptCallTimeout = 300 * time.Millisecond
	var renews sync.WaitGroup
	isRenew := requestsOf(t, "renew", "set")
	err := r.ours.LockContext(t.Context(), r.key, options, func(_ context.Context, lock *redislock.RedisLock) error {
		r.proxy.DelayReplies(700*time.Millisecond, 6, isRenew)
		for range 3 {
			renews.Go(func() { _ = lock.Renew(context.Background(), time.Second) })
		}
		becomes(t, time.Second, "a Renew is in flight", func() bool { return r.proxy.Count(isRenew) > 0 })
		time.Sleep(20 * time.Millisecond) // the others queue up behind it, where nobody sees them
		return nil
	})
	if err == nil {
		t.Error("LockContext has released nothing, and returned no error")
	}
	renews.Wait()
	r.ownerIsGone(t, 1800*time.Millisecond)
}

func TestAReleaseWhoseContextEndsBehindAnotherCallEndsTheRenewal(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	lock := r.held(t, faultOptions(time.Second))
	isRenew := requestsOf(t, "renew", "set")
	r.proxy.DelayReplies(350*time.Millisecond, 1, isRenew)
	renewed := async(func() error { return lock.Renew(context.Background(), time.Second) })
	becomes(t, time.Second, "the Renew is in flight", func() bool { return r.proxy.Count(isRenew) > 0 })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	failsAs(t, "Release", lock.Release(ctx), context.DeadlineExceeded)
	r.ownerIsGone(t, 1800*time.Millisecond)
	t.Log("Renew:", <-renewed)
	_ = lock.Release(t.Context())
}

// acquiring is an instance whose acquire is in flight, and answered that much later.
func (r *faultRig) acquiring(t *testing.T, later time.Duration) (*redislock.RedisLock, <-chan error) {
	t.Helper()
	lock := r.lock(t, r.ours, faultOptions(5*time.Second))
	isAcquire := requestsOf(t, "acquire")
	r.proxy.DelayReplies(later, 1, isAcquire)
	got := async(func() error { return lock.Acquire(context.Background()) })
	becomes(t, time.Second, "the acquire is in flight", func() bool { return r.proxy.Count(isAcquire) > 0 })
	return lock, got
}

func TestAReleaseBehindAnAcquireOfItsInstanceIsOfNothing(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	lock, got := r.acquiring(t, 300*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	wantIs(t, lock.Release(ctx), redislock.ErrLockNotHeld, context.DeadlineExceeded)
	must(t, "Acquire", closes(t, "the end of Acquire", got))
	succeeds(t, "Release", lock.Release(t.Context()))
}

func TestAShorteningRenewThatHangsEndsTheLeaseContextInTime(t *testing.T) {
	t.Parallel()
	for _, renewal := range []bool{false, true} {
		t.Run(fmt.Sprint("renewal_", renewal), func(t *testing.T) {
			t.Parallel()
			r := newFaultRig(t)
			options := faultOptions(30 * time.Second)
			options.ScriptCallTimeout = 2 * time.Second
			options.RenewalEnabled = renewal
			lock := r.held(t, options)
			r.proxy.BlackHole(true)
			defer r.proxy.BlackHole(false)
			ctx, cancel := lock.Context(t.Context())
			defer cancel()
			start := time.Now()
			renew := async(func() error { return lock.Renew(context.Background(), 500*time.Millisecond) })
			closes(t, "the end of the lease context", ctx.Done())
			if took := time.Since(start); took > 1300*time.Millisecond {
				t.Errorf("a lease of 500 ms ended after %s", took)
			}
			t.Log("Renew:", <-renew)
		})
	}
}

func TestARenewThatWasNeverSentChangesNoLease(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	options := faultOptions(30 * time.Second)
	options.RenewalEnabled = false
	lock := r.held(t, options)
	r.proxy.Refuse(true)
	if err := lock.Renew(t.Context(), 500*time.Millisecond); err == nil {
		t.Error("a Renew without a connection succeeded")
	}
	r.proxy.Refuse(false)
	stays(t, 700*time.Millisecond, "the lock is held", func() bool { return lock.Err() == nil })
	succeeds(t, "Release", lock.Release(t.Context()))
}

func TestASlowRefreshOfTheCounterCostsNoLease(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	options := faultOptions(600 * time.Millisecond)
	options.TokenTTL = 80 * time.Millisecond // each renewal refreshes the counter
	options.ScriptCallTimeout = 5 * time.Second
	isTouch := requestsOf(t, "touch")
	r.proxy.DelayReplies(2*time.Second, 1, isTouch)
	lock := r.held(t, options)
	becomes(t, time.Second, "the counter is refreshed", func() bool { return r.proxy.Count(isTouch) > 0 })
	stays(t, 1200*time.Millisecond, "the lock is held", func() bool { return lock.Err() == nil })
	succeeds(t, "Release", lock.Release(t.Context()))
}

func TestARenewTakesNoMoreThanOneCallTime(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	lock := r.held(t, faultOptions(10*time.Second)) // calls of 400 ms
	r.proxy.DelayReplies(time.Second, 2, requestsOf(t, "touch"))
	r.proxy.DelayReplies(180*time.Millisecond, 1, requestsOf(t, "renew"))
	noLonger(t, 540*time.Millisecond, "Renew", func(ctx context.Context) {
		succeeds(t, "Renew", lock.Renew(ctx, 10*time.Second))
	})
	_ = lock.Release(t.Context())
}

// Its counter would live long enough, and the next renewal mends it otherwise.
func TestARenewWaitsForItsCounterNoLongerThanARenewalMay(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	options := faultOptions(time.Minute)
	options.ScriptCallTimeout = 0
	options.RenewalConfig.CallTimeout = 300 * time.Millisecond
	lock := r.held(t, options)
	isTouch := requestsOf(t, "touch")
	r.proxy.DelayRequests(200*time.Millisecond, 1, isTouch)
	renewed := async(func() error { return lock.Renew(context.Background(), time.Hour) })
	becomes(t, time.Second, "the counter is about to be refreshed", func() bool { return r.proxy.Count(isTouch) > 0 })
	must(t, "CONFIG SET", r.direct.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
	succeeds(t, "Renew", closes(t, "the end of Renew", renewed))
	must(t, "CONFIG SET", r.direct.ConfigSet(t.Context(), "min-replicas-to-write", "0").Err())
	succeeds(t, "Release", lock.Release(t.Context()))
}
