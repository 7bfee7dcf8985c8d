package redislock_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// After a second of use a release leaves the lock to those who poll for a moment: the
// quiet time. These are about what can happen in it.

// useUp sleeps until a process that has the lock since then has to leave it to others.
func useUp(held time.Time) { time.Sleep(time.Until(held.Add(1100 * time.Millisecond))) }

// usedUp has a holder, of the rig's own provider, keep the lock for as long as that
// takes while a waiter of its process is in the room.
func usedUp(t *testing.T, r *faultRig, waits context.Context) (holder *redislock.RedisLock, waiter <-chan error) {
	t.Helper()
	holder = lockOf(t, r.ours, r.key, leased, timeout(2*time.Second))
	must(t, "Acquire", holder.Acquire(t.Context()))
	held := time.Now()
	lock := lockOf(t, r.ours, r.key, leased, timeout(2*time.Second))
	waiter = async(func() error { return lock.AcquireWait(waits) })
	awaitQueued(t, r.direct, r.key, 1)
	useUp(held)
	return holder, waiter
}

// Its process has no waiter any more when the release arrives: whoever waits elsewhere is told.
func TestTheLastWaiterLeavesBeforeTheQuietTime(t *testing.T) {
	r := newFaultRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	holder, left := usedUp(t, r, ctx)
	other := lockOf(t, r.another, r.key, leased) // it has just lain down, for 2 s
	got := async(func() error { return other.AcquireWait(t.Context()) })
	awaitQueued(t, r.direct, r.key, 2)
	before := r.proxy.Count(requestsOf(t, "release"))
	r.proxy.DelayRequests(200*time.Millisecond, 1, requestsOf(t, "release"))
	released := async(func() error { return holder.Release(t.Context()) })
	eventually(t, "the release is on its way", func() bool { return r.proxy.Count(requestsOf(t, "release")) > before })
	cancel()
	wantIs(t, closes(t, "the waiter leaves", left), context.Canceled)
	must(t, "Release", closes(t, "the release", released))
	hasItSoon(t, got)
}

// Its process's own waiter comes back before the release has arrived.
func TestAReleaseThatArrivesLateForTheQuietTime(t *testing.T) {
	r := newFaultRig(t)
	holder, got := usedUp(t, r, t.Context())
	r.proxy.DelayRequests(200*time.Millisecond, 1, requestsOf(t, "release"))
	must(t, "Release", holder.Release(t.Context()))
	hasItSoon(t, got)
}

// One that has asked and will be the next leaves: the one behind it is told.
func TestTheNextOneLeavesInTheQuietTime(t *testing.T) {
	r := newFaultRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	holder, left := usedUp(t, r, ctx)
	second := lockOf(t, r.another, r.key, leased)
	secondLeft := async(func() error { return second.AcquireWait(ctx) })
	awaitQueued(t, r.direct, r.key, 2)
	third := lockOf(t, redislock.NewProvider(r.server.Client(t)), r.key, leased)
	got := async(func() error { return third.AcquireWait(t.Context()) })
	awaitQueued(t, r.direct, r.key, 3)
	must(t, "Release", holder.Release(t.Context()))
	time.Sleep(30 * time.Millisecond) // it has asked
	cancel()
	wantIs(t, closes(t, "the first leaves", left), context.Canceled)
	wantIs(t, closes(t, "the second leaves", secondLeft), context.Canceled)
	hasItSoon(t, got)
}

// The plugin stops while its waiter leaves the lock to others.
func TestAPluginThatStopsInTheQuietTime(t *testing.T) {
	server := redistest.Start(t)
	app := bootOK(t, "away", redisSection(server.Addr()))
	plugged, admin := published(t, app, "redis.distributed.lock"), server.Client(t)
	holder, waiter := lockOf(t, plugged, "job", leased), lockOf(t, plugged, "job", leased)
	must(t, "Acquire", holder.Acquire(t.Context()))
	held := time.Now()
	first := async(func() error { return waiter.AcquireWait(t.Context()) })
	awaitQueued(t, admin, "job", 1)
	useUp(held)
	other := lockOf(t, redislock.NewProvider(server.Client(t)), "job", leased)
	got := async(func() error { return other.AcquireWait(t.Context()) })
	awaitQueued(t, admin, "job", 2)
	must(t, "Release", holder.Release(t.Context()))
	must(t, "StopPlugin", app.GetPluginManager().StopPlugin("redis.distributed.lock"))
	wantIs(t, closes(t, "the plugin's waiter ends", first), redislock.ErrRenewalServiceStopped)
	hasItSoon(t, got)
}

