package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// Calls come at any moment of the stop: there are several rounds.
func TestAnAppStoppedUnderLoadLeavesNoLockBehind(t *testing.T) {
	server := redistest.Start(t)
	direct := server.Client(t)
	for round := range 8 {
		app := bootOK(t, fmt.Sprint("drain-", round), redisSection(server.Addr()))
		provider := redislock.GetProvider()
		ctx, cancel := context.WithCancel(t.Context())
		var load sync.WaitGroup
		for i := range 8 {
			load.Go(func() { lockUntil(ctx, provider, fmt.Sprint("drain-", i)) })
		}
		time.Sleep(40 * time.Millisecond) // under load
		_ = app.Close()
		// Time for a call that the stop has not seen. The load goes on: it is refused.
		time.Sleep(30 * time.Millisecond)
		equal(t, "locks active after the stop", activeLocks(), 0)
		keys, err := direct.Keys(t.Context(), "*:owner").Result()
		must(t, "KEYS", err)
		cancel()
		load.Wait()
		if len(keys) > 0 {
			t.Fatalf("round %d: the stop left %v", round, keys)
		}
	}
}

// lockUntil takes and frees a lock again and again.
func lockUntil(ctx context.Context, provider redislock.Provider, key string) {
	for ctx.Err() == nil {
		err := provider.Lock(context.Background(), key, 30*time.Second, func() error { return nil })
		if errors.Is(err, redislock.ErrRedisClientNotFound) {
			time.Sleep(time.Millisecond)
		}
	}
}
