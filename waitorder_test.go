package redislock_test

import (
	"context"
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// Nothing but luck would order the waiters of two lines: there are several rounds.
func TestWaitersOfTwoProvidersOverOneClientGoInTheOrderTheyCame(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	options := faultOptions(10 * time.Second)
	providers := []redislock.Provider{redislock.NewProvider(r.direct), redislock.NewProvider(r.direct)}
	holder := r.lock(t, providers[0], options)
	for round := range 8 {
		must(t, "Acquire", holder.Acquire(t.Context()))
		order := make(chan int, len(providers))
		over := make([]<-chan error, len(providers))
		for i, provider := range providers {
			waiter := r.lock(t, provider, options)
			over[i] = async(func() error {
				if err := waiter.AcquireWait(context.Background()); err != nil {
					return err
				}
				order <- i
				return waiter.Release(context.Background())
			})
			time.Sleep(120 * time.Millisecond) // the one behind sends nothing that could be seen
		}
		must(t, "Release", holder.Release(t.Context()))
		for _, done := range over {
			must(t, "a waiter", closes(t, "the end of a waiter", done))
		}
		if first := <-order; first != 0 {
			t.Fatalf("round %d: who came last acquired first", round)
		}
	}
}
