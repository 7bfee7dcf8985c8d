package redislock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

var faultRowsAlone = []faultRow{
	{name: "the reply of the last release is lost", run: lastReleaseReplyLost},
	{name: "an acquire that was never answered is not counted as active", run: unansweredAcquireIsNotActive},
	{name: "the inner of two releases arrives after the outer one", run: innerReleaseArrivesLate},
	{name: "an acquire times out on a silent server", run: acquireOnSilentServer},
	{name: "a process stopped for longer than its lease never reads valid on waking", run: stoppedProcess},
	{name: "500 locks taken together with a lease of 3 s", run: func(t *testing.T, r *faultRig) { manyLocks(t, r, 500, 3*time.Second) }},
	{name: "10,000 locks that fall due together", run: func(t *testing.T, r *faultRig) { manyLocks(t, r, 10_000, 10*time.Second) }},
	{name: "renewals that wait for a worker are counted, and how late they are", run: pressureShows},
	{name: "the largest pool asked for counts", run: largestPoolCounts},
	{name: "leases of 300 ms, 500 ms and 1 s are kept on a busy machine", run: shortLeasesAreKept},
}

var faultRowsSerial = []faultRow{
	{name: "an outage of 5 s under 1,000 callers with short deadlines", run: outageUnderLoad},
	{name: "scripts are flushed while the lock is held", run: scriptsFlushed},
	{name: "scripts are flushed before a batch", run: func(t *testing.T, r *faultRig) {
		b := newBatch(t, r, 8)
		succeeds(t, "SCRIPT FLUSH", r.server.Client(t).ScriptFlush(t.Context()).Err())
		b.isRenewed(t)
	}},
}

var faultRowsSending = []faultRow{
	{name: "the reply of an acquire is lost and the request runs twice", run: acquireReplyLost},
	{name: "every reply of an acquire is lost", run: acquireRepliesLost},
	{name: "an acquire runs twice in a row", run: acquireDuplicated},
	{name: "the reply of one of two nested releases is lost", run: innerReleaseReplyLost},
	{name: "an acquire times out and its requests arrive late", run: acquireArrivesLate},
	{name: "the caller cancels while the acquire is in flight", run: acquireCancelled},
	{name: "a release under a cancelled context", run: releaseUnderCancelledContext},
	{name: "a black hole only during the release", run: func(t *testing.T, r *faultRig) {
		unreachableDuringRelease(t, r, r.proxy.BlackHole)
	}},
	{name: "refused connections only during the release", run: func(t *testing.T, r *faultRig) {
		unreachableDuringRelease(t, r, r.proxy.Refuse)
	}},
	{name: "the reply of a reentry is lost and the request runs twice", run: reentryReplyLost},
	{name: "a reentry is never answered", run: reentryRepliesLost},
	{name: "a reentry times out and arrives late", run: reentryArrivesLate},
	{name: "a shortening Renew is never answered and arrives after a renewal", run: shorteningRenewArrivesLate},
	{name: "the inner of two releases is never answered", run: innerReleaseRepliesLost},
	{name: "a waiter takes the lock before the release is re-sent", run: releaseResentAfterHandOver},
	{name: "the first send of an acquire arrives after the lock was used and released", run: acquireGhost},
	{name: "a release is never answered and arrives in the next hold", run: releaseArrivesLate},
	{name: "a refused acquire leaves nothing behind", run: refusedAcquireLeavesNothing, unwritten: true},
	{name: "a refused Renew bounds no later lease", run: refusedRenewBoundsNothing, unwritten: true},
	{name: "a late reply does not lengthen the lease", run: lateReplyCountsFromTheSend},
	{name: "a reply later than the lease is no hold", run: replyLaterThanTheLease},
	{name: "1,000 lost, doubled and late packets at random", run: randomPackets},
}

func acquireReplyLost(t *testing.T, r *faultRig) {
	r.proxy.DropReplies(1, requestsOf(t, "acquire"))
	lock := r.held(t, faultOptions(10*time.Second))
	r.wantSends(t, "acquire", 2)
	if token, counter := lock.GetToken(), r.get(t, ":token"); token != 1 || counter != "1" {
		t.Fatalf("the token is %d and the counter %s, want 1 and 1", token, counter)
	}
	r.isHeldOnce(t, lock)
}

