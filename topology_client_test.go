package redislock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// TestScriptsFlushedOnEveryNodeGoUnseen: Redis forgets its scripts by SCRIPT FLUSH, by
// a restart and in a failover, and callers see none of it.
func TestScriptsFlushedOnEveryNodeGoUnseen(t *testing.T) {
	t.Parallel()
	for _, topology := range failingTopologies {
		t.Run(topology.name, func(t *testing.T) {
			t.Parallel()
			f := topology.start(t)
			flush(t, f, redislock.NewProvider(f.client(t)), redislock.NewProvider(f.client(t)))
		})
	}
}

// flush makes every node forget all scripts before each step of two holders.
func flush(t *testing.T, f *failing, ours, others redislock.Provider) {
	var nodes []*redis.Client
	for _, server := range f.servers {
		nodes = append(nodes, server.Client(t))
	}
	lock := lockOf(t, ours, "flush", expiration(time.Second), renewed)
	waiter := lockOf(t, others, "flush", expiration(time.Second), renewed)
	var waited <-chan error
	steps := []func() error{
		func() error { return lock.Acquire(t.Context()) },
		func() error { isRenewedAfter(t, lock, time.Now()); return nil },
		func() error { return lock.Acquire(t.Context()) }, // a reentry
		func() error { _, err := lock.IsLocked(t.Context()); return err },
		func() error { return lock.Renew(t.Context(), time.Second) },
		func() error { return lock.Release(t.Context()) }, // of the inner level
		func() error { waited = async(func() error { return waiter.AcquireWait(t.Context()) }); return nil },
		func() error { return lock.Release(t.Context()) },
		func() error { return closes(t, "the waiter's turn", waited) },
		func() error { return waiter.Release(t.Context()) },
	}
	for i, step := range steps {
		for _, node := range nodes {
			succeeds(t, "SCRIPT FLUSH", node.ScriptFlush(t.Context()).Err())
		}
		succeeds(t, fmt.Sprint("step ", i), step())
	}
	unknown := int64(0)
	for _, node := range nodes {
		unknown += infoNumber(t, node, "errorstats", "errorstat_NOSCRIPT:count=")
	}
	if unknown < 8 {
		t.Errorf("the servers did not know a script %d times, want one at least for each of the 8 steps that send one", unknown)
	}
}

// infoNumber sums up the numbers behind each line of INFO that begins so; a prefix
// that ends before the "=" takes the first number of all such lines.
func infoNumber(t *testing.T, node *redis.Client, section, prefix string) (sum int64) {
	t.Helper()
	info, err := node.Info(context.Background(), section).Result()
	succeeds(t, "INFO", err)
	for line := range strings.Lines(info) {
		if _, rest, found := strings.Cut(line, "="); found && strings.HasPrefix(line, prefix) {
			var n int64
			if _, err := fmt.Sscan(strings.FieldsFunc(rest, func(r rune) bool { return r < '0' || r > '9' })[0], &n); err != nil {
				t.Fatalf("INFO %s, line %q: %v", section, line, err)
			}
			sum += n
		}
	}
	return sum
}

// TestReadsFromReplicasDoNotMisleadTheLock: a replica may be behind, so that whoever
// asks it may still, or not yet, be told that a lock is held.
func TestReadsFromReplicasDoNotMisleadTheLock(t *testing.T) {
	t.Parallel()
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := redistest.StartCluster(t)
		primary := func(key string) *redistest.Server { return c.PrimaryFor(t, key) }
		for name, mod := range map[string]func(*redis.ClusterOptions){
			"ReadOnly":       func(o *redis.ClusterOptions) { o.ReadOnly = true },
			"RouteByLatency": func(o *redis.ClusterOptions) { o.RouteByLatency = true },
			"RouteRandomly":  func(o *redis.ClusterOptions) { o.RouteRandomly = true },
		} {
			readFromReplicas(t, name, c.Client(t, mod), c.Servers(), primary)
		}
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		s := redistest.StartSentinel(t)
		primary := func(string) *redistest.Server { return s.Primary(t) }
		for name, mod := range map[string]func(*redis.FailoverOptions){
			"RouteByLatency": func(o *redis.FailoverOptions) { o.RouteByLatency = true },
			"RouteRandomly":  func(o *redis.FailoverOptions) { o.RouteRandomly = true },
		} {
			opts := &redis.FailoverOptions{MasterName: s.MasterName(), SentinelAddrs: s.Addrs(), ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1}
			mod(opts)
			client := redis.NewFailoverClusterClient(opts)
			t.Cleanup(func() { closeWithSentinels(client, s) })
			readFromReplicas(t, name, client, s.Servers(), primary)
		}
	})
}

// closeWithSentinels: Close of go-redis v9.23.0 leaves what NewFailoverClusterClient
// has started, a subscription with its goroutines. It is given up when the next
// question to the Sentinels finds none of them.
func closeWithSentinels(client *redis.ClusterClient, s *redistest.Sentinel) {
	for _, sentinel := range s.Sentinels() {
		sentinel.Stop()
	}
	_, _ = client.Options().ClusterSlots(context.Background())
	_ = client.Close()
}

// readFromReplicas takes 30 locks, so that a client which chooses at random would
// hit a replica, and then asks the servers which of them were asked. A replica gets
// what a script writes as plain commands.
func readFromReplicas(t *testing.T, name string, client redis.UniversalClient, servers []*redistest.Server, primary func(string) *redistest.Server) {
	t.Helper()
	const reads = 30
	locks := redislock.NewProvider(client)
	primaries := map[*redistest.Server]bool{}
	for _, server := range servers {
		succeeds(t, "CONFIG RESETSTAT", server.Client(t).ConfigResetStat(t.Context()).Err())
	}
	for i := range reads {
		key := fmt.Sprint("read-", name, "-", i)
		primaries[primary(redislock.HashTag(key))] = true
		lock := lockOf(t, locks, key)
		succeeds(t, "Acquire", lock.Acquire(t.Context()))
		held, err := lock.IsLocked(t.Context())
		succeeds(t, "IsLocked", err)
		equal(t, "IsLocked", held, true)
		left, err := lock.TTL(t.Context())
		succeeds(t, "TTL", err)
		between(t, "TTL", left, 0, time.Minute)
		succeeds(t, "Renew", lock.Renew(t.Context(), time.Minute))
		succeeds(t, "Release", lock.Release(t.Context()))
		_ = client.Get(t.Context(), redislock.HashTag(key)) // this one may go to a replica
	}
	asked, readable := int64(0), int64(0)
	for _, server := range servers {
		if primaries[server] {
			asked += infoNumber(t, server.Client(t), "commandstats", "cmdstat_eval")
		} else {
			readable += ranNoScript(t, name, server)
		}
	}
	equal(t, name+": scripts of the primaries", asked >= 5*reads, true)
	// The nearest server may be the primary; the others must have read from a replica,
	// or this test has shown nothing. More than the test's own GETs are the lock's.
	if readable > reads || (readable == 0 && name != "RouteByLatency") {
		t.Errorf("%s: the replicas have answered %d GET, of %d that the test sent", name, readable, reads)
	}
}

// ranNoScript checks a replica, and returns how many GET it has answered.
func ranNoScript(t *testing.T, name string, replica *redistest.Server) int64 {
	t.Helper()
	node := replica.Client(t)
	for _, command := range []string{"cmdstat_eval", "cmdstat_fcall", "cmdstat_pttl"} {
		equal(t, name+": "+command+" on the replica "+replica.Addr(), infoNumber(t, node, "commandstats", command), 0)
	}
	return infoNumber(t, node, "commandstats", "cmdstat_get:")
}
