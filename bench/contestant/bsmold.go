package contestant

import (
	"context"
	"time"

	redislock094 "github.com/bsm/redislock094"
	"github.com/redis/go-redis/v9"
)

// bsmOld is the release before, by the alias that go.mod makes for it. The types of
// both are different ones, so the code is written twice.
func bsmOld(name string, pause time.Duration) Contestant {
	return Contestant{
		Name: name, Kind: Peer,
		Open: func(addr string) (Session, error) {
			client := newClient(addr)
			options := &redislock094.Options{RetryStrategy: redislock094.LinearBackoff(pause)}
			return &bsmOldSession{client, redislock094.New(client), options}, nil
		},
	}
}

type bsmOldSession struct {
	client  *redis.Client
	locks   *redislock094.Client
	options *redislock094.Options
}

func (s *bsmOldSession) Close() error { return s.client.Close() }

func (s *bsmOldSession) Locker(key string) (Locker, error) {
	return &bsmOldLocker{bsmOldSession: s, key: key}, nil
}

type bsmOldLocker struct {
	*bsmOldSession
	key  string
	lock *redislock094.Lock
}

func (l *bsmOldLocker) Lock(ctx context.Context) (err error) {
	l.lock, err = l.locks.Obtain(ctx, l.key, lease, l.options)
	return err
}

func (l *bsmOldLocker) Unlock(ctx context.Context) error { return l.lock.Release(ctx) }