func acquireRepliesLost(t *testing.T, r *faultRig) {
	r.proxy.DropReplies(2, requestsOf(t, "acquire"))
	lock := r.lock(t, r.ours, faultOptions(10*time.Second))
	failsAs(t, "Acquire", lock.Acquire(t.Context()), redislock.ErrLockAcquireFailed)
	r.wantSends(t, "acquire", 2)
	r.ownerIsGone(t, time.Second)
	failsAs(t, "Err", lock.Err(), redislock.ErrLockNotHeld)
	failsAs(t, "Release", lock.Release(t.Context()), redislock.ErrLockNotHeld)
	succeeds(t, "the next Acquire", lock.Acquire(t.Context()))
	if token := lock.GetToken(); token != 2 {
		t.Fatalf("the next token is %d, want 2: one acquire that ran twice mints once", token)
	}
	r.isHeldOnce(t, lock)
}

func acquireDuplicated(t *testing.T, r *faultRig) {
	r.proxy.DuplicateRequests(1, requestsOf(t, "acquire"))
	lock := r.held(t, faultOptions(10*time.Second))
	if counter := r.get(t, ":token"); counter != "1" {
		t.Fatalf("the counter is %s, want 1", counter)
	}
	r.isHeldOnce(t, lock)
}

func innerReleaseReplyLost(t *testing.T, r *faultRig) {
	lock := r.held(t, faultOptions(10*time.Second))
	succeeds(t, "the reentry", lock.Acquire(t.Context()))
	r.proxy.DropReplies(1, requestsOf(t, "leave"))
	succeeds(t, "the inner release", lock.Release(t.Context()))
	r.wantSends(t, "leave", 2)
	r.isHeldOnce(t, lock)
}

func innerReleaseRepliesLost(t *testing.T, r *faultRig) {
	lock := r.held(t, faultOptions(10*time.Second))
	succeeds(t, "the reentry", lock.Acquire(t.Context()))
	r.proxy.DropReplies(2, requestsOf(t, "leave"))
	if err := lock.Release(t.Context()); err == nil || errors.Is(err, redislock.ErrLockNotHeld) {
		t.Fatalf("the inner release: %v, want a failure that is not ErrLockNotHeld", err)
	}
	r.isHeldOnce(t, lock)
}

func innerReleaseArrivesLate(t *testing.T, r *faultRig) {
	lock := r.held(t, faultOptions(10*time.Second))
	succeeds(t, "the reentry", lock.Acquire(t.Context()))
	r.proxy.DelayRequests(time.Second, 2, requestsOf(t, "leave"))
	failsAs(t, "the inner release", lock.Release(t.Context()), context.DeadlineExceeded)
	ran := r.scriptsRun(t)
	r.isHeld(t, lock)
	succeeds(t, "the outer release", lock.Release(t.Context()))
	other := r.lock(t, r.another, faultOptions(10*time.Second))
	succeeds(t, "another's acquire", other.Acquire(t.Context()))
	succeeds(t, "another's reentry", other.Acquire(t.Context()))
	r.allLatePacketsIn(t, ran+6) // 1 of isHeld, 1 release, 2 acquires, and the 2 late ones
	if owner, count := r.get(t, ":owner"), r.get(t, ":count"); owner != other.GetValue() || count != "2" {
		t.Fatalf("the late release has changed another's hold: owner %q, count %q", owner, count)
	}
}

// allLatePacketsIn waits until the server has run so many scripts in all.
func (r *faultRig) allLatePacketsIn(t *testing.T, want int) {
	t.Helper()
	becomes(t, 5*time.Second, "the late requests have run", func() bool { return r.scriptsRun(t) >= want })
}

func lastReleaseReplyLost(t *testing.T, r *faultRig) {
	before := activeLocks()
	lock := r.held(t, faultOptions(10*time.Second))
	if got := activeLocks(); got != before+1 {
		t.Fatalf("active_locks is %d while held, want %d", got, before+1)
	}
	r.proxy.DropReplies(1, requestsOf(t, "release"))
	succeeds(t, "Release", lock.Release(t.Context()))
	r.wantSends(t, "release", 2)
	if got := activeLocks(); got != before {
		t.Fatalf("active_locks is %d after the release, want %d", got, before)
	}
	succeeds(t, "Acquire", lock.Acquire(t.Context()))
	r.proxy.DropReplies(2, requestsOf(t, "release"))
	if err := lock.Release(t.Context()); err == nil || errors.Is(err, redislock.ErrLockNotHeld) {
		t.Fatalf("a release without an answer: %v, want a failure that is not ErrLockNotHeld", err)
	}
	if got := activeLocks(); got != before {
		t.Fatalf("active_locks is %d after a release without an answer, want %d", got, before)
	}
	succeeds(t, "the repeated release", lock.Release(t.Context()))
	failsAs(t, "one more release", lock.Release(t.Context()), redislock.ErrLockNotHeld)
}

