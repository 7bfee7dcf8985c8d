package contestant

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

func bsm(name string, pause time.Duration) Contestant {
	return Contestant{
		Name: name, Kind: Peer,
		Open: func(addr string) (Session, error) {
			client := newClient(addr)
			options := &redislock.Options{RetryStrategy: redislock.LinearBackoff(pause)}
			return &bsmSession{client, redislock.New(client), options}, nil
		},
	}
}

type bsmSession struct {
	client  *redis.Client
	locks   *redislock.Client
	options *redislock.Options
}

func (s *bsmSession) Close() error { return s.client.Close() }

func (s *bsmSession) Locker(key string) (Locker, error) {
	return &bsmLocker{bsmSession: s, key: key}, nil
}

type bsmLocker struct {
	*bsmSession
	key  string
	lock *redislock.Lock
}

func (l *bsmLocker) Lock(ctx context.Context) (err error) {
	l.lock, err = l.locks.Obtain(ctx, l.key, lease, l.options)
	return err
}

func (l *bsmLocker) Unlock(ctx context.Context) error { return l.lock.Release(ctx) }
