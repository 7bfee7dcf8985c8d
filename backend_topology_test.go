package redislock_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

func startSentinel(tb testing.TB) env {
	tb.Helper()
	sentinel := redistest.StartSentinel(tb)
	e := env{options: redis.UniversalOptions{Addrs: sentinel.Addrs(), MasterName: sentinel.MasterName()}}
	e.control = e.NewClient(tb)
	e.served = func(tb testing.TB) int64 { return scriptCalls(tb, e.control) }
	return e
}

func startCluster(tb testing.TB) env {
	tb.Helper()
	return clusterEnv(tb, redistest.StartCluster(tb))
}

func clusterEnv(tb testing.TB, cluster *redistest.Cluster) env {
	tb.Helper()
	e := env{options: redis.UniversalOptions{Addrs: cluster.Addrs()}}
	control := e.NewClient(tb).(*redis.ClusterClient)
	e.control = control
	e.served = func(tb testing.TB) int64 {
		var sum atomic.Int64
		err := control.ForEachMaster(context.Background(), func(_ context.Context, node *redis.Client) error {
			sum.Add(scriptCalls(tb, node))
			return nil
		})
		if err != nil {
			tb.Fatalf("asking the primaries: %v", err)
		}
		return sum.Load()
	}
	return e
}

// leastRules are what the lock needs of a server, and nothing else: the README
// lists them. ACLs bind the commands inside of scripts as well.
var leastRules = []string{
	"~{lynx:lock:*",
	"+evalsha", "+eval", "+script|load",
	"+get", "+set", "+del", "+exists", "+incr", "+decr", "+pttl", "+pexpire", "+time",
}

// wakeRules are what waiters need besides to be told; without them they poll.
var wakeRules = []string{
	"&lynx:lock:*", "+subscribe", "+publish", "+lpos", "+lpush", "+rpush", "+lpop", "+lindex", "+lrem", "+llen",
}

// startTLS is a server that takes nothing but TLS, and a user who may do nothing but
// lock; further keys are the caller's own, a FenceKey has to be allowed.
func startTLS(tb testing.TB) env {
	tb.Helper()
	server := redistest.StartTLS(tb)
	server.ACLUser(tb, "locker", "secret", slices.Concat([]string{"~*fence*"}, leastRules, wakeRules)...)
	admin := redis.UniversalOptions{Addrs: []string{server.Addr()}, TLSConfig: server.TLSConfig()}
	e := env{options: admin}
	e.control = e.NewClient(tb)
	e.served = func(tb testing.TB) int64 { return scriptCalls(tb, e.control) }
	e.options.Username, e.options.Password = "locker", "secret"
	return e
}