func unansweredAcquireIsNotActive(t *testing.T, r *faultRig) {
	before := activeLocks()
	r.proxy.DropReplies(2, requestsOf(t, "acquire"))
	failsAs(t, "Acquire", r.lock(t, r.ours, faultOptions(time.Second)).Acquire(t.Context()), redislock.ErrLockAcquireFailed)
	r.ownerIsGone(t, time.Second)
	// A negative: for longer than the lease nothing is renewed and nothing comes back.
	stays(t, 1200*time.Millisecond, "nothing is held", func() bool {
		return activeLocks() == before && r.get(t, ":owner") == ""
	})
	r.wantSends(t, "renew", 0)
}

func acquireOnSilentServer(t *testing.T, r *faultRig) {
	succeeds(t, "a first acquire", r.held(t, faultOptions(time.Minute)).Release(t.Context()))
	options := faultOptions(time.Minute)
	lock := r.lock(t, r.ours, options)
	r.server.Pause()
	var err error
	noLonger(t, 2*options.ScriptCallTimeout, "Acquire on a silent server", func(ctx context.Context) { err = lock.Acquire(ctx) })
	r.server.Resume()
	failsAs(t, "Acquire", err, redislock.ErrLockAcquireFailed, context.DeadlineExceeded)
	// The frozen server runs the requests now; the counter shows that they took the lock.
	becomes(t, 2*time.Second, "the acquire has run", func() bool { return r.get(t, ":token") == "2" })
	r.ownerIsGone(t, time.Second)
	r.nothingComesBack(t)
}

func (r *faultRig) nothingComesBack(t *testing.T) {
	t.Helper()
	stays(t, 300*time.Millisecond, "no owner key", func() bool { return r.get(t, ":owner") == "" })
	other := r.lock(t, r.another, faultOptions(time.Minute))
	succeeds(t, "another's acquire", other.Acquire(t.Context()))
	succeeds(t, "another's release", other.Release(t.Context()))
}

func acquireArrivesLate(t *testing.T, r *faultRig) {
	r.proxy.DelayRequests(1200*time.Millisecond, 2, requestsOf(t, "acquire"))
	lock := r.lock(t, r.ours, faultOptions(time.Minute))
	failsAs(t, "Acquire", lock.Acquire(t.Context()), redislock.ErrLockAcquireFailed, context.DeadlineExceeded)
	// The cleanup comes before the requests, and leaves what refuses them.
	r.allLatePacketsIn(t, 3)
	r.nothingComesBack(t)
	if counter := r.get(t, ":token"); counter != "1" {
		t.Fatalf("the counter is %q, want 1: a value that was given up mints no token", counter)
	}
}

func acquireCancelled(t *testing.T, r *faultRig) {
	r.proxy.DelayReplies(time.Second, 1, requestsOf(t, "acquire"))
	options := faultOptions(time.Minute)
	options.ScriptCallTimeout = 10 * time.Second
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := make(chan error, 1)
	go func() {
		got <- r.ours.LockWithOptions(ctx, r.key, options, func() error {
			t.Error("fn ran")
			return nil
		})
	}()
	becomes(t, 2*time.Second, "the acquire has run", func() bool { return r.get(t, ":owner") != "" })
	cancel()
	select {
	case err := <-got:
		failsAs(t, "Lock", err, context.Canceled, redislock.ErrLockAcquireFailed)
		if errors.Is(err, redislock.ErrRedisClientNotFound) {
			t.Fatalf("the error is %v", err)
		}
	case <-time.After(500 * time.Millisecond):
		t.Fatal("the caller is not back 500 ms after it cancelled")
	}
	r.ownerIsGone(t, time.Second)
	r.nothingComesBack(t)
}

