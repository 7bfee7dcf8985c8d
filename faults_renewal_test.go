package redislock_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

var faultRowsRenewal = []faultRow{
	{name: "refused connections inside the renewal window", run: refusedInTheRenewalWindow},
	{name: "a black hole ends the lease context at the local deadline", run: blackHoleEndsTheContext},
	{name: "a silent Redis sees at most one renewal in flight", run: oneRenewalInFlight},
	{name: "the owner key is deleted while fn runs", run: ownerDeletedUnderFn},
	{name: "the owner key is taken over while fn runs", run: ownerTakenUnderFn},
	{name: "a late renewal leaves the next holder's lease alone", run: lateRenewLeavesTheNextHolderAlone},
	{name: "a lost renewal reply costs nothing", run: renewalReplyLost},
	{name: "extreme thresholds neither spin nor lose", run: extremeThresholds},
}

func refusedInTheRenewalWindow(t *testing.T, r *faultRig) {
	const ttl, refused = 12 * time.Second, 2500 * time.Millisecond
	options := faultOptions(ttl)
	options.RenewalThreshold = 0.5 // due then, and not up to a tenth of the lease earlier
	lock := r.held(t, options)
	acquired := lock.GetAcquiredAt()
	becomes(t, ttl, "the window is near", func() bool { return time.Since(acquired) > ttl*49/100 })
	before := faultEvents.renewals(r.key)
	r.proxy.Refuse(true)
	// A negative: the lease is trusted all the time.
	stays(t, refused, "the lease is trusted", func() bool { return lock.Err() == nil })
	if got := faultEvents.renewals(r.key); got != before {
		t.Fatalf("%d renewals during the fault", got-before)
	}
	r.proxy.Refuse(false)
	becomes(t, ttl, "a renewal after the fault", func() bool { return faultEvents.renewals(r.key) > before })
	if losses := faultEvents.losses(r.key); len(losses) > 0 {
		t.Fatalf("OnLockRenewalFailed was called: %v", losses)
	}
	r.isHeldOnce(t, lock)
}

func blackHoleEndsTheContext(t *testing.T, r *faultRig) {
	const ttl = 1500 * time.Millisecond
	var deadline, ended time.Time
	err := r.ours.LockContext(t.Context(), r.key, faultOptions(ttl), func(ctx context.Context, lock *redislock.RedisLock) error {
		r.proxy.BlackHole(true)
		select {
		case <-ctx.Done():
			ended, deadline = time.Now(), lock.GetExpiresAt()
		case <-time.After(10 * ttl):
			t.Error("the context did not end")
		}
		failsAs(t, "the cause", context.Cause(ctx), redislock.ErrLockLost)
		return ctx.Err()
	})
	failsAs(t, "Lock", err, redislock.ErrLockLost, redislock.ErrLockNotHeld, context.Canceled)
	if late := ended.Sub(deadline); late < 0 || late > 200*time.Millisecond {
		t.Fatalf("the context ended %s after the local deadline", late)
	}
	faultEvents.wantOneLoss(t, r.key, "expired")
}

// inFlight looks at the renewals a client has under way. One whose deadline has
// passed is over, its caller has left.
type inFlight struct {
	match func(cmd []string) bool

	mu          sync.Mutex // guards the rest
	now         map[context.Context]bool
	most, total int
}

func (f *inFlight) enter(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	alive := 1
	for other := range f.now {
		if deadline, ok := other.Deadline(); !ok || time.Now().Before(deadline) {
			alive++
		}
	}
	f.now[ctx] = true
	f.most, f.total = max(f.most, alive), f.total+1
}

func (f *inFlight) leave(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.now, ctx)
}

func (f *inFlight) counts() (most, total int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.most, f.total
}

func (f *inFlight) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (f *inFlight) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (f *inFlight) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		words := make([]string, 0, len(cmd.Args()))
		for _, arg := range cmd.Args() {
			if s, ok := arg.(string); ok {
				words = append(words, s)
			}
		}
		if !f.match(words) {
			return next(ctx, cmd)
		}
		f.enter(ctx)
		defer f.leave(ctx)
		return next(ctx, cmd)
	}
}

