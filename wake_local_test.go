package redislock_test

import (
	"context"
	"errors"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-lynx/lynx/plugins"
	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// awaitAsleep waits until so many waiters of this process sleep, first in their lines:
// a release may then hand the lock over. Their stacks are all that can be seen of it.
func awaitAsleep(t *testing.T, n int) {
	t.Helper()
	asleep := regexp.MustCompile(`\[select(, [^]]*)?\]:\n[^\n]*\(\*waiter\)\.sleep\(`)
	stacks := make([]byte, 1<<24)
	eventually(t, "the waiters sleep", func() bool {
		return len(asleep.FindAll(stacks[:runtime.Stack(stacks, true)], -1)) >= n
	})
}

// TestAWaiterBehindAHolderOfItsProcess: it sleeps until that one hands the lock over,
// and has to notice whatever else becomes of the hold.
func TestAWaiterBehindAHolderOfItsProcess(t *testing.T) {
	t.Parallel()
	const lease = 10 * time.Second
	del := func(t *testing.T, r *faultRig) {
		must(t, "DEL", r.direct.Del(t.Context(), r.redisKey(":owner")).Err())
	}
	for _, c := range []struct {
		name   string
		before func(t *testing.T, r *faultRig) // the first of the two gets the lock
		ends   func(t *testing.T, r *faultRig, first *redislock.RedisLock)
		within time.Duration
	}{
		{"it releases a hold whose acquire was answered the second time", func(t *testing.T, r *faultRig) {
			r.proxy.DropReplies(1, requestsOf(t, "acquire"))
		}, func(t *testing.T, _ *faultRig, first *redislock.RedisLock) {
			must(t, "Release", first.Release(t.Context()))
		}, neverBySleep},
		{"it releases after a hand-over that was answered the second time", func(t *testing.T, r *faultRig) {
			r.proxy.DropReplies(1, requestsOf(t, "handover"))
		}, func(t *testing.T, r *faultRig, first *redislock.RedisLock) {
			must(t, "Release", first.Release(t.Context()))
		}, neverBySleep},
		{"it finds its hold lost", nil, func(t *testing.T, r *faultRig, first *redislock.RedisLock) {
			del(t, r)
			wantIs(t, first.Renew(t.Context(), lease), redislock.ErrLockLost)
		}, neverBySleep},
		{"its release is repeated", nil, func(t *testing.T, r *faultRig, first *redislock.RedisLock) {
			r.proxy.DropReplies(2, requestsOf(t, "handover"))
			r.proxy.DropReplies(2, requestsOf(t, "release"))
			if first.Release(t.Context()) == nil {
				t.Fatal("the release has got an answer")
			}
			_ = first.Release(t.Context())
		}, neverBySleep},
		{"its hold is ended elsewhere, and it does not notice", nil, func(t *testing.T, r *faultRig, _ *redislock.RedisLock) {
			del(t, r)
		}, lease / 2}, // 2 s, and what a busy machine adds
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newFaultRig(t)
			waiter := func() (*redislock.RedisLock, <-chan error) {
				lock := lockOf(t, r.ours, r.key, expiration(lease), timeout(600*time.Millisecond))
				return lock, async(func() error { return lock.AcquireWait(t.Context()) })
			}
			holder := lockOf(t, r.another, r.key)
			must(t, "Acquire", holder.Acquire(t.Context()))
			first, firstHas := waiter()
			awaitQueued(t, r.direct, r.key, 1)
			_, secondHas := waiter()
			time.Sleep(100 * time.Millisecond) // the one behind sends nothing that could be seen
			if c.before != nil {
				c.before(t, r)
			}
			must(t, "Release", holder.Release(t.Context()))
			must(t, "the first", closes(t, "the first has it", firstHas))
			time.Sleep(50 * time.Millisecond) // and the second has lain down
			c.ends(t, r, first)
			free := time.Now()
			must(t, "the second", closes(t, "the second has it", secondHas))
			if took := time.Since(free); took > c.within {
				t.Errorf("the second has the lock %s after it was free", took)
			}
		})
	}
}