func releaseUnderCancelledContext(t *testing.T, r *faultRig) {
	ctx, cancel := context.WithCancel(t.Context())
	err := r.ours.LockWithOptions(ctx, r.key, faultOptions(time.Minute), func() error {
		cancel()
		return nil
	})
	succeeds(t, "Lock whose fn cancelled its caller", err)
	if owner := r.get(t, ":owner"); owner != "" {
		t.Fatalf("the owner key holds %q", owner)
	}
	lock := r.held(t, faultOptions(time.Minute))
	succeeds(t, "Release under a cancelled context", lock.Release(ctx))
	if owner := r.get(t, ":owner"); owner != "" {
		t.Fatalf("the owner key holds %q", owner)
	}
}

// unreachableDuringRelease never heals the network: the key has to go by itself.
func unreachableDuringRelease(t *testing.T, r *faultRig, fault func(on bool)) {
	const ttl = 1500 * time.Millisecond
	options := faultOptions(ttl)
	var err error
	var renewals int
	noLonger(t, 2*options.ScriptCallTimeout, "Lock", func(ctx context.Context) {
		err = r.ours.LockWithOptions(ctx, r.key, options, func() error {
			fault(true)
			renewals = r.proxy.Count(requestsOf(t, "renew"))
			return nil
		})
	})
	if err == nil || errors.Is(err, redislock.ErrLockNotHeld) {
		t.Fatalf("Lock: %v, want a failure that is not ErrLockNotHeld", err)
	}
	r.ownerIsGone(t, ttl+200*time.Millisecond)
	r.wantSends(t, "renew", renewals)
	fault(false)
	other := r.lock(t, r.another, faultOptions(time.Minute))
	succeeds(t, "another's acquire", other.Acquire(t.Context()))
	// A negative: what arrives late now frees nobody else's lock.
	stays(t, 700*time.Millisecond, "another holds the lock", func() bool { return r.get(t, ":owner") == other.GetValue() })
}

func acquireGhost(t *testing.T, r *faultRig) {
	r.proxy.DelayRequests(1200*time.Millisecond, 1, requestsOf(t, "acquire"))
	lock := r.held(t, faultOptions(time.Minute))
	r.wantSends(t, "acquire", 2)
	succeeds(t, "Release", lock.Release(t.Context()))
	r.allLatePacketsIn(t, 3)
	r.nothingComesBack(t)
	if counter := r.get(t, ":token"); counter != "2" {
		t.Fatalf("the counter is %q, want 2: one of the hold, one of the other's", counter)
	}
}

func releaseArrivesLate(t *testing.T, r *faultRig) {
	lock := r.held(t, faultOptions(time.Minute))
	first := lock.GetValue()
	r.proxy.DelayRequests(1200*time.Millisecond, 2, requestsOf(t, "release"))
	failsAs(t, "Release", lock.Release(t.Context()), context.DeadlineExceeded)
	failsAs(t, "Err", lock.Err(), redislock.ErrLockNotHeld)
	if value := lock.GetValue(); value != "" {
		t.Fatalf("GetValue is %q after the release was sent", value)
	}
	succeeds(t, "the next Acquire", lock.Acquire(t.Context()))
	if lock.GetValue() == first || lock.GetToken() != 2 {
		t.Fatalf("the next hold has the value %q (before: %q) and the token %d", lock.GetValue(), first, lock.GetToken())
	}
	r.allLatePacketsIn(t, 5) // acquire, the settling release, acquire, two late releases
	r.isHeldOnce(t, lock)
}

func releaseResentAfterHandOver(t *testing.T, r *faultRig) {
	lock := r.held(t, faultOptions(time.Minute))
	options := faultOptions(time.Minute)
	waiter := r.lock(t, r.another, options)
	got := make(chan error, 1)
	go func() { got <- waiter.AcquireWait(t.Context()) }()
	r.proxy.DelayReplies(time.Second, 1, requestsOf(t, "release"))
	succeeds(t, "the release", lock.Release(t.Context()))
	r.wantSends(t, "release", 2)
	succeeds(t, "the waiter", <-got)
	if owner := r.get(t, ":owner"); owner != waiter.GetValue() {
		t.Fatalf("the owner key holds %q, want the waiter's value", owner)
	}
}
