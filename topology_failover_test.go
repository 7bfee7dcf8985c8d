package redislock_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// failing is a topology whose primaries can fail. Sentinel's is one shard.
type failing struct {
	shards  int
	servers []*redistest.Server
	// client is one with the default options, apart from ContextTimeoutEnabled.
	client   func(testing.TB) redis.UniversalClient
	shardOf  func(tb testing.TB, key string) int
	primary  func(tb testing.TB, shard int) *redistest.Server
	await    func(tb testing.TB, shard int, old *redistest.Server) time.Duration
	failover func(tb testing.TB, shard int) time.Duration
	heal     func(testing.TB)
}

var failingTopologies = []struct {
	name  string
	start func(testing.TB) *failing
}{{"sentinel", startFailingSentinel}, {"cluster", startFailingCluster}}

func startFailingSentinel(tb testing.TB) *failing {
	tb.Helper()
	s := redistest.StartSentinel(tb)
	return &failing{
		shards: 1, servers: s.Servers(), heal: s.Heal,
		client:   func(tb testing.TB) redis.UniversalClient { return s.Client(tb) },
		shardOf:  func(testing.TB, string) int { return 0 },
		primary:  func(tb testing.TB, _ int) *redistest.Server { return s.Primary(tb) },
		await:    func(tb testing.TB, _ int, old *redistest.Server) time.Duration { return s.AwaitFailover(tb, old) },
		failover: func(tb testing.TB, _ int) time.Duration { return s.Failover(tb) },
	}
}

// startFailingCluster names each shard by a key of it: slots stay together when a
// replica takes them over.
func startFailingCluster(tb testing.TB) *failing {
	tb.Helper()
	c := redistest.StartCluster(tb)
	f := &failing{
		servers: c.Servers(), heal: c.Heal,
		client: func(tb testing.TB) redis.UniversalClient { return c.Client(tb) },
	}
	var names []string // of the shards
	f.shardOf = func(tb testing.TB, key string) int {
		owner := c.PrimaryFor(tb, redislock.HashTag(key))
		return slices.IndexFunc(names, func(name string) bool { return c.PrimaryFor(tb, name) == owner })
	}
	for n := 0; len(names) < 3; n++ {
		if key := fmt.Sprint("shard-", n); f.shardOf(tb, key) < 0 {
			names = append(names, redislock.HashTag(key))
		}
	}
	f.shards = len(names)
	f.primary = func(tb testing.TB, shard int) *redistest.Server { return c.PrimaryFor(tb, names[shard]) }
	f.await = func(tb testing.TB, shard int, old *redistest.Server) time.Duration {
		return c.AwaitFailover(tb, names[shard], old)
	}
	f.failover = func(tb testing.TB, shard int) time.Duration { return c.Failover(tb, names[shard]) }
	return f
}

// keyIn is a fresh key of that shard.
func (f *failing) keyIn(tb testing.TB, shard int, prefix string) string {
	tb.Helper()
	for n := 0; ; n++ {
		if key := fmt.Sprint(prefix, "-", n); f.shardOf(tb, key) == shard {
			return key
		}
	}
}

// keysOf are n keys, spread evenly over the shards.
func (f *failing) keysOf(tb testing.TB, prefix string, n int) (keys []string) {
	tb.Helper()
	for i := range n {
		keys = append(keys, f.keyIn(tb, i%f.shards, fmt.Sprint(prefix, "-", i)))
	}
	return keys
}

// TestFailovers kills primaries under 20 renewed locks and 20 waiters. It is not
// parallel to other tests: the callback, active_locks and the number of goroutines
// belong to the whole process.
func TestFailovers(t *testing.T) {
	withoutRemains(t)
	for _, topology := range failingTopologies {
		t.Run(topology.name, func(t *testing.T) {
			t.Parallel()
			failOver20Times(t, topology.start(t), topology.name)
		})
	}
}

// withoutRemains checks, when the subtests have ended and closed their clients, that
// the process is as it was before.
func withoutRemains(t *testing.T) {
	t.Helper()
	redislock.SetCallback(faultEvents)
	before, known := runtime.NumGoroutine(), goleak.IgnoreCurrent()
	t.Cleanup(func() {
		redislock.SetCallback(nil)
		equal(t, "active_locks", activeLocks(), 0)
		becomes(t, patience, "the goroutines are back to the start", func() bool { return runtime.NumGoroutine() <= before })
		goleak.VerifyNone(t, known)
	})
	dialsEnd(t) // before that
}

