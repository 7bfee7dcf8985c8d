package redislock_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-lynx/lynx/plugins"
	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// leased is long enough for no hold of these tests to end by itself.
var leased = expiration(30 * time.Second)

// givesWay: as many turns of the others at the most come before each of one's.
func givesWay(t *testing.T, turns *atomic.Int64, one *redislock.RedisLock, rounds int, most int64) {
	t.Helper()
	for range rounds {
		before := turns.Load()
		must(t, "AcquireWait", closes(t, "it has the lock", async(func() error { return one.AcquireWait(t.Context()) })))
		if n := turns.Load() - before; n > most {
			t.Errorf("%d turns of the others came first", n)
		}
		must(t, "Release", one.Release(t.Context()))
	}
}

// A process that hands the lock over among its own goroutines gives way to one that
// has announced itself.
func TestLocalHandOversGiveWayToAnotherProcess(t *testing.T) {
	server := redistest.Start(t)
	p, key := &party{}, rigKey()
	busy := redislock.NewProvider(server.Client(t))
	ctx, stop := context.WithCancel(t.Context())
	var over sync.WaitGroup
	turns := p.keepBusy(ctx, t, &over, func() *redislock.RedisLock { return lockOf(t, busy, key) }, 8, 0)
	other := lockOf(t, redislock.NewProvider(server.Client(t)), key)
	eventually(t, "the others are at it", func() bool { return turns.Load() > 100 })
	givesWay(t, turns, other, 20, 200) // 32 in a row and those in between while it announces itself
	stop()
	over.Wait()
	p.check(t)
}

// A process whose holds are long gives way as well to one that has announced itself.
func TestLongHoldsGiveWayToAnotherProcess(t *testing.T) {
	for _, holds := range []time.Duration{200 * time.Millisecond, 700 * time.Millisecond, 1100 * time.Millisecond} {
		t.Run(holds.String(), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			p, key := &party{}, rigKey()
			busy := redislock.NewProvider(server.Client(t))
			ctx, stop := context.WithCancel(t.Context())
			var over sync.WaitGroup
			turns := p.keepBusy(ctx, t, &over, func() *redislock.RedisLock { return lockOf(t, busy, key, leased) }, 3, holds)
			eventually(t, "they are at it", func() bool { return turns.Load() > 0 })
			other := lockOf(t, redislock.NewProvider(server.Client(t)), key, leased)
			givesWay(t, turns, other, 3, 4)
			stop()
			over.Wait()
			p.check(t)
		})
	}
}

// One that gave way is told when it is its turn again, however short its leases are.
func TestAProcessThatGaveWayIsToldAfterItsLease(t *testing.T) {
	const lease = 100 * time.Millisecond
	server := redistest.Start(t)
	p, key := &party{}, rigKey()
	busy := redislock.NewProvider(server.Client(t))
	ctx, stop := context.WithCancel(t.Context())
	var over sync.WaitGroup
	turns := p.keepBusy(ctx, t, &over, func() *redislock.RedisLock { return lockOf(t, busy, key, expiration(lease)) }, 4, 0)
	other := lockOf(t, redislock.NewProvider(server.Client(t)), key, leased)
	for range 5 {
		eventually(t, "they are at it", func() bool { return turns.Load() > 100 })
		must(t, "AcquireWait", other.AcquireWait(t.Context()))
		time.Sleep(lease + 50*time.Millisecond) // as long as it holds the lock
		before := turns.Load()
		must(t, "Release", other.Release(t.Context()))
		free := time.Now()
		eventually(t, "they have it again", func() bool { return turns.Load() > before })
		if took := time.Since(free); took > neverBySleep {
			t.Errorf("they have the lock %s after it was free", took)
		}
	}
	stop()
	over.Wait()
	p.check(t)
}

// A plugin and a provider of the program's own share a client, and with it the line of
// waiters: one that stops takes nothing of the other's along.
func TestAPluginThatStopsDuringAReleaseEndsNoOtherProvidersWait(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	app := bootOK(t, "stops", redisSection(proxy.Addr()))
	client, err := plugins.GetTypedResource[redis.UniversalClient](app.GetPluginManager().GetRuntime(), "redis.client")
	must(t, "the client", err)
	holder := lockOf(t, published(t, app, "redis.distributed.lock"), "job", leased, timeout(3*time.Second))
	own := lockOf(t, redislock.NewProvider(client), "job", leased, timeout(3*time.Second))
	must(t, "Acquire", holder.Acquire(t.Context()))
	got := async(func() error { return own.AcquireWait(t.Context()) })
	awaitQueued(t, server.Client(t), "job", 1)
	awaitAsleep(t, 1)
	isScript := redistest.Named("evalsha", "eval")
	before := proxy.Count(isScript)
	proxy.DelayRequests(400*time.Millisecond, 1, isScript)
	released := async(func() error { return holder.Release(t.Context()) })
	eventually(t, "the release is on its way", func() bool { return proxy.Count(isScript) > before })
	must(t, "StopPlugin", app.GetPluginManager().StopPlugin("redis.distributed.lock"))
	must(t, "Release", closes(t, "the release", released))
	must(t, "AcquireWait", closes(t, "the other provider's waiter has it", got))
}

// A process whose subscription ends does not rely on it when it gives way, although its
// waiters have made their offers before that.
func TestASubscriptionThatEndsWhileOthersStandInLine(t *testing.T) {
	server := redistest.Start(t)
	rules := slices.Concat(leastRules, wakeRules)
	server.ACLUser(t, "locker", "secret", rules...)
	admin, key, p := server.Client(t), rigKey(), &party{}
	busy := redislock.NewProvider(server.Client(t, asLocker))
	ctx, stop := context.WithCancel(t.Context())
	var over sync.WaitGroup
	turns := p.keepBusy(ctx, t, &over, func() *redislock.RedisLock { return lockOf(t, busy, key) }, 12, 20*time.Millisecond)
	elsewhere := redislock.NewProvider(server.Client(t))
	others := p.keepBusy(ctx, t, &over, func() *redislock.RedisLock { return lockOf(t, elsewhere, key) }, 1, time.Millisecond)
	eventually(t, "both are at it", func() bool { return turns.Load() > 20 && others.Load() > 0 })
	server.ACLUser(t, "locker", "secret", slices.DeleteFunc(rules, func(rule string) bool { return rule == "+subscribe" })...)
	admin.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub")
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); {
		before, began := turns.Load(), time.Now()
		eventually(t, "a turn of theirs", func() bool { return turns.Load() > before })
		if took := time.Since(began); took > neverBySleep {
			t.Errorf("they had no turn for %s", took)
		}
	}
	stop()
	over.Wait()
	p.check(t)
}
