package redislock

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/go-lynx/lynx-redis-lock/internal/waitq"
)

// longestPoll bounds how long the first waiter of a process sleeps between two
// tries, so that it notices a release before the lease's end.
const longestPoll = 50 * time.Millisecond

// AcquireWait waits for the lock until ctx ends. The process's waiters for a key are
// served in the order in which they came. On a lock this instance holds it is a
// reentry. It knows no WaitTimeout: ctx is the bound.
func (rl *RedisLock) AcquireWait(ctx context.Context) (err error) {
	if err := rl.ready(ctx); err != nil {
		return err
	}
	defer func(start time.Time) { recordWait(err, time.Since(start)) }(time.Now())
	return rl.wait(ctx)
}

// acquireByOptions is how the Lock… functions acquire.
func (rl *RedisLock) acquireByOptions(ctx context.Context) (err error) {
	limit := rl.opts.WaitTimeout
	switch {
	case limit == 0:
		return rl.AcquireWithRetry(ctx, rl.opts.RetryStrategy)
	case limit < 0:
		return rl.AcquireWait(ctx)
	}
	defer func(start time.Time) { recordWait(err, time.Since(start)) }(time.Now())
	bounded, cancel := context.WithTimeoutCause(ctx, limit, errWaitTimeout)
	defer cancel()
	err = rl.wait(bounded)
	if err == nil || ended(ctx) != nil || ended(bounded) == nil {
		return err
	}
	if !IsLockError(err, ErrCodeLockAcquireConflict) && !IsLockError(err, ErrCodeLockAcquireFailed) {
		err = newError(ErrLockAcquireConflict, err, "others were before this waiter")
	}
	return newError(ErrLockAcquireTimeout, err, "waited %s for %q", limit, rl.key)
}

var errWaitTimeout = errors.New("WaitTimeout has passed")

// waitKey names a line of waiters: those of this process for one key of one client.
type waitKey struct {
	client any
	key    string
}

var waiters waitq.Queues[waitKey]

// wait takes its place in the process's line for the key and tries when its turn
// has come. What it waits for never keeps another goroutine of this instance out.
func (rl *RedisLock) wait(ctx context.Context) error {
	if h := rl.current(); h != nil && (h.trusted() || h.untoldLoss()) {
		if tried := rl.try(ctx); !tried.again {
			return tried.err
		}
	}
	m, err := rl.source.manager()
	if err != nil {
		return err
	}
	place := waiters.Join(waitKey{m.id, rl.key})
	defer place.Leave()
	var refused error
	for generation := process.drained.Load(); ; {
		begun := rl.nextHold()
		if rl.Err() != nil { // else this instance has it by now, and the try is a reentry
			select {
			case <-place.Turn():
			case <-begun:
			case <-ctx.Done():
				return endedBy(ctx, rl.key, refused)
			}
		}
		if generation != process.drained.Load() { // also when that Shutdown is over
			return stopping()
		}
		tried := rl.try(ctx)
		if IsLockError(tried.err, ErrCodeLockAcquireConflict) {
			refused = tried.err
		}
		switch {
		case tried.err != nil && ended(ctx) != nil:
			return endedBy(ctx, rl.key, cmp.Or(refused, tried.err))
		case !tried.again:
			return tried.err
		case !pause(ctx, poll(tried.left), begun):
			return endedBy(ctx, rl.key, cmp.Or(refused, tried.err))
		}
	}
}

// poll is how long the first waiter sleeps: until the holder's lease ends, at most
// longestPoll, with a jitter so that processes do not try in step.
func poll(left time.Duration) time.Duration {
	d := longestPoll
	if left >= 0 {
		d = min(d, left+time.Millisecond)
	}
	return time.Duration((0.5 + rand.Float64()/2) * float64(max(d, time.Millisecond)))
}

// pause is false when ctx ended first; early ends it before its time.
func pause(ctx context.Context, d time.Duration, early <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-early:
		return true
	case <-ctx.Done():
		return false
	}
}