// failOver20Times: at each failure every lease survives, or its holder has been told
// before another gets the key.
//
// That is a theorem only while Redis keeps what it has answered. It replicates after
// it has answered; but a primary that is killed has handed all to the kernel except
// what it answered in the last few microseconds, and what the kernel of this machine
// has does not get lost. A machine that loses its power is another matter, see the
// forced failover of Sentinel below, which loses writes for longer.
func failOver20Times(t *testing.T, f *failing, name string) {
	const failures = 20
	clients := [2]redis.UniversalClient{f.client(t), f.client(t)}
	probes := redislock.NewProvider(clients[0]) // as the holders' locks
	a := newArena(t, true, f.keysOf(t, "kill-"+name, 20), clients)
	a.goesOn(nil, time.Time{})
	sum := &failureSum{fates: map[string]int{}, elsewhere: map[string]int{}}
	for n := range failures {
		shard := n % f.shards
		probe := lockOf(t, probes, f.keyIn(t, shard, fmt.Sprint("probe-", name, "-", n)), timeout(600*time.Millisecond))
		a.killOne(f, shard, probe, sum)
	}
	t.Logf("%s: %d failovers by SIGKILL: the server's own took %s, the lock's first acquire came after %s; holds that stood: %v, in other shards: %v",
		name, failures, middleAndMost(sum.servers), middleAndMost(sum.locks), sum.fates, sum.elsewhere)
	equal(t, "holds that were lost in a shard that did not fail", sum.elsewhere["lost"], 0)
	if sum.fates["survived"] == 0 || sum.fates["lost"] == 0 {
		t.Errorf("only one of the two was seen: a lease that survives, and one that does not: %v", sum.fates)
	}
	a.nothingIsLeft(f)
}

// failureSum sums up what was seen.
type failureSum struct {
	servers, locks   []time.Duration // until the server, and the lock, worked again
	fates, elsewhere map[string]int  // of the holds in the shard that failed, in the others
}

// killOne kills the primary of a shard and returns when everything goes on.
func (a *arena) killOne(f *failing, shard int, probe *redislock.RedisLock, sum *failureSum) {
	t := a.t
	t.Helper()
	inShard := map[string]bool{}
	for _, d := range a.duels {
		inShard[d.key] = f.shardOf(t, d.key) == shard
	}
	old := f.primary(t, shard)
	before := a.standing(func(key string) bool { return inShard[key] })
	others := a.standing(func(key string) bool { return !inShard[key] })
	killed := time.Now()
	old.Stop()
	recovered := firstAcquire(t.Context(), probe, killed)
	sum.servers = append(sum.servers, f.await(t, shard, old))
	sum.locks = append(sum.locks, closes(t, "the lock works again", recovered))
	succeeds(t, "Release", probe.Release(t.Context()))
	f.heal(t)
	add(sum.fates, a.goesOn(before, killed))
	add(sum.elsewhere, a.goesOn(others, killed))
}

func add(sum, more map[string]int) {
	for fate, holds := range more {
		sum[fate] += holds
	}
}

