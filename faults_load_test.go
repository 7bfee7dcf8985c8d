package redislock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

const (
	loadCallers         = 1000
	loadOutage          = 5 * time.Second
	loadDeadline        = 100 * time.Millisecond
	loadThinks          = 2 * time.Second        // at most, between two calls of a caller: what a busy machine bears as well
	longestCleanupPause = 400 * time.Millisecond // between two tries of a cleanup

	loadLease = time.Minute // what is left behind is not mistaken for what ran out
)

// outageUnderLoad: while Redis says nothing for 5 s, 1,000 callers go on asking for
// a lock each, with deadlines of 100 ms.
func outageUnderLoad(t *testing.T, r *faultRig) {
	var keys []string
	for i := 0; len(keys) < loadCallers; i++ { // all behind the proxy
		if key := fmt.Sprint(r.key, "-", i); r.servers.primary(t, key) == r.server {
			keys = append(keys, key)
		}
	}
	r.held(t, faultOptions(loadLease)) // what is held before stays as it is
	r.proxy.BlackHole(true)
	before := runtime.NumGoroutine()
	ctx, stop := context.WithTimeout(t.Context(), loadOutage)
	defer stop()
	var failed, ran atomic.Int64
	var callers sync.WaitGroup
	for _, key := range keys {
		callers.Go(func() {
			for ctx.Err() == nil {
				if r.lockShortly(ctx, key) == nil {
					ran.Add(1)
				} else {
					failed.Add(1)
				}
				pauseFor(ctx, rand.N(loadThinks))
			}
		})
	}
	most := 0
	for ctx.Err() == nil {
		most = max(most, runtime.NumGoroutine()-before-loadCallers-2*r.proxy.Connections())
		time.Sleep(5 * time.Millisecond)
	}
	callers.Wait()
	t.Logf("%d calls failed; at most %d goroutines beside the callers and the proxy", failed.Load(), most)
	// A call has one goroutine of its own; the rest are the client's and the cleaners.
	if limit := loadCallers + 200; most > limit {
		t.Errorf("%d goroutines, want at most %d", most, limit)
	}
	if ran.Load() > 0 || failed.Load() < loadCallers {
		t.Errorf("%d calls succeeded and %d failed: that was no outage", ran.Load(), failed.Load())
	}
	r.proxy.BlackHole(false) // now the requests arrive, late
	r.allFreed(t, keys)
	sent := func() int { return r.proxy.Count(requestsOf(t, "release")) }
	becomes(t, patience, "the cleanups come to an end", func() bool {
		n := sent()
		time.Sleep(2 * longestCleanupPause)
		return sent() == n
	})
}

func pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (r *faultRig) lockShortly(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, loadDeadline)
	defer cancel()
	return r.ours.LockWithOptions(ctx, key, faultOptions(loadLease), func() error { return nil })
}

// allFreed waits until no key is owned, which is long before the leases end, and
// looks a little later again, for late packets.
func (r *faultRig) allFreed(t *testing.T, keys []string) {
	t.Helper()
	owned := func() (n int64) {
		for _, key := range keys {
			one, err := r.direct.Exists(t.Context(), redislock.HashTag(key)+":owner").Result()
			if err != nil {
				t.Fatal(err)
			}
			n += one
		}
		return n
	}
	becomes(t, loadLease/3, "no key is owned", func() bool { return owned() == 0 })
	time.Sleep(500 * time.Millisecond)
	if n := owned(); n > 0 {
		t.Errorf("%d keys are owned again", n)
	}
}