// One that is served releases at once: the next has not woken up by then, and is served
// all the same.
func TestAHandOverInTheProcessIsOneCommandAlsoWithoutAPause(t *testing.T) {
	const workers, turns = 16, 100
	r, p := newFaultRig(t), &party{}
	var over sync.WaitGroup
	for range workers {
		lock := lockOf(t, r.ours, r.key)
		over.Go(func() {
			for range turns {
				if err := p.turn(t.Context(), lock, 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	over.Wait()
	p.check(t)
	handed, freed := r.proxy.Count(requestsOf(t, "handover")), r.proxy.Count(requestsOf(t, "release"))
	t.Logf("%d turns, %d hand-overs, %d releases", workers*turns, handed, freed)
	if freed > workers*turns/4 {
		t.Errorf("%d of %d turns freed the lock beside those that waited for it", freed, workers*turns)
	}
}

// The first in the line is another provider's, over the same client: the plugin that stops
// is not the one that it waits for.
func TestAWaiterOfAPluginThatStopsDoesNotWaitForThoseBeforeIt(t *testing.T) {
	server := redistest.Start(t)
	app := bootOK(t, "waits", redisSection(server.Addr()))
	client, err := plugins.GetTypedResource[redis.UniversalClient](app.GetPluginManager().GetRuntime(), "redis.client")
	must(t, "the client", err)
	admin := server.Client(t)
	must(t, "SET", admin.Set(t.Context(), redislock.HashTag("job")+":owner", "elsewhere", time.Minute).Err())
	ctx, cancel := context.WithCancel(t.Context())
	own, plugged := lockOf(t, redislock.NewProvider(client), "job"), lockOf(t, published(t, app, "redis.distributed.lock"), "job")
	first := async(func() error { return own.AcquireWait(ctx) })
	awaitQueued(t, admin, "job", 1)
	second := async(func() error { return plugged.AcquireWait(t.Context()) })
	eventually(t, "both wait", func() bool { return samples(t)["lynx_redis_lock_waiters"] == 2 })
	must(t, "StopPlugin", app.GetPluginManager().StopPlugin("redis.distributed.lock"))
	wantIs(t, closes(t, "the plugin's waiter ends", second), redislock.ErrRenewalServiceStopped)
	cancel()
	wantIs(t, closes(t, "the other ends", first), context.Canceled)
}

// Redis may refuse to tell at any time.
func TestASubscriptionThatIsRefusedWhileOneWaitsWakesIt(t *testing.T) {
	server := redistest.Start(t)
	rules := slices.Concat(leastRules, wakeRules)
	server.ACLUser(t, "locker", "secret", rules...)
	admin, key := server.Client(t), rigKey()
	provider := redislock.NewProvider(server.Client(t, asLocker))
	must(t, "SET", admin.Set(t.Context(), redislock.HashTag(key)+":owner", "elsewhere", time.Minute).Err())
	waiter := lockOf(t, provider, key)
	got := async(func() error { return waiter.AcquireWait(t.Context()) })
	awaitQueued(t, admin, key, 1)
	server.ACLUser(t, "locker", "secret", slices.DeleteFunc(rules, func(rule string) bool { return rule == "+subscribe" })...)
	admin.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub")
	eventually(t, "the subscription has gone", func() bool { return subscribers(t, admin) == 0 })
	time.Sleep(200 * time.Millisecond) // and cannot be had again
	must(t, "DEL", admin.Del(t.Context(), redislock.HashTag(key)+":owner").Err())
	hasItSoon(t, got)
}

// A waiter that was told, whose question is lost and which then leaves, passes the word on.
func TestAToldWaiterWhoseQuestionIsLostPassesTheWordOn(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	holder := lockOf(t, r.another, r.key)
	must(t, "Acquire", holder.Acquire(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	told := lockOf(t, r.ours, r.key, timeout(300*time.Millisecond))
	left := async(func() error { return told.AcquireWait(ctx) })
	awaitQueued(t, r.direct, r.key, 1)
	behind := lockOf(t, r.another, r.key)
	got := async(func() error { return behind.AcquireWait(t.Context()) })
	awaitQueued(t, r.direct, r.key, 2)
	before := r.proxy.Count(requestsOf(t, "acquire"))
	r.proxy.DelayRequests(5*time.Second, 100, requestsOf(t, "acquire"))
	must(t, "Release", holder.Release(t.Context()))
	eventually(t, "it asks", func() bool { return r.proxy.Count(requestsOf(t, "acquire")) > before })
	cancel()
	if err := closes(t, "it leaves", left); !errors.Is(err, context.Canceled) {
		t.Errorf("AcquireWait: %v", err)
	}
	hasItSoon(t, got)
}

// One process alone, with lost replies: nobody else would notice that the lock is free.
func TestLostRepliesInOneProcessStopNoWaiter(t *testing.T) {
	r := newFaultRig(t)
	p := &party{}
	ctx, stop := context.WithCancel(t.Context())
	var over sync.WaitGroup
	for _, script := range []string{"acquire", "handover", "release"} {
		over.Go(func() {
			for ctx.Err() == nil {
				r.proxy.DropReplies(1, requestsOf(t, script))
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	lock := func() *redislock.RedisLock {
		return lockOf(t, r.ours, r.key, expiration(20*time.Second), timeout(2*time.Second))
	}
	var workers sync.WaitGroup
	turns := p.keepBusy(ctx, t, &workers, lock, 8, 0)
	most, last := time.Duration(0), time.Now()
	end := last.Add(5 * time.Second)
	for seen := int64(0); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if n := turns.Load(); n != seen {
			most, last, seen = max(most, time.Since(last)), time.Now(), n
		}
	}
	stop()
	workers.Wait()
	over.Wait()
	p.check(t)
	t.Logf("%d turns, at most %s apart", turns.Load(), most)
	if most > neverBySleep {
		t.Errorf("nobody had a turn for %s", most)
	}
}
