package redislock_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// manyLocks: n locks that fall due together, with no more than 50 renewals in flight,
// are all kept for longer than a lease, and each is renewed.
func manyLocks(t *testing.T, r *faultRig, n int, ttl time.Duration) {
	t.Helper()
	options := faultOptions(ttl)
	options.ScriptCallTimeout = 2 * time.Second // of 50 acquires at once, on a busy machine
	options.WorkerPoolSize = 50
	locks := make([]*redislock.RedisLock, n)
	r.fiftyAtOnce(n, func(i int) {
		lock, err := r.another.NewLock(t.Context(), fmt.Sprint(r.key, "-", i), options)
		if err == nil {
			err = lock.Acquire(t.Context())
		}
		if err != nil {
			t.Errorf("lock %d: %v", i, err)
		}
		locks[i] = lock
	})
	if t.Failed() {
		return
	}
	acquired := time.Now()
	lost := func() (sum int) {
		for _, lock := range locks {
			if lock.Err() != nil {
				sum++
			}
		}
		return sum
	}
	stays(t, ttl+ttl/4, "no lock is lost", func() bool {
		time.Sleep(ttl / 10)
		return lost() == 0
	})
	for i, lock := range locks {
		if !lock.GetExpiresAt().After(acquired.Add(ttl)) {
			t.Fatalf("lock %d was not renewed", i)
		}
	}
	var failed atomic.Int64
	r.fiftyAtOnce(n, func(i int) {
		if locks[i].Release(t.Context()) != nil {
			failed.Add(1)
		}
	})
	if failed.Load() > 0 {
		t.Errorf("%d releases failed", failed.Load())
	}
}

// pressureShows: one worker that is busy for batchWait, and what falls due meanwhile.
func pressureShows(t *testing.T, r *faultRig) {
	const n = 8
	before, samplesBefore := redislock.GetStats(), samples(t)
	b := newBatch(t, r, n)
	b.isRenewed(t)
	after, samplesAfter := redislock.GetStats(), samples(t)
	grown := func(name string) int64 { return after[name] - before[name] }
	// At least: locks of earlier rows may still be renewed.
	if got := grown("skipped_renewals"); got < n {
		t.Errorf("skipped_renewals has grown by %d, want %d", got, n)
	}
	if got := grown("renew_lateness_count"); got < n+1 {
		t.Errorf("renew_lateness_count has grown by %d, want %d", got, n+1)
	}
	// The first waited for all the time but what it took to acquire the others.
	if got := time.Duration(grown("renew_lateness_ns")); got < batchWait/4*n || got > n*2*batchWait {
		t.Errorf("renew_lateness_ns has grown by %s for %d that waited up to %s", got, n, batchWait)
	}
	for name, want := range map[string]float64{"skipped_renewals_total": n, "renew_lateness_seconds": n + 1} {
		if got := samplesAfter["lynx_redis_lock_"+name] - samplesBefore["lynx_redis_lock_"+name]; got < want {
			t.Errorf("%s has grown by %v, want %v", name, got, want)
		}
	}
}

// largestPoolCounts: four renewals fall due one after the other while Redis takes its time.
// With a pool of 1 one of them is sent, and all after a lock asked for a pool of 4.
func largestPoolCounts(t *testing.T, r *faultRig) {
	sent := func() int { return r.proxy.Count(requestsOf(t, "renew")) }
	for _, pool := range []int{1, 4} {
		options := batchOptions()
		b := &batch{rig: r}
		for i := range 4 {
			if i == 3 {
				options.WorkerPoolSize = pool
			}
			lock := b.take(t, options)
			at := time.Now()
			becomes(t, time.Second, "the next one falls due 30 ms later", func() bool { return time.Since(at) > 30*time.Millisecond })
			succeeds(t, "Err", lock.Err())
		}
		before := sent()
		r.proxy.DelayReplies(batchWait, 4, requestsOf(t, "renew"))
		becomes(t, batchTTL, "a renewal is sent", func() bool { return sent() > before })
		if pool == 1 {
			stays(t, batchWait*3/5, "one renewal is in flight", func() bool { return sent() == before+1 })
		} else {
			becomes(t, batchWait*4/5, "all are in flight", func() bool { return sent() == before+4 })
		}
		for i, lock := range b.locks {
			becomes(t, batchTTL, "every lock is renewed", func() bool { return faultEvents.renewals(b.keys[i]) > 0 })
			succeeds(t, "the release", lock.Release(t.Context()))
		}
	}
}

func (r *faultRig) fiftyAtOnce(n int, call func(i int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range 50 {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				call(int(i))
			}
		})
	}
	workers.Wait()
}
