package redislock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

const (
	randomFaults  = 1000
	randomKeys    = 4
	randomWorkers = 12
	randomLease   = 2 * time.Second
	randomLatest  = 450 * time.Millisecond // the longest delay of a packet
)

// storm loses, doubles and delays requests and replies of scripts at random until
// it has done so often enough.
type storm struct {
	mu   sync.Mutex // guards rng
	rng  *rand.Rand
	left atomic.Int64
}

// chance matches a script's request with probability p, while faults are left.
func (s *storm) chance(p float64) func(cmd []string) bool {
	return func(cmd []string) bool {
		if len(cmd) == 0 || !strings.HasPrefix(strings.ToLower(cmd[0]), "eval") || s.left.Load() <= 0 {
			return false
		}
		s.mu.Lock()
		hit := s.rng.Float64() < p
		s.mu.Unlock()
		return hit && s.left.Add(-1) >= 0
	}
}

// stormy is one run of the row.
type stormy struct {
	*faultRig
	storm   *storm
	seed    uint64
	keys    []string
	holders []atomic.Pointer[redislock.RedisLock] // by key: who believed last
	held    atomic.Int64
	doubles atomic.Int64
}

func randomPackets(t *testing.T, r *faultRig) {
	run := &stormy{faultRig: r, seed: uint64(time.Now().UnixNano()), holders: make([]atomic.Pointer[redislock.RedisLock], randomKeys)}
	t.Logf("seed %d", run.seed)
	run.storm = &storm{rng: rand.New(rand.NewPCG(run.seed, 0))}
	run.storm.left.Store(randomFaults)
	for i := 0; len(run.keys) < randomKeys; i++ { // all behind the proxy
		if key := fmt.Sprint(r.key, "-", i); r.servers.primary(t, key) == r.server {
			run.keys = append(run.keys, key)
		}
	}
	const many = 1 << 30
	r.proxy.DropReplies(many, run.storm.chance(0.10))
	r.proxy.DuplicateRequests(many, run.storm.chance(0.06))
	r.proxy.DelayRequests(randomLatest, many, run.storm.chance(0.04))
	r.proxy.DelayRequests(150*time.Millisecond, many, run.storm.chance(0.06))
	r.proxy.DelayReplies(300*time.Millisecond, many, run.storm.chance(0.04))
	var workers sync.WaitGroup
	for w := range randomWorkers {
		workers.Go(func() { run.work(t, w) })
	}
	workers.Wait()
	t.Logf("%d holds, %d faults", run.held.Load(), randomFaults-max(run.storm.left.Load(), 0))
	if run.doubles.Load() > 0 || run.held.Load() == 0 {
		t.Errorf("%d times two holders believed at once, in %d holds", run.doubles.Load(), run.held.Load())
	}
	run.wantNothingLeft(t)
}

// work takes and leaves locks until the storm is over.
func (run *stormy) work(t *testing.T, w int) {
	rng := rand.New(rand.NewPCG(run.seed, uint64(w)+1))
	options := faultOptions(randomLease)
	options.ScriptCallTimeout, options.RenewalConfig.CallTimeout = 200*time.Millisecond, 200*time.Millisecond
	locks := make([]*redislock.RedisLock, randomKeys)
	for i, key := range run.keys {
		lock, err := run.ours.NewLock(t.Context(), key, options)
		if err != nil {
			t.Error(err)
			return
		}
		locks[i] = lock
	}
	for run.storm.left.Load() > 0 && t.Context().Err() == nil {
		i := rng.IntN(randomKeys)
		ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
		if locks[i].AcquireWait(ctx) == nil {
			run.hold(ctx, rng, i, locks[i])
		}
		cancel()
	}
	for _, lock := range locks {
		for lock.Err() == nil {
			_ = lock.Release(context.Background())
		}
	}
}

// hold looks whether the one before still believes, does what holders do, and
// leaves every level.
func (run *stormy) hold(ctx context.Context, rng *rand.Rand, i int, lock *redislock.RedisLock) {
	if before := run.holders[i].Swap(lock); before != nil && before != lock && before.Err() == nil {
		run.doubles.Add(1)
	}
	run.held.Add(1)
	for range rng.IntN(3) {
		_ = lock.Acquire(ctx)
	}
	if rng.IntN(4) == 0 {
		_ = lock.Renew(ctx, randomLease+time.Duration(rng.IntN(2001)-1000)*time.Millisecond)
	}
	time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond) // the work
	for lock.Err() == nil {
		_ = lock.Release(context.Background())
	}
}

// wantNothingLeft: one lease and one late packet after the last call no key is
// owned, nothing renews, and whoever still held has been told.
func (run *stormy) wantNothingLeft(t *testing.T) {
	t.Helper()
	time.Sleep(randomLatest) // the last late packets, which nothing else tells of
	for _, key := range run.keys {
		owner := redislock.HashTag(key) + ":owner"
		becomes(t, randomLease+time.Second+time.Second, owner+" is gone", func() bool {
			n, err := run.direct.Exists(t.Context(), owner).Result()
			return err == nil && n == 0
		})
	}
	renewals := run.proxy.Count(requestsOf(t, "renew"))
	stays(t, time.Second, "nothing is renewed", func() bool { return run.proxy.Count(requestsOf(t, "renew")) == renewals })
}
