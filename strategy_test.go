package redislock_test

import (
	"context"
	"math"
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// The jitter of such a delay overflows when it is added carelessly, half of the
// time: there are several rounds.
func TestAHugeRetryDelayIsNotTurnedIntoNone(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	must(t, "SET", r.direct.Set(t.Context(), r.redisKey(":owner"), "another", time.Minute).Err())
	lock := r.lock(t, r.ours, faultOptions(5*time.Second))
	acquire := requestsOf(t, "acquire")
	strategy := redislock.RetryStrategy{MaxRetries: 100000, RetryDelay: math.MaxInt64}
	for range 12 {
		before := r.proxy.Count(acquire)
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
		failsAs(t, "AcquireWithRetry", lock.AcquireWithRetry(ctx, strategy), redislock.ErrLockAcquireTimeout)
		cancel()
		attempts, n := map[string]bool{}, 0 // by their values: one whose answer is late is sent twice
		r.proxy.Count(func(cmd []string) bool {
			if acquire(cmd) {
				if n++; n > before {
					attempts[cmd[7]] = true
				}
			}
			return false
		})
		if len(attempts) > 1 {
			t.Fatalf("a RetryDelay of %s: %d attempts in 60 ms", strategy.RetryDelay, len(attempts))
		}
	}
}
