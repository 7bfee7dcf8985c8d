package redislock_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

const briefLease = time.Second

// briefHolderRole takes the lock and keeps it, renewed.
func briefHolderRole(addr string) { waitRole(addr, briefLease) }

// waiterRole waits for the lock, says so when it has it, and keeps it.
func waiterRole(addr string) { waitRole(addr, time.Minute) }

func waitRole(addr string, lease time.Duration) {
	go func() { // until the parent has gone
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	lock, err := redislock.NewProvider(client).NewLock(context.Background(), "job", faultOptions(lease))
	if err == nil {
		err = lock.AcquireWait(context.Background())
	}
	fmt.Println("has it", err)
	select {}
}

// A holder killed by SIGKILL releases nothing: its lease ends.
func TestAKilledHolderPassesTheLockOnWhenItsLeaseEnds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder := startRole(t, "brief holder", server.Addr())
	equal(t, "the holder", holder.says(t, "acquiring"), "has it <nil>")
	waiter := lockOf(t, redislock.NewProvider(server.Client(t)), "job")
	got := async(func() error { return waiter.AcquireWait(t.Context()) })
	awaitQueued(t, server.Client(t), "job", 1)
	holder.signal(t, syscall.SIGKILL)
	killed := time.Now()
	must(t, "AcquireWait", closes(t, "the waiter has it", got))
	if took := time.Since(killed); took > briefLease+neverBySleep {
		t.Errorf("the waiter has the lock %s after the kill, the lease was %s", took, briefLease)
	}
}

// The first in the room is another process that dies, or stands still, before it is told.
func TestAProcessThatDiesOrStandsStillKeepsTheLockFromNobody(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		signal syscall.Signal
		within time.Duration
	}{
		{"killed", syscall.SIGKILL, neverBySleep},
		{"stopped", syscall.SIGSTOP, patience}, // it has been told, as far as Redis can see: the others look after 2 s
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			admin, provider := server.Client(t), redislock.NewProvider(server.Client(t))
			holder := lockOf(t, redislock.NewProvider(server.Client(t)), "job")
			must(t, "Acquire", holder.Acquire(t.Context()))
			first := startRole(t, "waiter", server.Addr())
			awaitQueued(t, admin, "job", 1)
			second := lockOf(t, provider, "job")
			got := async(func() error { return second.AcquireWait(t.Context()) })
			awaitQueued(t, admin, "job", 2)
			first.signal(t, c.signal)
			if c.signal == syscall.SIGKILL {
				eventually(t, "its connection has gone", func() bool { return subscribers(t, admin) == 1 })
			}
			released := time.Now()
			must(t, "Release", holder.Release(t.Context()))
			must(t, "AcquireWait", closes(t, "the other waiter has it", got))
			if took := time.Since(released); took > c.within {
				t.Errorf("the other waiter has the lock %s after the release", took)
			}
		})
	}
}

// What is told to a process whose waiters have all left is passed on.
func TestAWordThatNobodyWantsIsPassedOn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin, key := server.Client(t), rigKey()
	providers := [2]redislock.Provider{redislock.NewProvider(server.Client(t)), redislock.NewProvider(server.Client(t))}
	holder := lockOf(t, redislock.NewProvider(server.Client(t)), key)
	must(t, "Acquire", holder.Acquire(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	leaves := lockOf(t, providers[0], key)
	left := async(func() error { return leaves.AcquireWait(ctx) })
	awaitQueued(t, admin, key, 1)
	stays := lockOf(t, providers[1], key)
	got := async(func() error { return stays.AcquireWait(t.Context()) })
	awaitQueued(t, admin, key, 2)
	cancel()
	wantIs(t, closes(t, "the first leaves", left), context.Canceled)
	released := time.Now()
	must(t, "Release", holder.Release(t.Context()))
	must(t, "AcquireWait", closes(t, "the second has it", got))
	if took := time.Since(released); took > neverBySleep {
		t.Errorf("the second has the lock %s after the release", took)
	}
}

// A poller of the published version, which nobody tells, and which leaves no word that it
// waits, gets its turn among waiters that hand the lock to each other, in one process and
// in several.
func TestAPollerOfThePublishedVersionGetsItsTurn(t *testing.T) {
	for _, c := range []struct {
		processes, workers int
		holds              time.Duration
	}{{1, 8, time.Millisecond}, {1, 8, 0}, {1, 2, time.Millisecond}, {1, 2, 0}, {3, 8, time.Millisecond}} {
		t.Run(fmt.Sprintf("%d processes of %d that hold it for %s", c.processes, c.workers, c.holds), func(t *testing.T) {
			server := redistest.Start(t)
			r := &peerRig{client: server.Client(t), key: rigKey()}
			p, turns := &party{}, []*atomic.Int64{}
			ctx, stop := context.WithCancel(t.Context())
			var over sync.WaitGroup
			for range c.processes {
				provider := redislock.NewProvider(server.Client(t))
				lock := func() *redislock.RedisLock { return lockOf(t, provider, r.key) }
				turns = append(turns, p.keepBusy(ctx, t, &over, lock, c.workers, c.holds))
			}
			eventually(t, "they are at it", func() bool { return turns[0].Load() > 100 })
			pollUntilServed(t, r.peer())
			stop()
			over.Wait()
			p.check(t)
		})
	}
}

func pollUntilServed(t *testing.T, poller *peer) {
	t.Helper()
	began, tries := time.Now(), 0
	for ; poller.acquire(t.Context(), t) == 0 && time.Since(began) < 20*time.Second; tries++ {
		time.Sleep(50*time.Millisecond + rand.N(100*time.Millisecond)) // as it polls
	}
	if poller.release(t.Context(), t) != 0 {
		t.Error("the poller never got the lock")
	}
	t.Logf("the poller got the lock after %d tries in %s", tries, time.Since(began).Round(time.Millisecond))
}
