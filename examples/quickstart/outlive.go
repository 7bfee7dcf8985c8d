package main

import (
	"context"
	"errors"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

const (
	shortLease = time.Second
	longWork   = 1800 * time.Millisecond
)

// outlive holds the lock longer than its lease: it is renewed, and a rival that
// comes after the lease's time is still refused.
func (d *demo) outlive(ctx context.Context) {
	const who = "long section"
	before := d.seen.renewed.Load()
	err := redislock.Lock(ctx, d.key, shortLease, func() error {
		d.acquired(who, "acquired for %s, works for %s", shortLease, longWork)
		d.section.pass(func() {
			sleep(ctx, longWork)
			d.rival(ctx)
		})
		return nil
	})
	switch {
	case err != nil:
		d.failed(who, err)
	default:
		d.say(who, "done, renewed %d times", d.seen.renewed.Load()-before)
	}
}

// rival tries once, without retries, and should be refused.
func (d *demo) rival(ctx context.Context) {
	const who = "rival"
	err := redislock.LockWithOptions(ctx, d.key, redislock.LockOptions{Expiration: shortLease}, func() error {
		d.acquired(who, "acquired")
		d.section.pass(func() {})
		return nil
	})
	switch {
	case errors.Is(err, redislock.ErrLockAcquireConflict):
		d.say(who, "was refused: %v", err)
	case err != nil:
		d.failed(who, err)
	}
}

// renewals counts the renewals of the demo's lock.
type renewals struct {
	redislock.NoOpCallback
	demo *demo
}

// OnLockRenewed is called for each renewal.
func (r renewals) OnLockRenewed(key string, lease time.Duration) {
	if key == r.demo.key {
		r.demo.seen.renewed.Add(1)
		r.demo.say("renewal", "has %s again", lease)
	}
}
