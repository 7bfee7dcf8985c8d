package main

import (
	"context"
	"errors"
	"fmt"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// lose takes the lock away from its holder. The holder is told while it works; what
// it still had on its way is refused, because somebody newer has written by then.
func (d *demo) lose(ctx context.Context) {
	working, told, newer, ended := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		d.loser(ctx, working, told, newer)
	}()
	d.after(ctx, working, ended, "operator", d.deleteOwner)
	d.after(ctx, told, ended, "winner", d.winner)
	close(newer)
	<-ended // ctx ends it at the latest
}

// after does something once the other worker has come to a point.
func (d *demo) after(ctx context.Context, point, ended <-chan struct{}, who string, do func(context.Context) error) {
	select {
	case <-point:
		if err := do(ctx); err != nil {
			d.failed(who, err)
		}
	case <-ended:
		d.failed(who, errors.New("the holder ended too early"))
	}
}

// loser holds the lock until it is told that it does not hold it any more.
func (d *demo) loser(ctx context.Context, working, told chan<- struct{}, newer <-chan struct{}) {
	const who = "LockContext"
	options := redislock.LockOptions{Expiration: shortLease, RenewalEnabled: true}
	err := redislock.LockContext(ctx, d.key, options, func(held context.Context, lock *redislock.RedisLock) error {
		d.acquired(who, "acquired, token %d, works until its context ends", lock.GetToken())
		d.section.pass(func() {
			close(working)
			<-held.Done()
		})
		if err := context.Cause(held); !errors.Is(err, redislock.ErrLockLost) {
			return fmt.Errorf("its context ended for another reason: %w", err)
		}
		d.lost(who, context.Cause(held))
		close(told)
		<-newer
		d.write(who, lock.GetToken()) // as a request does that was under way already
		return nil
	})
	switch {
	case !errors.Is(err, redislock.ErrLockLost):
		d.failed(who, fmt.Errorf("returned %w instead of the loss", orNil(err)))
	default:
		d.say(who, "returned the loss as its error, too")
	}
}

// deleteOwner is the accident: a failover or an operator loses the lock's key.
func (d *demo) deleteOwner(ctx context.Context) error {
	n, err := d.peer.Del(ctx, redislock.HashTag(d.key)+":owner").Result()
	if err != nil {
		return err
	}
	d.say("operator", "deleted the owner key (%d)", n)
	return nil
}

// winner takes the lock after the loss and writes with a newer token.
func (d *demo) winner(ctx context.Context) error {
	const who = "winner"
	return redislock.LockWithToken(ctx, d.key, lease, func(token int64) error {
		d.acquired(who, "acquired, token %d", token)
		d.section.pass(func() { d.write(who, token) })
		return nil
	})
}

func orNil(err error) error {
	if err == nil {
		return errors.New("no error")
	}
	return err
}
