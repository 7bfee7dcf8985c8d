package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// neverBySleep is less than a waiter naps, and far more than it takes to be told: who
// has waited so long after a release was not told.
const neverBySleep = 1500 * time.Millisecond

// party is one key that the workers of several processes, or what counts as such, want.
type party struct {
	inside   atomic.Int64 // must never be more than 1
	overlaps atomic.Int64
}

// turn is one acquisition and release.
func (p *party) turn(ctx context.Context, lock *redislock.RedisLock, holds time.Duration) error {
	if err := lock.AcquireWait(ctx); err != nil {
		return err
	}
	if p.inside.Add(1) > 1 {
		p.overlaps.Add(1)
	}
	if holds > 0 {
		time.Sleep(holds)
	}
	p.inside.Add(-1)
	err := lock.Release(context.WithoutCancel(ctx))
	for n := 0; err != nil && n < 5; n++ { // it got no answer, and may be repeated
		err = lock.Release(context.WithoutCancel(ctx))
	}
	return err
}

func (p *party) check(t *testing.T) {
	t.Helper()
	equal(t, "overlaps", p.overlaps.Load(), 0)
}

// keepBusy has n workers of a process take turns until ctx ends; it counts them.
func (p *party) keepBusy(ctx context.Context, t *testing.T, over *sync.WaitGroup, lock func() *redislock.RedisLock, n int, holds time.Duration) *atomic.Int64 {
	t.Helper()
	turns := new(atomic.Int64)
	for range n {
		mine := lock()
		over.Go(func() {
			for ctx.Err() == nil {
				if err := p.turn(ctx, mine, holds); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				turns.Add(1)
			}
		})
	}
	return turns
}

// hasItSoon: it is told, and need not look by itself.
func hasItSoon(t *testing.T, got <-chan error) {
	t.Helper()
	free := time.Now()
	must(t, "AcquireWait", closes(t, "it has the lock", got))
	if took := time.Since(free); took > neverBySleep {
		t.Errorf("it has the lock %s after it was free", took)
	}
}

// subscribers are the connections that have subscribed to something.
func subscribers(t *testing.T, c *redis.Client) int {
	t.Helper()
	list, err := c.Do(t.Context(), "CLIENT", "LIST", "TYPE", "pubsub").Text()
	must(t, "CLIENT LIST", err)
	return strings.Count(list, "id=")
}

// awaitQueued waits until the room of a key has so many processes in it.
func awaitQueued(t *testing.T, c redis.UniversalClient, key string, processes int64) {
	t.Helper()
	eventually(t, "the waiters are in the room", func() bool {
		return c.LLen(t.Context(), redislock.HashTag(key)+":room").Val() == processes
	})
}

// Two processes hand the lock to and fro while their subscriptions are killed again
// and again.
func TestAKilledSubscriptionLosesNoHandOver(t *testing.T) {
	const handOvers = 200
	server := redistest.Start(t)
	admin, key, p := server.Client(t), rigKey(), &party{}
	ctx, stop := context.WithCancel(t.Context())
	var over sync.WaitGroup
	var killed atomic.Int64
	turns := make(chan time.Duration)
	for range 2 {
		lock := lockOf(t, redislock.NewProvider(server.Client(t)), key)
		over.Go(func() {
			for ctx.Err() == nil {
				start := time.Now()
				if err := p.turn(ctx, lock, time.Millisecond); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
				select {
				case turns <- time.Since(start):
				case <-ctx.Done():
				}
			}
		})
	}
	over.Go(func() {
		for ctx.Err() == nil {
			n, _ := admin.Do(ctx, "CLIENT", "KILL", "TYPE", "pubsub").Int64()
			killed.Add(n)
			time.Sleep(5 * time.Millisecond)
		}
	})
	for range handOvers {
		if took := closes(t, "a hand-over", turns); took > neverBySleep {
			t.Errorf("a turn took %s", took)
		}
	}
	stop()
	over.Wait()
	p.check(t)
	if killed.Load() < 10 {
		t.Errorf("only %d subscriptions were killed", killed.Load())
	}
}

// The first try of a waiter that comes to a free lock, and everybody who polls, costs
// no subscription; 10,000 keys cost one.
func TestOneSubscriptionWhateverTheNumberOfKeys(t *testing.T) {
	server := redistest.Start(t)
	admin, provider := server.Client(t), redislock.NewProvider(server.Client(t))
	free := lockOf(t, provider, rigKey())
	must(t, "AcquireWait", free.AcquireWait(t.Context()))
	equal(t, "subscriptions after a free lock", subscribers(t, admin), 0)

	ctx, cancel := context.WithCancel(t.Context())
	const keys, served = 10_000, 100
	elsewhere, long := redislock.NewProvider(admin), expiration(10*time.Minute)
	holders, waits := make([]*redislock.RedisLock, keys), make([]<-chan error, keys)
	for i := range keys {
		key := fmt.Sprint("many-", i)
		holders[i] = lockOf(t, elsewhere, key, long)
		must(t, "Acquire", holders[i].Acquire(t.Context()))
		waiter := lockOf(t, provider, key, long)
		waits[i] = async(func() error { return waiter.AcquireWait(ctx) })
	}
	eventually(t, "all wait", func() bool {
		return int64(keys) == admin.Eval(t.Context(), "return #redis.call('KEYS', '*:room')", nil).Val()
	})
	equal(t, "subscriptions", subscribers(t, admin), 1)
	for i := range served {
		must(t, "Release", holders[i].Release(t.Context()))
		released := time.Now()
		must(t, "AcquireWait", closes(t, "a waiter has its lock", waits[i]))
		if took := time.Since(released); took > neverBySleep {
			t.Errorf("%s after the release", took)
		}
	}
	cancel()
	for _, left := range waits[served:] {
		wantIs(t, closes(t, "a waiter leaves", left), context.Canceled)
	}
	eventually(t, "the subscription has gone", func() bool { return subscribers(t, admin) == 0 })
}

