package redislock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// BenchmarkFreeLocks is how many free locks many goroutines take and release in the
// time of two EVALSHA each on the plain client; more than 1 is faster than that. Both
// are measured in turns.
func BenchmarkFreeLocks(b *testing.B) {
	client := redistest.Start(b).Client(b)
	ctx := context.Background()
	two := twoScripts(ctx, client)
	p := redislock.NewProvider(client)
	for _, goroutines := range []int{1, 8, 16, 32, 64, 512} {
		b.Run(fmt.Sprint(goroutines), func(b *testing.B) {
			locks := make([]*redislock.RedisLock, goroutines)
			for i := range locks {
				var err error
				if locks[i], err = p.NewLock(ctx, fmt.Sprint("bench-", i), redislock.DefaultLockOptions); err != nil {
					b.Fatal(err)
				}
			}
			pair := func(i int) error { return takeAndLeave(ctx, locks[i]) }
			floor := func(int) error { return two() }
			const each = 40
			var ours, theirs time.Duration
			for n := 0; n < b.N; n += each * goroutines {
				ours += together(b, goroutines, each, pair)
				theirs += together(b, goroutines, each, floor)
			}
			b.ReportMetric(float64(theirs)/float64(ours), "floors")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// together is how long the goroutines take, each for so many calls.
func together(b *testing.B, goroutines, each int, call func(i int) error) time.Duration {
	var all sync.WaitGroup
	start := time.Now()
	for i := range goroutines {
		all.Go(func() {
			for range each {
				if err := call(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return time.Since(start)
}
