package redislock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

func oursExcludesThePeer(t *testing.T, r *peerRig) {
	ctx, lock, p := t.Context(), r.lock(t), r.peer()
	for depth := 1; depth <= 3; depth++ {
		succeeds(t, "Acquire", lock.Acquire(ctx))
		if token := p.acquire(ctx, t); token != 0 {
			t.Fatalf("at depth %d the peer got the token %d", depth, token)
		}
	}
	for depth := 3; depth >= 1; depth-- {
		if token := p.acquire(ctx, t); token != 0 {
			t.Fatalf("at depth %d the peer got the token %d", depth, token)
		}
		succeeds(t, "Release", lock.Release(ctx))
	}
	r.wantKeys(t, "", "")
	if token := p.acquire(ctx, t); token != lock.GetToken()+1 {
		t.Fatalf("the peer's token is %d after %d", token, lock.GetToken())
	}
	r.wantKeys(t, p.value, "1")
}

func peerExcludesOurs(t *testing.T, r *peerRig) {
	ctx, lock, p := t.Context(), r.lock(t), r.peer()
	p.acquire(ctx, t)
	p.acquire(ctx, t)
	failsAs(t, "Acquire against two levels", lock.Acquire(ctx), redislock.ErrLockAcquireConflict)
	r.wantKeys(t, p.value, "2")
	if left := p.release(ctx, t); left != 1 {
		t.Fatalf("the peer has %d levels left, want 1", left)
	}
	failsAs(t, "Acquire against one level", lock.Acquire(ctx), redislock.ErrLockAcquireConflict)
	if left := p.release(ctx, t); left != 0 {
		t.Fatalf("the peer has %d levels left, want 0", left)
	}
	succeeds(t, "Acquire", lock.Acquire(ctx))
	if token := lock.GetToken(); token != 2 {
		t.Fatalf("our token is %d after the peer's 1", token)
	}
	r.wantKeys(t, lock.GetValue(), "")
	succeeds(t, "Release", lock.Release(ctx))
}

func peerLeavesOursAlone(t *testing.T, r *peerRig) {
	ctx, lock, p := t.Context(), r.lock(t), r.peer()
	succeeds(t, "Acquire", lock.Acquire(ctx))
	for _, count := range []string{"", "2"} {
		if got := p.renew(ctx, t, time.Hour); got != -1 {
			t.Errorf("the peer's renewal of our hold gave %d", got)
		}
		if got := p.release(ctx, t); got != -1 {
			t.Errorf("the peer's release of our hold gave %d", got)
		}
		r.wantKeys(t, lock.GetValue(), count)
		if left := r.pttl(t, ":owner"); left > time.Minute {
			t.Errorf("our lease of a minute has %s left", left)
		}
		succeeds(t, "Acquire", lock.Acquire(ctx))
	}
}

func oursLeavesThePeerAlone(t *testing.T, r *peerRig) {
	ctx, lock, p := t.Context(), r.lock(t), r.peer()
	p.ttl = 30 * time.Second
	succeeds(t, "Acquire", lock.Acquire(ctx))
	succeeds(t, "Acquire", lock.Acquire(ctx))
	succeeds(t, "DEL", r.client.Del(ctx, p.keys()[:2]...).Err()) // as if our lease had run out
	p.acquire(ctx, t)
	p.acquire(ctx, t)
	failsAs(t, "Renew", lock.Renew(ctx, time.Hour), redislock.ErrLockRenewalFailed, redislock.ErrLockLost)
	failsAs(t, "Release", lock.Release(ctx), redislock.ErrLockNotHeld)
	failsAs(t, "Acquire", lock.Acquire(ctx), redislock.ErrLockAcquireConflict)
	r.wantKeys(t, p.value, "2")
	for _, suffix := range []string{":owner", ":count"} {
		if left := r.pttl(t, suffix); left > p.ttl || left < p.ttl-10*time.Second {
			t.Errorf("%s of the peer's hold has %s left of %s", suffix, left, p.ttl)
		}
	}
}

func waiterGetsThePeersLock(t *testing.T, r *peerRig) {
	ctx, lock, p := t.Context(), r.lock(t), r.peer()
	p.acquire(ctx, t)
	got := make(chan error, 1)
	go func() { got <- lock.AcquireWait(ctx) }()
	// A negative: it waits.
	select {
	case err := <-got:
		t.Fatalf("AcquireWait returned %v while the peer held the lock", err)
	case <-time.After(200 * time.Millisecond):
	}
	p.release(ctx, t)
	select {
	case err := <-got:
		succeeds(t, "AcquireWait", err)
	case <-time.After(10 * time.Second):
		t.Fatal("AcquireWait has not noticed the peer's release in 10 s")
	}
	succeeds(t, "Release", lock.Release(ctx))
}

