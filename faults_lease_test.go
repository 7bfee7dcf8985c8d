package redislock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

func reentryReplyLost(t *testing.T, r *faultRig) {
	lock := r.held(t, faultOptions(10*time.Second))
	r.proxy.DropReplies(1, requestsOf(t, "reenter"))
	succeeds(t, "the reentry", lock.Acquire(t.Context()))
	r.wantSends(t, "reenter", 2)
	if count := r.get(t, ":count"); count != "2" {
		t.Fatalf("the count is %q, want 2", count)
	}
	succeeds(t, "the inner release", lock.Release(t.Context()))
	r.isHeldOnce(t, lock)
}

func reentryRepliesLost(t *testing.T, r *faultRig) {
	lock := r.held(t, faultOptions(2*time.Second))
	r.proxy.DropReplies(2, requestsOf(t, "reenter"))
	failsAs(t, "the reentry", lock.Acquire(t.Context()), redislock.ErrLockAcquireFailed)
	becomes(t, 3*time.Second, "the outer level is renewed", func() bool { return faultEvents.renewals(r.key) > 0 })
	r.isHeldOnce(t, lock)
}

func reentryArrivesLate(t *testing.T, r *faultRig) {
	lock := r.held(t, faultOptions(2*time.Second))
	r.proxy.DelayRequests(time.Second, 2, requestsOf(t, "reenter"))
	failsAs(t, "the reentry", lock.Acquire(t.Context()), redislock.ErrLockAcquireFailed, context.DeadlineExceeded)
	succeeds(t, "the outer level", lock.Err())
	becomes(t, 3*time.Second, "the reentry has arrived", func() bool { return r.get(t, ":count") == "2" })
	becomes(t, 3*time.Second, "the outer level is renewed", func() bool { return faultEvents.renewals(r.key) > 0 })
	r.isHeldOnce(t, lock)
}

// shorteningRenewArrivesLate samples all the time: what is believed must never be
// later than what Redis keeps.
func shorteningRenewArrivesLate(t *testing.T, r *faultRig) {
	lock := r.held(t, faultOptions(30*time.Second))
	r.proxy.DelayRequests(2*time.Second, 2, requestsOf(t, "renew", "1000", "set"))
	failsAs(t, "Renew(1s)", lock.Renew(t.Context(), time.Second), redislock.ErrLockRenewalFailed, context.DeadlineExceeded)
	shortened := false
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		believed := r.wantNoLongerThanRedis(t, lock)
		if left := time.Until(believed); left > time.Second {
			t.Fatalf("a lease of %s is believed while the Renew(1s) may still arrive", left)
		}
		ttl, err := r.direct.PTTL(t.Context(), r.redisKey(":owner")).Result()
		succeeds(t, "PTTL", err)
		shortened = shortened || ttl <= time.Second
		succeeds(t, "the hold's Err", lock.Err())
	}
	if !shortened || faultEvents.renewals(r.key) == 0 {
		t.Fatalf("the late Renew was seen: %t, renewals: %d", shortened, faultEvents.renewals(r.key))
	}
	r.isHeldOnce(t, lock)
}

// wantNoLongerThanRedis returns up to when the hold is believed.
func (r *faultRig) wantNoLongerThanRedis(t *testing.T, lock *redislock.RedisLock) time.Time {
	t.Helper()
	believed := lock.GetExpiresAt()
	ttl, err := r.direct.PTTL(t.Context(), r.redisKey(":owner")).Result()
	succeeds(t, "PTTL", err)
	// The question ran before now, so Redis cannot keep the key any longer than this.
	if keeps := time.Now().Add(max(ttl, 0) + time.Millisecond); believed.After(keeps) && lock.Err() == nil {
		t.Fatalf("believed for %s longer than Redis keeps the key (PTTL %s)", believed.Sub(keeps), ttl)
	}
	return believed
}

func lateReplyCountsFromTheSend(t *testing.T, r *faultRig) {
	const ttl, late = 2 * time.Second, 700 * time.Millisecond
	options := faultOptions(ttl)
	options.RenewalEnabled = false
	options.ScriptCallTimeout = 10 * time.Second
	for _, c := range []struct {
		script string
		call   func(lock *redislock.RedisLock) error
	}{
		{"acquire", func(l *redislock.RedisLock) error { return l.Acquire(t.Context()) }},
		{"reenter", func(l *redislock.RedisLock) error { return l.Acquire(t.Context()) }},
		{"renew", func(l *redislock.RedisLock) error { return l.Renew(t.Context(), ttl) }},
	} {
		lock := r.lock(t, r.ours, options)
		if c.script != "acquire" {
			succeeds(t, "Acquire", lock.Acquire(t.Context()))
		}
		r.proxy.DelayReplies(late, 1, requestsOf(t, c.script))
		before := time.Now()
		succeeds(t, c.script, c.call(lock))
		if took := time.Since(before); took < late {
			t.Fatalf("the reply of %s came after %s", c.script, took)
		}
		r.wantNoLongerThanRedis(t, lock)
		if left := lock.GetRemainingTime(); left > ttl-late {
			t.Fatalf("after a reply of %s that took %s, %s of %s are left", c.script, late, left, ttl)
		}
		succeeds(t, "Release", lock.Release(t.Context()))
		if c.script == "reenter" {
			succeeds(t, "Release", lock.Release(t.Context()))
		}
	}
}

