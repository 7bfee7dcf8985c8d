package renewal

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// ours keeps locks as a program does that acquires them with renewal on.
type ours struct {
	client  redis.UniversalClient
	locks   redislock.Provider
	options redislock.LockOptions

	mu   sync.Mutex // guards held
	held []*redislock.RedisLock
}

func openOurs(t Target, ttl time.Duration) (Keeper, error) {
	options := redislock.DefaultLockOptions
	options.Expiration = ttl
	return newOurs(t, options), nil
}

func newOurs(t Target, options redislock.LockOptions) *ours {
	client := t.Client()
	return &ours{client: client, locks: redislock.NewProvider(client), options: options}
}

func (o *ours) Take(ctx context.Context, key string) error {
	lock, err := o.locks.NewLock(ctx, key, o.options)
	if err != nil {
		return err
	}
	if err := lock.Acquire(ctx); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held = append(o.held, lock)
	return nil
}

func (o *ours) RedisKey(key string) string { return redislock.HashTag(key) + ":owner" }

func (o *ours) ToldLost() int {
	lost := 0
	for _, lock := range o.held {
		if lock.Err() != nil {
			lost++
		}
	}
	return lost
}

func (o *ours) Drop(ctx context.Context) {
	_ = forEach(o.held, takers, func(l *redislock.RedisLock) error {
		_ = l.Release(ctx) // what is lost already cannot be released
		return nil
	})
	_ = o.client.Close()
}
