package redislock_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// inBubble runs f with a client whose Redis and whose clock are inside a bubble, so
// that an hour of renewals takes a moment.
func inBubble(t *testing.T, f func(t *testing.T, server *miniredis.Miniredis, locks redislock.Provider)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := miniredis.NewMiniRedis()
		server.ClockTTL(true)
		client := redis.NewClient(&redis.Options{
			Addr:   "127.0.0.1:1", // an address, so that nothing is looked up
			Dialer: func(context.Context, string, string) (net.Conn, error) { return server.Dial() },

			ContextTimeoutEnabled: true,
			DisableIdentity:       true,
		})
		f(t, server, redislock.NewProvider(client))
		synctest.Wait() // no Shutdown: it would wait for managers outside of the bubble
		_ = client.Close()
		server.Close()
	})
}

// renewals counts OnLockRenewed by key.
type renewals struct {
	redislock.NoOpCallback
	mu sync.Mutex
	n  map[string]int
}

func (r *renewals) OnLockRenewed(key string, _ time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n[key]++
}

func TestEveryLockIsRenewedByItsOwnOptions(t *testing.T) {
	type row struct {
		key       string
		ttl       time.Duration
		threshold float64
		config    redislock.RenewalConfig
		low, high int // renewals in ten minutes
	}
	rows := []row{
		// CheckInterval 20 s on the first lock must not slow the others down.
		{"slow checks", 30 * time.Second, 0, redislock.RenewalConfig{CheckInterval: 20 * time.Second}, 28, 28}, // each 21 s
		{"two seconds", 2 * time.Second, 0, redislock.RenewalConfig{}, 435, 435},                               // each 1.378 s: a call before the end
		{"ten minutes", 10 * time.Minute, 0, redislock.RenewalConfig{}, 1, 1},                                  // each 7 min
		{"threshold 1", 10 * time.Second, 1, redislock.RenewalConfig{}, 119, 120},                              // each 5 s, never in the first half
		{"threshold 0.0001", 10 * time.Second, 0.0001, redislock.RenewalConfig{}, 64, 64},                      // each 9.298 s: a call before the end
		{"a call longer than the lease", time.Second, 0, redislock.RenewalConfig{CallTimeout: time.Minute}, 1199, 1200},
	}
	seen := &renewals{n: map[string]int{}}
	redislock.SetCallback(seen)
	defer redislock.SetCallback(nil)
	inBubble(t, func(t *testing.T, _ *miniredis.Miniredis, locks redislock.Provider) {
		var held []*redislock.RedisLock
		for _, r := range rows {
			lock, err := locks.NewLock(t.Context(), r.key, redislock.LockOptions{
				Expiration: r.ttl, RenewalEnabled: true, RenewalThreshold: r.threshold, RenewalConfig: r.config,
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := lock.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			held = append(held, lock)
		}
		time.Sleep(10 * time.Minute) // of the bubble
		synctest.Wait()
		for i, r := range rows {
			if err := held[i].Err(); err != nil {
				t.Errorf("%s: %v", r.key, err)
			}
			seen.mu.Lock()
			n := seen.n[r.key]
			seen.mu.Unlock()
			if n < r.low || n > r.high {
				t.Errorf("%s: %d renewals in ten minutes, want %d to %d", r.key, n, r.low, r.high)
			}
			if err := held[i].Release(t.Context()); err != nil {
				t.Errorf("%s: %v", r.key, err)
			}
		}
	})
}

func TestTheCounterOutlivesALongHoldByTokenTTL(t *testing.T) {
	inBubble(t, func(t *testing.T, server *miniredis.Miniredis, locks redislock.Provider) {
		lock, err := locks.NewLock(t.Context(), "long", redislock.LockOptions{
			Expiration: 10 * time.Second, RenewalEnabled: true, TokenTTL: time.Minute,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := lock.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		counter := redislock.HashTag("long") + ":token"
		for range 60 {
			time.Sleep(10 * time.Second)
			if left := server.TTL(counter); left < time.Minute || left > 88*time.Second {
				t.Fatalf("the counter lives %s longer, TokenTTL is a minute, the lease 10 s", left)
			}
		}
		first := lock.GetToken()
		if err := lock.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Second) // less than TokenTTL
		if err := lock.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		if second := lock.GetToken(); second <= first {
			t.Fatalf("tokens %d, %d", first, second)
		}
		if err := lock.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAHoldEndsAtItsDeadlineWithoutARenewal(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *miniredis.Miniredis, locks redislock.Provider) {
		lock, err := locks.NewLock(t.Context(), "short", redislock.LockOptions{Expiration: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := lock.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-lock.Done()
		// The clock of the bubble stands still while something runs: exact.
		if took, want := time.Since(start), 10*time.Second-102*time.Millisecond; took != want {
			t.Fatalf("Done after %s, the lease less 1 %% and 2 ms is %s", took, want)
		}
		if err := lock.Err(); !redislock.IsLockError(err, redislock.ErrCodeLockLost) {
			t.Fatal(err)
		}
	})
}
