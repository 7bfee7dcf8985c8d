package redislock_test

import (
	"fmt"
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// One slot of a batch is being moved: some of its keys have gone already (ASK), those
// of a nested lock are split (TRYAGAIN), and in the end all have (MOVED). Its locks
// are asked for alone; those of other slots notice nothing.
func TestABatchMeetsASlotThatMoves(t *testing.T) {
	cluster := redistest.StartCluster(t)
	client := cluster.Client(t)
	locks := redislock.NewProvider(client)
	seen := &renewals{n: map[string]int{}}
	redislock.SetCallback(seen)
	t.Cleanup(func() { redislock.SetCallback(nil) })
	count := func(key string) int {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		return seen.n[key]
	}

	from := cluster.PrimaryFor(t, redislock.HashTag("moving"))
	slot := cluster.Slot(redislock.HashTag("moving"))
	moving, others := []string{"moving"}, []string(nil)
	for i := 0; len(moving) < 3 || len(others) < 5; i++ {
		key := fmt.Sprint("key-", i)
		switch tag := redislock.HashTag(key); {
		case cluster.Slot(tag) == slot && len(moving) < 3:
			moving = append(moving, key)
		case cluster.Slot(tag) != slot && len(others) < 5 && cluster.PrimaryFor(t, tag) == from:
			others = append(others, key)
		}
	}
	var all []string
	held := map[string]*redislock.RedisLock{}
	for _, key := range append(append(all, moving...), others...) {
		lock, err := locks.NewLock(t.Context(), key, batchOptions())
		succeeds(t, "NewLock", err)
		succeeds(t, "Acquire", lock.Acquire(t.Context()))
		held[key], all = lock, append(all, key)
	}
	succeeds(t, "the reentry", held[moving[2]].Acquire(t.Context()))

	to := cluster.Servers()[0]
	if to == from {
		to = cluster.Servers()[1]
	}
	move := cluster.BeginMove(t, slot, to)
	move.MoveKey(t, redislock.HashTag(moving[1])+":owner")
	move.MoveKey(t, redislock.HashTag(moving[2])+":count")
	allRenewed := func(when string) {
		t.Helper()
		before := map[string]int{}
		for _, key := range all {
			before[key] = count(key)
		}
		for _, key := range all {
			becomes(t, batchTTL, key+" is renewed "+when, func() bool { return count(key) > before[key] })
			succeeds(t, key, held[key].Err())
		}
	}
	allRenewed("while its slot is being moved")
	move.Finish(t)
	allRenewed("after the move")
	for _, key := range all {
		succeeds(t, "the release", held[key].Release(t.Context()))
	}
}

// A node that says nothing costs the locks of the other nodes nothing.
func TestASilentNodeDelaysNoOthersRenewals(t *testing.T) {
	const ttl = 3 * time.Second
	r := newRigOn(t, clusterServers(t))
	var others []*redislock.RedisLock
	options := faultOptions(ttl)
	options.WorkerPoolSize = 4
	for i := 0; len(others) < 200; i++ {
		lock := r.held(t, options, fmt.Sprint("-", i))
		if r.servers.primary(t, lock.GetKey()) != r.server {
			others = append(others, lock)
		}
	}
	r.proxy.BlackHole(true)
	defer r.proxy.BlackHole(false)
	silent := time.Now()
	becomes(t, 2*ttl, "the others are renewed for two leases", func() bool {
		for _, lock := range others {
			if err := lock.Err(); err != nil {
				t.Fatalf("%s: %v", lock.GetKey(), err)
			}
		}
		return time.Since(silent) > 2*ttl-ttl/4
	})
}
