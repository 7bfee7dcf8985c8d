// Package renewal measures what it costs to keep many leases alive.
package renewal

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Target is where locks are kept.
type Target struct {
	Addrs   []string
	Cluster bool
}

// Client is a go-redis client for many calls at once.
func (t Target) Client() redis.UniversalClient {
	const (
		pool    = 64               // above the renewals in flight, as the README advises
		patient = 30 * time.Second // a round begins with a server that is silent for seconds
	)
	return redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: t.Addrs, IsClusterMode: t.Cluster, PoolSize: pool, ReadTimeout: patient, WriteTimeout: patient,
	})
}

// Keeper takes locks and keeps them until it is told to drop them.
type Keeper interface {
	// Take takes one more lock. It is called by several goroutines.
	Take(ctx context.Context, key string) error
	// RedisKey is the key whose absence means that the lock is lost.
	RedisKey(key string) string
	// ToldLost is how many of the locks the keeper itself knows to be lost.
	ToldLost() int
	// Drop gives all up and ends every goroutine.
	Drop(ctx context.Context)
}

// Contestant is one way to keep locks.
type Contestant struct {
	Name string
	Open func(t Target, ttl time.Duration) (Keeper, error)
}

// The names that goals are about.
const (
	Ours     = "ours"
	Rueidis  = "rueidislock 1.0.79"
	Bsm      = "bsm 0.10.0, a goroutine each"
	Pipeline = "a bare pipeline in batches"
)

// Contestants are all.
func Contestants() []Contestant {
	return []Contestant{
		{Ours, openOurs}, {Rueidis, openRueidis}, {Bsm, openBsm}, {Pipeline, openPipeline},
	}
}

// takers is how many goroutines take locks at once.
const takers = 64

// takeTries: a call may run out of its own time on a busy machine, and is repeated.
const takeTries = 5

// keysOf are n keys, of 20 bytes with a name of 9.
func keysOf(name string, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s-%010d", name, i)
	}
	return keys
}

func takeAll(ctx context.Context, k Keeper, keys []string) error {
	return forEach(keys, takers, func(key string) (err error) {
		for range takeTries {
			if err = k.Take(ctx, key); err == nil {
				return nil
			}
		}
		return err
	})
}

// forEach calls do for every item, in several goroutines, and returns the first error.
func forEach[T any](items []T, workers int, do func(T) error) error {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for failed.Load() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(items) {
					return
				}
				if err := do(items[i]); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// missing is how many of the locks Redis no longer has.
func missing(ctx context.Context, client redis.UniversalClient, k Keeper, keys []string) (int, error) {
	const batch = 1000
	gone := 0
	for len(keys) > 0 {
		some := keys[:min(batch, len(keys))]
		keys = keys[len(some):]
		cmds, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, key := range some {
				p.Exists(ctx, k.RedisKey(key))
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		for _, cmd := range cmds {
			if cmd.(*redis.IntCmd).Val() == 0 {
				gone++
			}
		}
	}
	return gone, nil
}
