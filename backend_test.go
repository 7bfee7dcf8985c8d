package redislock_test

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/alicebob/miniredis/v2"
	miniserver "github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// backend is one kind of Redis that the contract is checked on. Adding a topology
// is one more entry in backends.
type backend struct {
	name  string
	start func(testing.TB) env
}

var backends = []backend{
	{"miniredis", startMiniredis},
	{"standalone", startStandalone},
	{"sentinel", startSentinel},
	{"cluster", startCluster},
	{"tls", startTLS},
}

// env is a running backend. It is shared by all its tests, which keep apart by
// their keys.
type env struct {
	// options say how to reach it; each client gets a copy.
	options redis.UniversalOptions
	// control prepares keys and looks at them, apart from the clients under test.
	control redis.UniversalClient
	// served is how many script calls the servers have answered so far.
	served func(testing.TB) int64
}

// NewClient is a client of its own for a test, closed with it. A context's deadline
// binds its commands; each mod may change that and everything else.
func (e env) NewClient(tb testing.TB, mods ...func(*redis.UniversalOptions)) redis.UniversalClient {
	tb.Helper()
	options := e.options
	options.ContextTimeoutEnabled = true
	for _, mod := range mods {
		mod(&options)
	}
	client := redis.NewUniversalClient(&options)
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

// startMiniredis runs Redis's commands in this process. Its TTLs follow the clock,
// because a test that had to fast-forward could not run on a real server.
func startMiniredis(tb testing.TB) env {
	tb.Helper()
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	if err := server.Start(); err != nil {
		tb.Fatalf("starting miniredis: %v", err)
	}
	tb.Cleanup(server.Close)
	e := env{options: redis.UniversalOptions{Addrs: []string{server.Addr()}}}
	e.control = e.NewClient(tb)
	var calls atomic.Int64
	server.Server().SetPreHook(func(_ *miniserver.Peer, name string, _ ...string) bool {
		if name == "EVALSHA" || name == "EVAL" {
			calls.Add(1)
		}
		return false // it runs as usual
	})
	e.served = func(testing.TB) int64 { return calls.Load() }
	return e
}

func startStandalone(tb testing.TB) env {
	tb.Helper()
	e := env{options: redis.UniversalOptions{Addrs: []string{redistest.Start(tb).Addr()}}}
	e.control = e.NewClient(tb)
	e.served = func(tb testing.TB) int64 { return scriptCalls(tb, e.control) }
	return e
}

// scriptCalls is the sum of the calls of EVALSHA and EVAL in INFO commandstats.
func scriptCalls(tb testing.TB, client redis.UniversalClient) (sum int64) {
	tb.Helper()
	stats, err := client.Info(context.Background(), "commandstats").Result()
	if err != nil {
		tb.Fatalf("INFO commandstats: %v", err)
	}
	for line := range strings.Lines(stats) {
		name, rest, _ := strings.Cut(line, ":calls=")
		if name != "cmdstat_evalsha" && name != "cmdstat_eval" {
			continue
		}
		calls, _, _ := strings.Cut(rest, ",")
		n, err := strconv.ParseInt(calls, 10, 64)
		if err != nil {
			tb.Fatalf("INFO commandstats, line %q: %v", line, err)
		}
		sum += n
	}
	return sum
}