func oneRenewalInFlight(t *testing.T, r *faultRig) {
	const ttl, silent = 7 * time.Second, 3 * time.Second
	count := &inFlight{match: requestsOf(t, "renew"), now: map[context.Context]bool{}}
	r.client.AddHook(count)
	options := faultOptions(ttl)
	options.RenewalThreshold = 0.5 // due after 3.5 s
	lock := r.held(t, options)
	r.proxy.BlackHole(true)
	becomes(t, ttl, "renewals are under way", func() bool {
		_, total := count.counts()
		return total > 0
	})
	// A negative: for the whole silence.
	stays(t, silent, "the lease is trusted and one renewal is in flight", func() bool {
		most, _ := count.counts()
		return lock.Err() == nil && most == 1
	})
	r.proxy.BlackHole(false)
	becomes(t, ttl, "a renewal after the silence", func() bool { return faultEvents.renewals(r.key) > 0 })
	if most, sends := count.counts(); most != 1 || sends < 2 || sends > 20 {
		t.Fatalf("%d renewals were sent in %s of silence, %d of them at once", sends, silent, most)
	}
	r.isHeldOnce(t, lock)
}

// untilLost is a fn that waits for its lease to end.
func untilLost(t *testing.T, limit time.Duration) func(ctx context.Context, _ *redislock.RedisLock) error {
	return func(ctx context.Context, _ *redislock.RedisLock) error {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(limit):
			t.Error("the context did not end")
			return nil
		}
	}
}

func ownerDeletedUnderFn(t *testing.T, r *faultRig) {
	const ttl = 2 * time.Second
	err := r.ours.LockContext(t.Context(), r.key, faultOptions(ttl), func(ctx context.Context, lock *redislock.RedisLock) error {
		succeeds(t, "DEL", r.direct.Del(ctx, r.redisKey(":owner")).Err())
		defer func() {
			failsAs(t, "Renew after the loss", lock.Renew(t.Context(), ttl), redislock.ErrLockRenewalFailed, redislock.ErrLockLost)
		}()
		return untilLost(t, ttl*80/100)(ctx, lock)
	})
	failsAs(t, "LockContext", err, redislock.ErrLockNotHeld, redislock.ErrLockLost)
	if owner := r.get(t, ":owner"); owner != "" {
		t.Fatalf("the owner key came back: %q", owner)
	}
	r.wantSends(t, "renew", 1) // a definite answer is not retried
	var lost *redislock.LostError
	if !errors.As(err, &lost) || lost.Reason != "vanished" {
		t.Fatalf("the error is %v, want a loss: vanished", err)
	}
	// Once for the loss, and once for the manual Renew that came after it.
	becomes(t, time.Second, "OnLockRenewalFailed twice", func() bool { return len(faultEvents.losses(r.key)) == 2 })
	stays(t, 200*time.Millisecond, "no third time", func() bool { return len(faultEvents.losses(r.key)) == 2 })
}

func ownerTakenUnderFn(t *testing.T, r *faultRig) {
	const ttl, others = 2 * time.Second, 3 * time.Second
	var taken time.Time
	err := r.ours.LockContext(t.Context(), r.key, faultOptions(ttl), func(ctx context.Context, lock *redislock.RedisLock) error {
		succeeds(t, "SET", r.direct.Set(ctx, r.redisKey(":owner"), "another", others).Err())
		taken = time.Now()
		return untilLost(t, ttl*80/100)(ctx, lock)
	})
	failsAs(t, "LockContext", err, redislock.ErrLockNotHeld, redislock.ErrLockLost)
	r.wantSends(t, "renew", 1)
	faultEvents.wantOneLoss(t, r.key, "taken")
	ttlLeft, err := r.direct.PTTL(t.Context(), r.redisKey(":owner")).Result()
	succeeds(t, "PTTL", err)
	if end := time.Now().Add(ttlLeft).Sub(taken); r.get(t, ":owner") != "another" || end > others+50*time.Millisecond || end < others-200*time.Millisecond {
		t.Fatalf("another's lease of %s now ends %s after it was taken", others, end)
	}
}

