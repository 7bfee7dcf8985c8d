package contestant

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// rueidisLock is the library on one server: a majority of one key, and without
// notices of its own writes, which it recommends from Redis 7.0.5 on. When an answer
// takes longer than its default of 20 ms, a call waits for a notice that never comes.
var rueidisLock = rueidisWith(0)

// rueidisWith waits for an answer for patience; 0: the default.
func rueidisWith(patience time.Duration) Contestant {
	return Contestant{
		Name: Rueidis, Kind: Peer, Sleeps: patience == 0,
		Open: func(addr string) (Session, error) {
			locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
				ClientOption: rueidis.ClientOption{InitAddress: []string{addr}},
				KeyMajority:  1, KeyValidity: lease, NoLoopTracking: true, TryNextAfter: patience,
			})
			return rueidisSession{locks}, err
		},
	}
}

type rueidisSession struct{ locks rueidislock.Locker }

func (s rueidisSession) Close() error { s.locks.Close(); return nil }

func (s rueidisSession) Locker(key string) (Locker, error) {
	return &rueidisLocker{locks: s.locks, key: key}, nil
}

type rueidisLocker struct {
	locks  rueidislock.Locker
	key    string
	cancel context.CancelFunc
}

func (l *rueidisLocker) Lock(ctx context.Context) (err error) {
	_, l.cancel, err = l.locks.WithContext(ctx, l.key)
	return err
}

// Unlock returns when the key is deleted.
func (l *rueidisLocker) Unlock(context.Context) error { l.cancel(); return nil }
