package renewal

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// rueidisKeeper: the library renews by itself, every half lease.
type rueidisKeeper struct {
	locks rueidislock.Locker
	mu    sync.Mutex // guards held
	held  []rueidisHold
}

type rueidisHold struct {
	ctx    context.Context
	cancel context.CancelFunc
}

func openRueidis(t Target, ttl time.Duration) (Keeper, error) {
	locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: t.Addrs},
		KeyMajority:  1, KeyValidity: ttl, NoLoopTracking: true,
		TryNextAfter: 5 * time.Second, // its 20 ms are too little for a call among 64 on a busy machine
	})
	return &rueidisKeeper{locks: locks}, err
}

func (k *rueidisKeeper) Take(ctx context.Context, key string) error {
	held, cancel, err := k.locks.WithContext(ctx, key)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held = append(k.held, rueidisHold{held, cancel})
	return nil
}

func (k *rueidisKeeper) RedisKey(key string) string { return "rueidislock:0:" + key }

func (k *rueidisKeeper) ToldLost() int {
	lost := 0
	for _, h := range k.held {
		if h.ctx.Err() != nil {
			lost++
		}
	}
	return lost
}

func (k *rueidisKeeper) Drop(context.Context) {
	_ = forEach(k.held, takers, func(h rueidisHold) error { h.cancel(); return nil })
	k.locks.Close()
}

// bsmKeeper: the library does not renew; its users start a goroutine for each lock.
type bsmKeeper struct {
	client redis.UniversalClient
	locks  *redislock.Client
	ttl    time.Duration
	lost   atomic.Int64
	stop   chan struct{}
	all    sync.WaitGroup
}

func openBsm(t Target, ttl time.Duration) (Keeper, error) {
	client := t.Client()
	return &bsmKeeper{client: client, locks: redislock.New(client), ttl: ttl, stop: make(chan struct{})}, nil
}

func (k *bsmKeeper) Take(ctx context.Context, key string) error {
	lock, err := k.locks.Obtain(ctx, key, k.ttl, nil)
	if err != nil {
		return err
	}
	k.all.Go(func() { k.keep(lock) }) // ended and awaited by Drop
	return nil
}

// keep renews every half lease, as rueidislock does.
func (k *bsmKeeper) keep(lock *redislock.Lock) {
	ctx := context.Background()
	tick := time.NewTicker(k.ttl / 2)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if lock.Refresh(ctx, k.ttl, nil) != nil {
				k.lost.Add(1)
				return
			}
		case <-k.stop:
			_ = lock.Release(ctx)
			return
		}
	}
}

func (k *bsmKeeper) RedisKey(key string) string { return key }
func (k *bsmKeeper) ToldLost() int              { return int(k.lost.Load()) }

func (k *bsmKeeper) Drop(context.Context) {
	close(k.stop)
	k.all.Wait()
	_ = k.client.Close()
}
