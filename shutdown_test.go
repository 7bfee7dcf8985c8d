package redislock_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// A hold is no longer active while its release is in flight. Who closes the client
// when Shutdown has returned must not cut that release off.
func TestShutdownWaitsForAReleaseInFlight(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	direct := server.Client(t)
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), ContextTimeoutEnabled: true})
	lock, err := redislock.NewProvider(client).NewLock(t.Context(), "job", redislock.DefaultLockOptions)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	isScript := redistest.Named("evalsha", "eval")
	proxy.DelayRequests(250*time.Millisecond, 1, isScript)
	before := proxy.Count(isScript)
	released := make(chan error, 1)
	go func() { released <- lock.Release(t.Context()) }()
	eventually(t, "the release is on its way", func() bool { return proxy.Count(isScript) > before })
	if err := redislock.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = client.Close()
	if err := <-released; err != nil {
		t.Fatalf("Release while shutting down: %v", err)
	}
	if n := direct.Exists(t.Context(), redislock.HashTag("job")+":owner").Val(); n != 0 {
		t.Fatal("Shutdown returned before the lock was free")
	}
}