func lateRenewLeavesTheNextHolderAlone(t *testing.T, r *faultRig) {
	const ttl = 500 * time.Millisecond
	options := faultOptions(ttl)
	options.RenewalEnabled = false
	options.ScriptCallTimeout = 300 * time.Millisecond
	lock := r.held(t, options)
	r.proxy.DelayRequests(1500*time.Millisecond, 2, requestsOf(t, "renew"))
	failsAs(t, "Renew", lock.Renew(t.Context(), time.Hour), redislock.ErrLockRenewalFailed)
	becomes(t, 2*time.Second, "the deadline", func() bool { return lock.Err() != nil })
	failsAs(t, "Err", lock.Err(), redislock.ErrLockLost)
	r.ownerIsGone(t, time.Second)
	next := r.lock(t, r.another, faultOptions(time.Minute))
	succeeds(t, "the next holder", next.Acquire(t.Context()))
	r.allLatePacketsIn(t, 4) // two acquires, two late renewals
	left, err := r.direct.PTTL(t.Context(), r.redisKey(":owner")).Result()
	succeeds(t, "PTTL", err)
	if left > time.Minute || left < 50*time.Second {
		t.Fatalf("the next holder's lease has %s left of a minute", left)
	}
	failsAs(t, "Renew by the old holder", lock.Renew(t.Context(), time.Hour), redislock.ErrLockRenewalFailed, redislock.ErrLockNotHeld)
	succeeds(t, "the next holder", next.Err())
}

func renewalReplyLost(t *testing.T, r *faultRig) {
	r.proxy.DropReplies(3, requestsOf(t, "renew"))
	lock := r.held(t, faultOptions(2*time.Second))
	becomes(t, 4*time.Second, "a renewal", func() bool { return faultEvents.renewals(r.key) > 0 })
	if got := r.proxy.Count(requestsOf(t, "renew")); got < 4 {
		t.Fatalf("renew was sent %d times, want 4 or more", got)
	}
	r.isHeldOnce(t, lock)
}

func scriptsFlushed(t *testing.T, r *faultRig) {
	lock := r.held(t, faultOptions(2*time.Second))
	flush := func() { succeeds(t, "SCRIPT FLUSH", r.direct.ScriptFlush(t.Context()).Err()) }
	flush()
	succeeds(t, "the reentry", lock.Acquire(t.Context()))
	flush()
	becomes(t, 3*time.Second, "a renewal", func() bool { return faultEvents.renewals(r.key) > 0 })
	flush()
	succeeds(t, "Renew", lock.Renew(t.Context(), time.Minute))
	flush()
	succeeds(t, "the inner release", lock.Release(t.Context()))
	flush()
	r.isHeldOnce(t, lock)
}

func extremeThresholds(t *testing.T, r *faultRig) {
	const ttl, lasts = time.Second, 3 * time.Second
	for _, threshold := range []float64{1, 0.0001} {
		options := faultOptions(ttl)
		options.RenewalThreshold = threshold
		options.RenewalConfig = redislock.RenewalConfig{CallTimeout: 200 * time.Millisecond}
		lock := r.held(t, options)
		before := r.proxy.Count(requestsOf(t, "renew"))
		stays(t, lasts, "the lease is trusted", func() bool { return lock.Err() == nil })
		// Between half a lease and a whole one from one renewal to the next.
		if n := r.proxy.Count(requestsOf(t, "renew")) - before; n < 2 || n > 2*int(lasts/ttl) {
			t.Errorf("threshold %v: %d renewals of a %s lease in %s", threshold, n, ttl, lasts)
		}
		r.isHeldOnce(t, lock)
	}
}
