package redislock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

const (
	// longestPoll bounds how long a waiter that is not told sleeps between two tries.
	longestPoll = 50 * time.Millisecond
	// longestNap bounds how long one that is told does, for every line of waiters in
	// the process up to napLines: a lost word costs no more.
	longestNap = 2 * time.Second
	napLines   = 1000
	noTTLNap   = time.Second // beside an owner without a TTL, whom only its holder can end
	napJitter  = 20 * time.Millisecond
	// untoldMemory is how long holders that tell nobody are expected again.
	untoldMemory = time.Minute
)

// AcquireWait waits for the lock until ctx ends. The process's waiters for a key are
// served in the order in which they came, and so are the processes; whoever polls
// comes in between. It is woken by the release; when nobody tells it (the published
// version does not) it tries when the holder's lease ends, and every 2 s, or every
// 50 ms once it has seen holders change without a word. On a lock this instance holds
// it is a reentry. It knows no WaitTimeout: ctx is the bound.
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
	return newError(ErrLockAcquireTimeout, err, "waited %s for %q", limit, rl.GetKey())
}

var errWaitTimeout = errors.New("WaitTimeout has passed")

// poll is how long a waiter sleeps that is not told: until the holder's lease ends,
// at most longestPoll, with a jitter so that processes do not try in step.
func poll(left time.Duration) time.Duration {
	d := longestPoll
	if left >= 0 {
		d = min(d, left+time.Millisecond)
	}
	return time.Duration((0.5 + rand.Float64()/2) * float64(max(d, time.Millisecond)))
}

// untold is what a waiter makes of holders that come and go although it, the next to
// be told, is told nothing: those of the published version. From then on it looks
// every longestPoll, and half as often each time the holder is still the same.
type untold struct {
	holder string        // seen last, while the waiter was the next
	nap    time.Duration // to the next look; 0: it relies on being told
}

func (u *untold) note(holder string, told bool) (changed bool) {
	changed = !told && holder != "" && u.holder != "" && holder != u.holder
	u.holder = holder
	switch {
	case changed, told && u.nap > 0: // told, and still refused: somebody else was there
		u.nap = longestPoll
	case u.nap >= longestNap:
		u.nap = 0
	default:
		u.nap *= 2
	}
	return changed
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
