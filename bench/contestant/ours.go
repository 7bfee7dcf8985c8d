package contestant

import (
	"context"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// All of ours but one run with DefaultLockOptions: renewal, timeout and metrics are on.
var (
	oursAcquire   = once(ours(OursAcquire, redislock.DefaultLockOptions, (*redislock.RedisLock).Acquire))
	oursUnrenewed = once(ours("ours, without renewal", unrenewed(), (*redislock.RedisLock).Acquire))
	oursWait      = ours(OursWait, redislock.DefaultLockOptions, (*redislock.RedisLock).AcquireWait)
)

func unrenewed() redislock.LockOptions {
	options := redislock.DefaultLockOptions
	options.RenewalEnabled = false
	return options
}

func once(c Contestant) Contestant {
	c.Once = true
	return c
}

func oursRetry(name string, pause time.Duration) Contestant {
	strategy := redislock.RetryStrategy{MaxRetries: math.MaxInt32, RetryDelay: pause}
	return ours(name, redislock.DefaultLockOptions, func(l *redislock.RedisLock, ctx context.Context) error {
		return l.AcquireWithRetry(ctx, strategy)
	})
}

func ours(name string, options redislock.LockOptions, lock func(*redislock.RedisLock, context.Context) error) Contestant {
	return Contestant{
		Name: name, Kind: Ours,
		Open: func(addr string) (Session, error) {
			client := newClient(addr)
			return &oursSession{client, redislock.NewProvider(client), options, lock}, nil
		},
	}
}

type oursSession struct {
	client  *redis.Client
	locks   redislock.Provider
	options redislock.LockOptions
	lock    func(*redislock.RedisLock, context.Context) error
}

func (s *oursSession) Close() error { return s.client.Close() }

func (s *oursSession) Locker(key string) (Locker, error) {
	l, err := s.locks.NewLock(context.Background(), key, s.options)
	return &oursLocker{l, s.lock}, err
}

type oursLocker struct {
	instance *redislock.RedisLock
	lock     func(*redislock.RedisLock, context.Context) error
}

func (l *oursLocker) Lock(ctx context.Context) error { return l.lock(l.instance, ctx) }

func (l *oursLocker) Unlock(ctx context.Context) error { return l.instance.Release(ctx) }
