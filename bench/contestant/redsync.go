package contestant

import (
	"context"
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// redsyncRecommended keeps the library's own pause of 50 to 250 ms.
var redsyncRecommended = redsyncWith(Redsync)

var redsyncAggressive = redsyncWith(Redsync+", aggressive",
	redsync.WithRetryDelayFunc(func(int) time.Duration { return jitter(aggressive) }))

// redsyncWith never gives up: by itself the library does after 32 tries.
func redsyncWith(name string, options ...redsync.Option) Contestant {
	options = append(options, redsync.WithExpiry(lease), redsync.WithTries(math.MaxInt32))
	return Contestant{
		Name: name, Kind: Peer,
		Open: func(addr string) (Session, error) {
			client := newClient(addr)
			return &redsyncSession{client, redsync.New(goredis.NewPool(client)), options}, nil
		},
	}
}

type redsyncSession struct {
	client  *redis.Client
	locks   *redsync.Redsync
	options []redsync.Option
}

func (s *redsyncSession) Close() error { return s.client.Close() }

func (s *redsyncSession) Locker(key string) (Locker, error) {
	return redsyncLocker{s.locks.NewMutex(key, s.options...)}, nil
}

type redsyncLocker struct{ mutex *redsync.Mutex }

func (l redsyncLocker) Lock(ctx context.Context) error { return l.mutex.LockContext(ctx) }

func (l redsyncLocker) Unlock(ctx context.Context) error {
	_, err := l.mutex.UnlockContext(ctx)
	return err
}