// 10,000 waits that end early leave nothing, whatever moment they ended at.
func TestCancelledWaitsLeaveNothing(t *testing.T) {
	const waits, atOnce, lease = 10_000, 200, 20 * time.Second
	server := redistest.Start(t)
	known := goleak.IgnoreCurrent()
	admin, client := server.Client(t), server.Client(t)
	provider, holder := redislock.NewProvider(client), lockOf(t, redislock.NewProvider(admin), "job", expiration(lease), renewed)
	must(t, "Acquire", holder.Acquire(t.Context()))
	before := runtime.NumGoroutine()
	var over sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for range waits {
		slots <- struct{}{}
		lock := lockOf(t, provider, "job")
		over.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(t.Context(), rand.N(30*time.Millisecond))
			defer cancel()
			if err := lock.AcquireWait(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("AcquireWait: %v", err)
			}
		})
	}
	over.Wait()
	for _, key := range admin.Keys(t.Context(), "*").Val() {
		if left := admin.PTTL(t.Context(), key).Val(); left <= 0 || (left > lease && strings.HasSuffix(key, ":room")) {
			t.Errorf("%s is left for %s", key, left)
		}
	}
	eventually(t, "the subscription has gone", func() bool { return subscribers(t, admin) == 0 })
	// One goroutine more is the reader of the connections' pool at most.
	eventually(t, "the goroutines have gone", func() bool { return runtime.NumGoroutine() <= before })
	must(t, "Release", holder.Release(t.Context()))
	must(t, "Close", errors.Join(client.Close(), admin.Close()))
	goleak.VerifyNone(t, known)
}

// Hand-overs that meet waiters which are leaving at that moment.
func TestAHandOverThatMeetsALeavingWaiterLosesNothing(t *testing.T) {
	server := redistest.Start(t)
	p, key := &party{}, rigKey()
	var over sync.WaitGroup
	var served, left atomic.Int64
	for _, client := range []*redis.Client{server.Client(t), server.Client(t)} {
		provider := redislock.NewProvider(client)
		for range 16 {
			over.Go(func() {
				for range 60 {
					lock := lockOf(t, provider, key)
					ctx, cancel := context.WithTimeout(t.Context(), rand.N(60*time.Millisecond))
					err := p.turn(ctx, lock, rand.N(time.Millisecond))
					cancel()
					switch {
					case err == nil:
						served.Add(1)
					case errors.Is(err, context.DeadlineExceeded):
						left.Add(1)
					default:
						t.Errorf("a turn: %v", err)
					}
				}
			})
		}
	}
	over.Wait()
	p.check(t)
	t.Logf("%d turns, %d left before", served.Load(), left.Load())
	if served.Load() < 100 || left.Load() < 100 {
		t.Error("there was no such meeting")
	}
	last := lockOf(t, redislock.NewProvider(server.Client(t)), key)
	began := time.Now()
	must(t, "AcquireWait", last.AcquireWait(t.Context()))
	if took := time.Since(began); took > neverBySleep {
		t.Errorf("the lock was free only %s after everybody had gone", took)
	}
}

// Two processes of eight workers each get the same, and nobody sleeps while it is free.
func TestProcessesShareALock(t *testing.T) {
	const turns = 800
	server := redistest.Start(t)
	p, key := &party{}, rigKey()
	ctx, stop := context.WithCancel(t.Context())
	var over sync.WaitGroup
	var served [2]atomic.Int64
	for i := range served {
		provider := redislock.NewProvider(server.Client(t))
		for range 8 {
			lock := lockOf(t, provider, key)
			over.Go(func() {
				for served[0].Load()+served[1].Load() < turns {
					began := time.Now()
					if err := p.turn(ctx, lock, time.Millisecond); err != nil {
						t.Errorf("a turn: %v", err)
					}
					if took := time.Since(began); took > neverBySleep {
						t.Errorf("a turn took %s", took)
					}
					served[i].Add(1)
				}
			})
		}
	}
	over.Wait()
	stop()
	p.check(t)
	for i := range served {
		if n := served[i].Load(); n < turns/4 {
			t.Errorf("process %d had %d turns of %d", i, n, turns)
		}
	}
}

// Each rule that waiters need to be told can be missing: then they poll.
func TestWaitersPollWhereAnACLForbidsTelling(t *testing.T) {
	for _, without := range wakeRules {
		t.Run("without "+without, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			rules := slices.Concat(leastRules, wakeRules)
			server.ACLUser(t, "locker", "secret", slices.DeleteFunc(rules, func(rule string) bool { return rule == without })...)
			restricted := func() redislock.Provider {
				return redislock.NewProvider(server.Client(t, asLocker))
			}
			p, key := &party{}, rigKey()
			var over sync.WaitGroup
			for range 3 {
				provider := restricted()
				for range 2 {
					lock := lockOf(t, provider, key)
					over.Go(func() {
						for range 3 {
							if err := p.turn(t.Context(), lock, time.Millisecond); err != nil {
								t.Error(err)
							}
						}
					})
				}
			}
			began := time.Now()
			over.Wait()
			p.check(t)
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("18 turns took %s", took)
			}
		})
	}
}
