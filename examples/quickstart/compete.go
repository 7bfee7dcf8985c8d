package main

import (
	"context"
	"errors"
	"sync"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

const (
	rounds = 5                     // of each of the four workers
	lease  = 3 * time.Second       // of a short section
	work   = 10 * time.Millisecond // a short section's length
)

// compete lets four workers go for one key, each by another way to take a lock.
func (d *demo) compete(ctx context.Context) {
	var workers sync.WaitGroup
	workers.Go(func() { d.repeat(ctx, "Lock", d.byLock) })
	workers.Go(func() { d.repeat(ctx, "LockWithToken", d.byToken) })
	workers.Go(func() { d.repeat(ctx, "NewLock", d.reentrant) })
	workers.Go(func() { d.repeat(ctx, "Provider", d.injected) })
	workers.Wait()
}

// repeat is one worker's rounds. That another worker has the lock is no failure.
func (d *demo) repeat(ctx context.Context, who string, once func(context.Context) error) {
	for n := 0; n < rounds; {
		err := once(ctx)
		switch {
		case err == nil:
			n++
		case errors.Is(err, redislock.ErrLockLost):
			d.lost(who, err)
			n++
		case errors.Is(err, redislock.ErrLockAcquireConflict) && ctx.Err() == nil:
			d.say(who, "found it busy, tries again")
		default:
			d.failed(who, err)
			return
		}
	}
}

// byLock is the shortest way: a key, a lease, a function.
func (d *demo) byLock(ctx context.Context) error {
	return redislock.Lock(ctx, d.key, lease, func() error {
		d.pass(ctx, "Lock")
		return nil
	})
}

// byToken gets a fencing token and writes with it.
func (d *demo) byToken(ctx context.Context) error {
	return redislock.LockWithToken(ctx, d.key, lease, func(token int64) error {
		d.pass(ctx, "LockWithToken")
		d.write("LockWithToken", token)
		return nil
	})
}

// reentrant takes a lock it holds a second time: two acquisitions, two releases.
func (d *demo) reentrant(ctx context.Context) (err error) {
	lock, err := redislock.NewLock(ctx, d.key, redislock.LockOptions{Expiration: lease, RenewalEnabled: true})
	if err != nil {
		return err
	}
	if err := lock.AcquireWait(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release(ctx)) }()
	d.pass(ctx, "NewLock")
	if err := lock.Acquire(ctx); err != nil {
		return err
	}
	d.acquired("NewLock", "acquired again, token still %d", lock.GetToken())
	return lock.Release(ctx)
}

// injected is a call into a service of the application.
func (d *demo) injected(ctx context.Context) error {
	return d.reports.write(ctx, func() error {
		d.pass(ctx, "Provider")
		return nil
	})
}

// reports is a service as applications have them: its locks are injected, so that a
// test of the service can pass a mock.
type reports struct {
	locks redislock.Provider
	key   string
}

func (r reports) write(ctx context.Context, fn func() error) error {
	options := redislock.DefaultLockOptions
	options.Expiration, options.WaitTimeout = lease, 5*time.Second // waits in line, does not poll
	return r.locks.LockWithOptions(ctx, r.key, options, fn)
}

// pass is a short section, entered with the lock held.
func (d *demo) pass(ctx context.Context, who string) {
	d.acquired(who, "acquired")
	middle := d.seen.short.Add(1) == 2*rounds
	d.section.pass(func() {
		if middle && d.disturb != nil {
			d.disturb()
		}
		sleep(ctx, work)
	})
}

// acquired counts an acquisition.
func (d *demo) acquired(who, format string, args ...any) {
	d.seen.acquired.Add(1)
	d.say(who, format, args...)
}

// lost counts a worker that was told its lease had ended under it.
func (d *demo) lost(who string, err error) {
	d.seen.lost.Add(1)
	d.say(who, "noticed its loss: %v", err)
}