// firstAcquire gives the time since then until the lock was first acquired. It tries
// until then, or until the context ends.
func firstAcquire(ctx context.Context, lock *redislock.RedisLock, since time.Time) <-chan time.Duration {
	took := make(chan time.Duration, 1)
	go func() {
		for ctx.Err() == nil {
			if lock.Acquire(ctx) == nil {
				took <- time.Since(since)
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return took
}

func middleAndMost(times []time.Duration) string {
	sorted := slices.Sorted(slices.Values(times))
	round := func(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
	return fmt.Sprintf("%s at p50 and %s at most", round(sorted[len(sorted)/2]), round(sorted[len(sorted)-1]))
}

// nothingIsLeft ends the duels and looks for what they may have left behind.
func (a *arena) nothingIsLeft(f *failing) {
	a.t.Helper()
	a.stop()
	a.everyLossWasToldOnce()
	direct := map[*redistest.Server]*redis.Client{}
	for _, server := range f.servers {
		direct[server] = server.Client(a.t)
	}
	// An acquire whose answer was lost is cleaned up in the background.
	becomes(a.t, time.Minute, "no server has an owner key", func() bool {
		for _, client := range direct {
			owners, err := client.Keys(a.t.Context(), "*:owner").Result()
			succeeds(a.t, "KEYS", err)
			if len(owners) > 0 {
				return false
			}
		}
		return true
	})
	scripts := func() (sum int64) {
		for _, client := range direct {
			sum += scriptCalls(a.t, client)
		}
		return sum
	}
	// Any of these leases would be renewed within this time. It may begin a little later:
	// who was told of a release and waits no more passes the word on, in the background.
	const during = 4500 * time.Millisecond
	last, since := scripts(), time.Now()
	becomes(a.t, 2*during, "no script is sent any more", func() bool {
		time.Sleep(50 * time.Millisecond)
		if sent := scripts(); sent != last {
			last, since = sent, time.Now()
		}
		return time.Since(since) >= during
	})
}

// TestForcedFailovers has the replica take over while the primary runs on.
func TestForcedFailovers(t *testing.T) {
	withoutRemains(t)
	for _, topology := range failingTopologies {
		t.Run(topology.name, func(t *testing.T) {
			t.Parallel()
			failOverByOrder(t, topology.start(t), topology.name)
		})
	}
}

// failOverByOrder: a Cluster hands its shard over without losing a write, so that no
// lease is lost and none overlaps. Sentinel promotes a replica while the old primary
// takes writes for another second or two, which are lost: two holders may overlap
// until the older one's next renewal or deadline, which is what the arena checks.
func failOverByOrder(t *testing.T, f *failing, name string) {
	const failures = 4
	coordinated := name == "cluster"
	a := newArena(t, coordinated, f.keysOf(t, "force-"+name, 20), [2]redis.UniversalClient{f.client(t), f.client(t)})
	a.goesOn(nil, time.Time{})
	fates := map[string]int{}
	var servers []time.Duration
	for n := range failures {
		before := a.standing(func(string) bool { return true })
		ordered := time.Now()
		servers = append(servers, f.failover(t, n%f.shards))
		add(fates, a.goesOn(before, ordered))
	}
	a.nothingIsLeft(f)
	losses := 0
	for _, d := range a.duels {
		losses += len(d.lost)
	}
	if coordinated && losses > 0 {
		t.Errorf("%d holds were lost in coordinated failovers", losses)
	}
	slices.Sort(a.overlaps)
	t.Logf("%s: %d failovers by order: the server's own took %s; holds that stood: %v; %d holds were lost in all; overlaps of two holders: %v",
		name, failures, middleAndMost(servers), fates, losses, a.overlaps)
}

// TestTheLockRecoversAsSoonAsTheClusterHas: go-redis looks where the slots are once a
// minute, and a dead primary alone is no reason for it to look earlier. Each client
// is new, so that its minute has just begun when the primary dies. One of them is
// embedded in something of the application's.
func TestTheLockRecoversAsSoonAsTheClusterHas(t *testing.T) {
	t.Parallel()
	const bound = 10 * time.Second // behind the Cluster; far more than is needed, far less than the minute
	f := startFailingCluster(t)
	var servers, locks []time.Duration
	for shard := range f.shards {
		client := f.client(t)
		if shard == 1 {
			client = struct{ *redis.ClusterClient }{client.(*redis.ClusterClient)}
		}
		lock := lockOf(t, redislock.NewProvider(client), f.keyIn(t, shard, fmt.Sprint("recover-", shard)), timeout(600*time.Millisecond))
		succeeds(t, "Acquire", lock.Acquire(t.Context()))
		succeeds(t, "Release", lock.Release(t.Context()))
		old := f.primary(t, shard)
		killed := time.Now()
		old.Stop()
		recovered := firstAcquire(t.Context(), lock, killed)
		server := f.await(t, shard, old)
		select {
		case took := <-recovered:
			servers, locks = append(servers, server), append(locks, took)
		case <-time.After(bound):
			t.Fatalf("the Cluster had failed over after %s, and %s later the lock does not work yet", server, bound)
		}
		succeeds(t, "Release", lock.Release(t.Context()))
		f.heal(t)
	}
	t.Logf("the Cluster failed over in %s, the lock worked again after %s", middleAndMost(servers), middleAndMost(locks))
}
