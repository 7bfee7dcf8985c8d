package redislock_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// granting answers every script at once, without a server: what is measured is the
// process's own part.
type granting struct{ token atomic.Int64 }

func (g *granting) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *granting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (g *granting) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		cmd.(interface{ SetVal(any) }).SetVal([]any{int64(1), g.token.Add(1)})
		return nil
	}
}

func grantingProvider(tb testing.TB) redislock.Provider {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ContextTimeoutEnabled: true})
	client.AddHook(new(granting))
	tb.Cleanup(func() { _ = client.Close() })
	return redislock.NewProvider(client)
}

// heldLocks takes n renewed locks of which none falls due.
func heldLocks(tb testing.TB, p redislock.Provider, n int) []*redislock.RedisLock {
	tb.Helper()
	options := redislock.DefaultLockOptions
	options.Expiration = time.Hour
	locks := make([]*redislock.RedisLock, n)
	for i := range locks {
		lock, err := p.NewLock(context.Background(), fmt.Sprint("lock-", i), options)
		if err == nil {
			err = lock.Acquire(context.Background())
		}
		if err != nil {
			tb.Fatal(err)
		}
		locks[i] = lock
	}
	return locks
}

func release(tb testing.TB, locks []*redislock.RedisLock) {
	tb.Helper()
	for _, lock := range locks {
		if err := lock.Release(context.Background()); err != nil {
			tb.Fatal(err)
		}
	}
}

// BenchmarkAmong is one acquire and release beside so many renewed locks.
func BenchmarkAmong(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := grantingProvider(b)
			others := heldLocks(b, p, n)
			lock, err := p.NewLock(context.Background(), "one more", redislock.DefaultLockOptions)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := lock.Acquire(context.Background()); err != nil {
					b.Fatal(err)
				}
				if err := lock.Release(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			release(b, others)
		})
	}
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkMemory is what a held, renewed lock takes in the process, its instance
// and its key included.
func BenchmarkMemory(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				p := grantingProvider(b)
				release(b, heldLocks(b, p, 100)) // what the package keeps anyhow
				before := heapInUse()
				locks := heldLocks(b, p, n)
				grown := heapInUse() - before
				b.ReportMetric(float64(grown)/float64(n)-8, "B/lock") // 8: of the slice here
				release(b, locks)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
