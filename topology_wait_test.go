package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// TestWaitersOverAFailover kills a primary while 50 waiters of two processes are asleep,
// who know of nothing but the word of a release: all get the lock in the end, and none
// together with another.
func TestWaitersOverAFailover(t *testing.T) {
	withoutRemains(t)
	for _, topology := range failingTopologies {
		t.Run(topology.name, func(t *testing.T) {
			t.Parallel()
			waitOverAFailover(t, topology.start(t))
		})
	}
}

func waitOverAFailover(t *testing.T, f *failing) {
	const keys, waitersOfAKey, lease = 5, 10, 4 * time.Second
	clients := [2]redislock.Provider{redislock.NewProvider(f.client(t)), redislock.NewProvider(f.client(t))}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var over sync.WaitGroup
	var parties [keys]party
	for i := range keys {
		key := f.keyIn(t, 0, fmt.Sprint("asleep-", i))
		holder := lockOf(t, clients[0], key, expiration(lease), timeout(callTimeout))
		must(t, "Acquire", holder.Acquire(ctx)) // and nobody releases it
		for n := range waitersOfAKey {
			lock := lockOf(t, clients[n%2], key, expiration(lease), timeout(callTimeout))
			over.Go(func() {
				for {
					err := parties[i].turn(ctx, lock, 5*time.Millisecond)
					if err == nil || ctx.Err() != nil {
						if err != nil {
							t.Errorf("a waiter never had its turn: %v", err)
						}
						return
					}
					if errors.Is(err, redislock.ErrLockAcquireConflict) {
						t.Errorf("a waiter gave up: %v", err)
						return
					}
				}
			})
		}
		awaitQueued(t, f.client(t), key, 2)
	}
	old := f.primary(t, 0)
	killed := time.Now()
	old.Stop()
	servers := f.await(t, 0, old)
	over.Wait()
	for i := range parties {
		parties[i].check(t)
	}
	t.Logf("%d waiters: the servers failed over in %s, the last waiter had its turn %s after the kill", keys*waitersOfAKey, servers, time.Since(killed).Round(10*time.Millisecond))
	f.heal(t)
}

// Its client has to ask for the slots first, and asks for as long as a read may take.
func TestAWaiterOverASilentClusterKeepsItsDeadline(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, "Listen", err)
	t.Cleanup(func() { _ = silent.Close() })
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{silent.Addr().String()}, ReadTimeout: 5 * time.Second})
	t.Cleanup(func() { _ = cluster.Close() })
	lock := lockOf(t, redislock.NewProvider(cluster), "job")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	noLonger(t, time.Second, "AcquireWait", func(context.Context) {
		wantIs(t, lock.AcquireWait(ctx), context.DeadlineExceeded)
	})
}