func replyLaterThanTheLease(t *testing.T, r *faultRig) {
	options := faultOptions(400 * time.Millisecond)
	options.ScriptCallTimeout = 10 * time.Second
	r.proxy.DelayReplies(500*time.Millisecond, 1, requestsOf(t, "acquire"))
	err := r.ours.LockWithOptions(t.Context(), r.key, options, func() error {
		t.Error("fn ran")
		return nil
	})
	failsAs(t, "Lock", err, redislock.ErrLockAcquireFailed)
	r.ownerIsGone(t, time.Second)
}

// refusedAcquireLeavesNothing: what was never sent needs no cleanup and no mark.
func refusedAcquireLeavesNothing(t *testing.T, r *faultRig) {
	options := faultOptions(time.Minute)
	lock := r.lock(t, r.ours, options)
	r.proxy.Refuse(true)
	noLonger(t, 2*options.ScriptCallTimeout, "Acquire", func(ctx context.Context) {
		failsAs(t, "Acquire", lock.Acquire(ctx), redislock.ErrLockAcquireFailed)
	})
	r.proxy.Refuse(false)
	becomes(t, 10*time.Second, "an Acquire", func() bool { return lock.Acquire(t.Context()) == nil })
	succeeds(t, "Release", lock.Release(t.Context()))
	// A negative: for longer than a cleanup waits between two tries.
	stays(t, time.Second, "no mark of a value that was never sent", func() bool {
		marks, err := r.direct.Keys(t.Context(), r.redisKey(":mark:*")).Result()
		succeeds(t, "KEYS", err)
		return len(marks) == 0
	})
}

// refusedRenewBoundsNothing: what was never sent cannot arrive late and shorten.
func refusedRenewBoundsNothing(t *testing.T, r *faultRig) {
	lock := r.held(t, faultOptions(30*time.Second))
	r.proxy.Refuse(true)
	failsAs(t, "Renew(1s)", lock.Renew(t.Context(), time.Second), redislock.ErrLockRenewalFailed)
	r.proxy.Refuse(false)
	// By a renewal or by this: the hold is trusted as long as before again.
	becomes(t, 10*time.Second, "a lease of more than 20 s", func() bool {
		_ = lock.Renew(t.Context(), 30*time.Second)
		return lock.Err() != nil || lock.GetRemainingTime() > 20*time.Second
	})
	r.isHeldOnce(t, lock)
}

// shortLeasesAreKept runs beside a goroutine that uses a processor up. A lease of
// 300 ms leaves its renewal 145 ms: a loss counts when nothing stalled this very
// process, or its server, for half of that, and else there is another try.
func shortLeasesAreKept(t *testing.T, r *faultRig) {
	const tries = 10
	for range tries {
		stall, lost := r.keepShortLeases(t)
		switch {
		case lost == nil:
			return
		case stall < 70*time.Millisecond:
			t.Fatalf("a lease was lost on a healthy Redis, the longest stall was %s: %v", stall, lost)
		}
	}
	t.Fatalf("this machine stalled in each of %d tries", tries)
}

// keepShortLeases returns the longest pause between two looks at the locks, each of
// which asks Redis something, and a lease that was lost.
func (r *faultRig) keepShortLeases(t *testing.T) (stall time.Duration, lost error) {
	t.Helper()
	const lasts = 1500 * time.Millisecond // several leases long
	// Taken before the work starts: it is the renewals that it is in the way of.
	var locks []*redislock.RedisLock
	for i, ttl := range []time.Duration{time.Second, time.Second, 500 * time.Millisecond, 500 * time.Millisecond, 300 * time.Millisecond, 300 * time.Millisecond} {
		lock, err := r.another.NewLock(t.Context(), fmt.Sprint(r.key, "-", i), faultOptions(ttl))
		succeeds(t, "NewLock", err)
		succeeds(t, "Acquire", lock.Acquire(t.Context()))
		locks = append(locks, lock)
	}
	stop := make(chan struct{})
	defer close(stop)
	go work(stop)
	last := time.Now()
	for end := last.Add(lasts); time.Now().Before(end) && lost == nil; time.Sleep(time.Millisecond) {
		succeeds(t, "PING", r.direct.Ping(t.Context()).Err())
		stall, last = max(stall, time.Since(last)), time.Now()
		for _, lock := range locks {
			if err := lock.Err(); err != nil {
				lost = fmt.Errorf("%s: %w", lock.GetExpiration(), err)
			}
		}
	}
	for _, lock := range locks {
		if err := lock.Release(t.Context()); err != nil && lost == nil {
			t.Fatalf("Release: %v", err)
		}
	}
	return stall, lost
}

// work uses a processor up until stop is closed.
func work(stop <-chan struct{}) {
	for x := uint64(1); ; x = x*6364136223846793005 + 1 {
		select {
		case <-stop:
			return
		default:
		}
	}
}