// Who polls takes the lock for a moment, and nobody's turn.
func TestWhoPollsTakesNobodysTurn(t *testing.T) {
	for name, poll := range map[string]func(ctx context.Context, t *testing.T, server *redistest.Server, p *party, over *sync.WaitGroup, key string){
		"by Acquire": pollByAcquire, "because nobody may tell it": pollUntold,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			p, key := &party{}, rigKey()
			ctx, stop := context.WithCancel(t.Context())
			var over sync.WaitGroup
			busy := redislock.NewProvider(server.Client(t))
			// Nobody else has a turn but after the quiet times.
			turns := p.keepBusy(ctx, t, &over, func() *redislock.RedisLock { return lockOf(t, busy, key, leased) }, 3, 550*time.Millisecond)
			eventually(t, "they are at it", func() bool { return turns.Load() > 0 })
			poll(ctx, t, server, p, &over, key)
			other := lockOf(t, redislock.NewProvider(server.Client(t)), key, leased)
			givesWay(t, turns, other, 3, 4)
			stop()
			over.Wait()
			p.check(t)
		})
	}
}

func pollByAcquire(ctx context.Context, t *testing.T, server *redistest.Server, _ *party, over *sync.WaitGroup, key string) {
	t.Helper()
	lock := lockOf(t, redislock.NewProvider(server.Client(t)), key, leased)
	over.Go(func() {
		for ctx.Err() == nil {
			if lock.Acquire(t.Context()) == nil {
				time.Sleep(5 * time.Millisecond)
				released(t, lock)
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
}

// released is for goroutines, which cannot end the test.
func released(t *testing.T, lock *redislock.RedisLock) {
	t.Helper()
	if err := lock.Release(t.Context()); err != nil {
		t.Errorf("Release: %v", err)
	}
}

func pollUntold(ctx context.Context, t *testing.T, server *redistest.Server, p *party, over *sync.WaitGroup, key string) {
	t.Helper()
	rules := slices.DeleteFunc(slices.Concat(leastRules, wakeRules), func(rule string) bool { return rule == "+subscribe" })
	server.ACLUser(t, "locker", "secret", rules...)
	untold := redislock.NewProvider(server.Client(t, asLocker))
	p.keepBusy(ctx, t, over, func() *redislock.RedisLock { return lockOf(t, untold, key, leased) }, 1, 5*time.Millisecond)
}

// A subscription that is never answered: until it is, the waiter polls.
func TestAWaiterWhoseSubscriptionHangsGetsItsTurn(t *testing.T) {
	r := newFaultRig(t)
	r.proxy.DelayRequests(time.Hour, 1000, redistest.Named("subscribe"))
	p := &party{}
	ctx, stop := context.WithCancel(t.Context())
	var over sync.WaitGroup
	turns := p.keepBusy(ctx, t, &over, func() *redislock.RedisLock { return lockOf(t, r.another, r.key, leased) }, 8, time.Millisecond)
	eventually(t, "they are at it", func() bool { return turns.Load() > 0 })
	lock := lockOf(t, r.ours, r.key, leased)
	for range 2 {
		must(t, "AcquireWait", closes(t, "it has the lock", async(func() error { return lock.AcquireWait(t.Context()) })))
		must(t, "Release", lock.Release(t.Context()))
	}
	stop()
	over.Wait()
	p.check(t)
}

// Tight pollers beside two waiters: the room has both, and what is kept for one.
func TestTheRoomDoesNotGrow(t *testing.T) {
	server := redistest.Start(t)
	admin, key, p := server.Client(t), rigKey(), &party{}
	ctx, stop := context.WithCancel(t.Context())
	var over sync.WaitGroup
	for range 3 {
		lock := lockOf(t, redislock.NewProvider(server.Client(t)), key, leased)
		over.Go(func() {
			for ctx.Err() == nil {
				if lock.Acquire(t.Context()) == nil {
					released(t, lock)
				}
			}
		})
	}
	for range 2 {
		provider := redislock.NewProvider(server.Client(t))
		p.keepBusy(ctx, t, &over, func() *redislock.RedisLock { return lockOf(t, provider, key, leased) }, 1, 0)
	}
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		if n := admin.LLen(t.Context(), redislock.HashTag(key)+":room").Val(); n > 3 {
			t.Errorf("the room has %d elements: %q", n, admin.LRange(t.Context(), redislock.HashTag(key)+":room", 0, -1).Val())
			break
		}
	}
	stop()
	over.Wait()
	p.check(t)
}

// Somebody's own key in place of the room is nothing to us.
func TestAStringInPlaceOfTheRoomStays(t *testing.T) {
	r := newFaultRig(t)
	room := r.redisKey(":room")
	must(t, "SET", r.direct.Set(t.Context(), room, "theirs", 0).Err())
	holder, waiter := lockOf(t, r.ours, r.key, leased), lockOf(t, r.ours, r.key, leased)
	must(t, "Acquire", holder.Acquire(t.Context()))
	held := time.Now()
	got := async(func() error { return waiter.AcquireWait(t.Context()) })
	useUp(held)
	must(t, "Release", holder.Release(t.Context()))
	must(t, "AcquireWait", closes(t, "the waiter has it", got))
	stays(t, 200*time.Millisecond, "the string", func() bool { return r.direct.Get(t.Context(), room).Val() == "theirs" })
}

// A process that waits now and then, and gives up, is in the room once.
func TestAProcessThatComesAndGoesIsInTheRoomOnce(t *testing.T) {
	r := newFaultRig(t)
	holder, waiter := lockOf(t, r.another, r.key, leased), lockOf(t, r.ours, r.key, leased)
	must(t, "Acquire", holder.Acquire(t.Context()))
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		left := async(func() error { return waiter.AcquireWait(ctx) })
		eventually(t, "it is told", func() bool { return subscribers(t, r.direct.(*redis.Client)) == 1 })
		awaitQueued(t, r.direct, r.key, 1)
		cancel()
		wantIs(t, closes(t, "it leaves", left), context.Canceled)
		eventually(t, "its subscription has gone", func() bool { return subscribers(t, r.direct.(*redis.Client)) == 0 })
	}
	equal(t, "elements of the room", r.direct.LLen(t.Context(), r.redisKey(":room")).Val(), 1)
}

// Redis may be without its replicas, or full, when a waiter announces itself. While others of
// its client wait, that is not for good.
func TestWaitersAreToldAgainAfterARedisThatTookNoWrites(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	other := r.key + "-other"
	holder := lockOf(t, r.another, r.key, leased)
	must(t, "Acquire", holder.Acquire(t.Context()))
	must(t, "Acquire", lockOf(t, r.another, other, leased).Acquire(t.Context()))
	ctx, stop := context.WithCancel(t.Context())
	lasting := async(func() error { return lockOf(t, r.ours, other, leased).AcquireWait(ctx) })
	awaitQueued(t, r.direct, other, 1)
	must(t, "CONFIG SET", r.direct.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
	waiter := lockOf(t, r.ours, r.key, leased)
	got := async(func() error { return waiter.AcquireWait(t.Context()) })
	asked := requestsOf(t, "acquire", r.redisKey(":owner"))
	becomes(t, 2*time.Second, "the waiter polls", func() bool { return r.proxy.Count(asked) > 3 })
	must(t, "CONFIG SET", r.direct.ConfigSet(t.Context(), "min-replicas-to-write", "0").Err())
	awaitQueued(t, r.direct, r.key, 1)
	must(t, "Release", holder.Release(t.Context()))
	hasItSoon(t, got)
	stop()
	wantIs(t, closes(t, "the other waiter ends", lasting), context.Canceled)
}
