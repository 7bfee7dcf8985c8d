package renewal

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/bench/measure"
)

// Round is what it took to renew many locks once, per lock: by the library, all of
// them due, and by one EVALSHA for each from 50 goroutines.
type Round struct {
	Locks                        int
	Ours, Single                 time.Duration // for all of them
	OursCPU, SingleCPU           time.Duration // of the process
	OursRedisCPU, SingleRedisCPU time.Duration
}

// singleWorkers is how many goroutines renew one lock each.
const singleWorkers = 50

// Freezer stops the servers and lets them go on.
type Freezer interface {
	Pause()
	Resume()
}

// Rounds makes all n locks fall due while the servers are stopped, and measures from
// the moment they go on until the library has renewed all, count times. Nothing but the
// public API is needed for it: locks with a threshold of 1 fall due when half their
// lease is left.
func (r *Rig) Rounds(ctx context.Context, servers Freezer, n, count int, ttl time.Duration) ([]Round, error) {
	var rounds []Round
	for range count {
		one, err := r.round(ctx, servers, n, ttl)
		if err != nil {
			return rounds, err
		}
		rounds = append(rounds, one)
	}
	return rounds, nil
}

func (r *Rig) round(ctx context.Context, servers Freezer, n int, ttl time.Duration) (Round, error) {
	if err := r.Server.Flush(ctx); err != nil {
		return Round{}, err
	}
	options := redislock.DefaultLockOptions
	options.Expiration, options.RenewalThreshold = ttl, 1
	options.RenewalConfig.CallTimeout = ttl // outlives the silence
	k := newOurs(r.Target, options)
	defer k.Drop(ctx)
	begun, renewed := time.Now(), redislock.GetStats()["renewal_count"]
	if err := takeAll(ctx, k, keysOf("bench-key", n)); err != nil {
		return Round{}, err
	}
	taken := time.Now()
	one := Round{Locks: n}
	if err := r.single(ctx, k, ttl, &one); err != nil {
		return one, err
	}
	time.Sleep(time.Until(begun.Add(ttl * 35 / 100))) // before the first is due, whatever its jitter
	early := redislock.GetStats()["renewal_count"] - renewed
	redisCPU, err := r.Server.CPU(ctx)
	if err != nil {
		return one, err
	}
	servers.Pause()
	time.Sleep(time.Until(taken.Add(ttl * 53 / 100))) // all are due by now
	before := measure.Used()
	servers.Resume()
	took, err := awaitRenewals(renewed+int64(n), ttl/3)
	if err != nil {
		return one, fmt.Errorf("%d locks, %d renewed before: %w", n, early, err)
	}
	cpu := measure.Used().Since(before).CPU
	after, err := r.Server.CPU(ctx)
	if err != nil {
		return one, err
	}
	// Those renewed before the silence, if any, were not part of it.
	share := float64(n) / float64(int64(n)-early)
	scale := func(d time.Duration) time.Duration { return time.Duration(float64(d) * share) }
	one.Ours, one.OursCPU, one.OursRedisCPU = scale(took), scale(cpu), scale(after-redisCPU)
	return one, nil
}

// awaitRenewals waits until so many renewals were counted.
func awaitRenewals(count int64, limit time.Duration) (time.Duration, error) {
	start := time.Now()
	for {
		got := redislock.GetStats()["renewal_count"]
		if took := time.Since(start); got >= count {
			return took, nil
		} else if took > limit {
			return took, fmt.Errorf("%d renewals are missing after %v", count-got, took)
		}
		time.Sleep(200 * time.Microsecond)
	}
}

// single renews the same locks by one call each.
func (r *Rig) single(ctx context.Context, k *ours, ttl time.Duration, one *Round) error {
	sha, err := loadScript(ctx, k.client, renewSource)
	if err != nil {
		return err
	}
	redisCPU, err := r.Server.CPU(ctx)
	if err != nil {
		return err
	}
	before, start := measure.Used(), time.Now()
	err = forEach(k.held, singleWorkers, func(l *redislock.RedisLock) error {
		return renewOne(ctx, k, sha, l, ttl)
	})
	one.Single, one.SingleCPU = time.Since(start), measure.Used().Since(before).CPU
	if err != nil {
		return err
	}
	after, err := r.Server.CPU(ctx)
	one.SingleRedisCPU = after - redisCPU
	return err
}

func renewOne(ctx context.Context, k *ours, sha string, l *redislock.RedisLock, ttl time.Duration) error {
	key := k.RedisKey(l.GetKey())
	n, err := k.client.EvalSha(ctx, sha, []string{key}, l.GetValue(), ttl.Milliseconds()).Int()
	if err == nil && n != 1 {
		return fmt.Errorf("%s is not ours: %w", key, redis.Nil)
	}
	return err
}
