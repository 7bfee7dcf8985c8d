package redislock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// BenchmarkPair is what a free lock costs beside what no lock on two scripts can
// beat: two EVALSHA of a script that returns 1, on the same client. The machine is
// noisy, so both are measured in one run, in turns, and reported as a ratio.
func BenchmarkPair(b *testing.B) {
	client := redistest.Start(b).Client(b)
	ctx := context.Background()
	two := twoScripts(ctx, client)
	lock, err := redislock.NewProvider(client).NewLock(ctx, "bench", redislock.DefaultLockOptions)
	if err != nil {
		b.Fatal(err)
	}
	pair := func() error { return takeAndLeave(ctx, lock) }
	timed := func(n int, f func() error) time.Duration {
		start := time.Now()
		for range n {
			if err := f(); err != nil {
				b.Fatal(err)
			}
		}
		return time.Since(start)
	}
	timed(1000, pair)
	timed(1000, two)
	const block = 50
	var ours, theirs time.Duration
	b.ResetTimer()
	for n := 0; n < b.N; n += block {
		ours += timed(block, pair)
		theirs += timed(block, two)
	}
	b.ReportMetric(float64(ours)/float64(theirs), "ratio")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkAllocations counts the allocations of one acquire and one release, and
// of the floor.
func BenchmarkAllocations(b *testing.B) {
	client := redistest.Start(b).Client(b)
	ctx := context.Background()
	b.Run("pair", func(b *testing.B) {
		lock, err := redislock.NewProvider(client).NewLock(ctx, "bench", redislock.DefaultLockOptions)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if err := takeAndLeave(ctx, lock); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("two EVALSHA", func(b *testing.B) {
		two := twoScripts(ctx, client)
		b.ReportAllocs()
		for b.Loop() {
			if err := two(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// takeAndLeave is the pair of calls that is measured.
func takeAndLeave(ctx context.Context, lock *redislock.RedisLock) error {
	if err := lock.Acquire(ctx); err != nil {
		return err
	}
	return lock.Release(ctx)
}

// twoScripts is the floor under that pair.
func twoScripts(ctx context.Context, client *redis.Client) func() error {
	trivial := client.ScriptLoad(ctx, "return 1").Val()
	return func() error {
		for range 2 {
			if err := client.EvalSha(ctx, trivial, []string{"bench"}).Err(); err != nil {
				return err
			}
		}
		return nil
	}
}