func peersStaleCount(t *testing.T, r *peerRig) {
	ctx, lock, p := t.Context(), r.lock(t), r.peer()
	p.acquire(ctx, t)
	p.acquire(ctx, t)
	p.acquire(ctx, t)
	succeeds(t, "DEL", r.client.Del(ctx, p.keys()[0]).Err())
	succeeds(t, "Acquire", lock.Acquire(ctx))
	r.wantKeys(t, lock.GetValue(), "")
	succeeds(t, "Release", lock.Release(ctx))
	r.wantKeys(t, "", "")
	// The other way round: a count of ours is no depth of the peer's.
	succeeds(t, "Acquire", lock.Acquire(ctx))
	succeeds(t, "Acquire", lock.Acquire(ctx))
	succeeds(t, "DEL", r.client.Del(ctx, p.keys()[0]).Err())
	p.acquire(ctx, t)
	r.wantKeys(t, p.value, "1")
}

func tokensIncreaseAcrossBoth(t *testing.T, r *peerRig) {
	ctx, lock, last := t.Context(), r.lock(t), int64(0)
	for n := range 10 {
		p := r.peer()
		var token int64
		if n%2 == 0 {
			token = p.acquire(ctx, t)
			p.release(ctx, t)
		} else {
			succeeds(t, "Acquire", lock.Acquire(ctx))
			token = lock.GetToken()
			succeeds(t, "Release", lock.Release(ctx))
		}
		if token != last+1 {
			t.Fatalf("token %d after %d", token, last)
		}
		last = token
	}
	if left := r.pttl(t, ":token"); left <= 24*time.Hour {
		t.Errorf("the counter has %s left: the peer's shorter time stays only until our next hold", left)
	}
}

func unlockOfAPeersHold(t *testing.T, r *peerRig) {
	ctx := t.Context()
	for depth := 1; depth <= 3; depth++ {
		p := r.peer()
		for range depth {
			p.acquire(ctx, t)
		}
		failsAs(t, "UnlockByValue of another value", r.ours.UnlockByValue(ctx, r.key, p.value+"x"), redislock.ErrLockNotHeld)
		failsAs(t, "UnlockByValue of no value", r.ours.UnlockByValue(ctx, r.key, ""), redislock.ErrLockNotHeld)
		for left := depth - 1; left > 0; left-- {
			succeeds(t, "UnlockByValue", r.ours.UnlockByValue(ctx, r.key, p.value))
			r.wantKeys(t, p.value, fmt.Sprint(left))
			if owner, count := r.pttl(t, ":owner"), r.pttl(t, ":count"); owner <= 0 || count <= 0 {
				t.Fatalf("with %d levels left the owner has %s and the count %s", left, owner, count)
			}
			if p.renew(ctx, t, time.Minute) != 1 {
				t.Fatalf("with %d levels left the peer cannot renew its hold", left)
			}
		}
		succeeds(t, "UnlockByValue", r.ours.UnlockByValue(ctx, r.key, p.value))
		r.wantKeys(t, "", "")
		failsAs(t, "UnlockByValue of a free lock", r.ours.UnlockByValue(ctx, r.key, p.value), redislock.ErrLockNotHeld)
	}
}

// critical is what the lock protects: an overlap counter, and a counter that
// loses increments when two are inside at once.
type critical struct {
	inside, overlaps, counter, entries atomic.Int64

	mu   sync.Mutex // guards last
	last int64      // token
}

func (c *critical) enter(t *testing.T, who string, token int64) {
	if c.inside.Add(1) != 1 {
		c.overlaps.Add(1)
	}
	c.mu.Lock()
	if token <= c.last {
		t.Errorf("%s has the token %d after %d", who, token, c.last)
	}
	c.last = token
	c.mu.Unlock()
	n := c.counter.Load()
	time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond) // the work
	c.counter.Store(n + 1)
	c.entries.Add(1)
	c.inside.Add(-1)
}

func bothContend(t *testing.T, r *peerRig) {
	const lasts = 5 * time.Second // a waiter's first nap is 2 s
	var section critical
	var ours, peers atomic.Int64
	end := time.Now().Add(lasts)
	var all sync.WaitGroup
	for range 2 {
		lock, p := r.lock(t), r.peer()
		all.Go(func() {
			ctx, cancel := context.WithDeadline(t.Context(), end)
			defer cancel()
			for lock.AcquireWait(ctx) == nil {
				section.enter(t, "one of ours", lock.GetToken())
				ours.Add(1)
				if err := lock.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
		all.Go(func() {
			ctx := t.Context()
			for time.Now().Before(end) {
				if token := p.acquire(ctx, t); token != 0 {
					section.enter(t, "a peer", token)
					peers.Add(1)
					p.release(ctx, t)
				}
				time.Sleep(time.Duration(1000+rand.IntN(4000)) * time.Microsecond) // it polls
			}
		})
	}
	all.Wait()
	if n := section.overlaps.Load(); n != 0 {
		t.Errorf("%d overlaps", n)
	}
	if got, want := section.counter.Load(), section.entries.Load(); got != want {
		t.Errorf("the counter is %d after %d increments", got, want)
	}
	if ours.Load() == 0 || peers.Load() == 0 {
		t.Errorf("%d holds of ours and %d of the peers: one kind was starved", ours.Load(), peers.Load())
	}
	t.Logf("%d holds of ours, %d of the peers", ours.Load(), peers.Load())
}
