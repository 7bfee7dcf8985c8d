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
