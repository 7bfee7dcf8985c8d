package redislock

import (
	"context"
	"strconv"
	"time"

	"github.com/go-lynx/lynx-redis-lock/internal/lease"
	"github.com/go-lynx/lynx-redis-lock/internal/script"
	"github.com/go-lynx/lynx-redis-lock/internal/timeheap"
)

// attempt is what one try to acquire came to.
type attempt struct {
	err   error
	took  time.Duration
	lease time.Duration // when it was acquired
	freed *hold         // the last hold, whose release has got its answer only now
	// left is what the holder's lease has left, when the lock was refused; < 0: no TTL.
	left time.Duration
	// again: another try may succeed, the lock was refused or Redis did not answer.
	again  bool
	queued bool // the waiter's process is told when the lock is free
	// promised: it was told; after left, the lock is kept for it.
	promised bool
	holder   string // the hold that refused, when that process is the next to be told
	sure     bool   // it is Redis that has refused it
	handed   bool   // by a release in this process
}

// Acquire tries once to take the lock, or one more level of it when this instance
// holds it already, which also renews the lease.
//
// The error Is ErrLockAcquireConflict when another holder has it, ErrLockAcquireFailed
// (with the cause) when Redis failed or ctx was cancelled, ErrLockAcquireTimeout when
// ctx's deadline came, ErrRedisClientNotFound without a client,
// ErrRenewalServiceStopped while Shutdown runs. After a loss that no Release has
// reported, it Is ErrLockLost, once; the next call starts anew.
func (rl *RedisLock) Acquire(ctx context.Context) error {
	if err := rl.ready(ctx); err != nil {
		return err
	}
	return rl.try(ctx, nil).err
}

// AcquireWithRetry is Acquire, repeated by the strategy while the lock is held by
// another or Redis does not answer. An exhausted budget gives an error that Is
// ErrMaxRetriesExceeded and the last attempt's; MaxRetries 0 just the latter. A
// deadline that ends the wait gives ErrLockAcquireTimeout and context.DeadlineExceeded.
func (rl *RedisLock) AcquireWithRetry(ctx context.Context, strategy RetryStrategy) (err error) {
	if err := rl.ready(ctx); err != nil {
		return err
	}
	if err := strategy.Validate(); err != nil {
		return newError(ErrInvalidOptions, err, "retry strategy of lock %q", rl.GetKey())
	}
	defer func(start time.Time) { recordWait(err, time.Since(start)) }(time.Now())
	for n := 0; ; n++ {
		tried := rl.try(ctx, nil)
		switch {
		case !tried.again || strategy.MaxRetries == 0:
			return tried.err
		case n >= strategy.MaxRetries:
			return newError(ErrMaxRetriesExceeded, tried.err, "gave up on %q after %d attempts", rl.GetKey(), n+1)
		case !pause(ctx, strategy.delay(n), nil):
			return endedBy(ctx, rl.GetKey(), tried.err)
		}
	}
}

// announcement is what a waiter's try says besides. Its channel is "" while the waiter
// hears nothing.
type announcement struct{ channel, how string }

// Values of announcement.how; see scripts/acquire.lua.
const (
	announceProbe = "probe"
	announceSoon  = "soon"
)

// try is one attempt, with its sample and callback. waiting: it is a waiter's.
func (rl *RedisLock) try(ctx context.Context, waiting *announcement) attempt {
	tried := rl.tryGated(ctx, waiting)
	if tried.freed != nil {
		_ = rl.finish(releaseDone{hold: tried.freed, result: resultFull})
	}
	rl.report(tried)
	return tried
}

func (rl *RedisLock) report(tried attempt) {
	recordAcquire(tried.err, tried.took)
	notify(func(c LockCallback) {
		if tried.err != nil {
			c.OnLockAcquireFailed(rl.GetKey(), tried.err)
			return
		}
		c.OnLockAcquired(rl.GetKey(), tried.lease)
	})
}

// tryGated is the attempt itself, which no other call of this instance crosses.
func (rl *RedisLock) tryGated(ctx context.Context, waiting *announcement) attempt {
	if ended(ctx) != nil || rl.enter(ctx) != nil {
		return attempt{err: endedBy(ctx, rl.GetKey(), nil)}
	}
	defer rl.leave()
	start := time.Now()
	tried := rl.tryNow(ctx, waiting)
	tried.took = time.Since(start)
	return tried
}

func (rl *RedisLock) tryNow(ctx context.Context, waiting *announcement) attempt {
	var freed *hold
	if h := rl.current(); h != nil {
		switch err := h.check(time.Now()); {
		case err == nil:
			return rl.reenter(ctx, h)
		case h.untoldLoss():
			return attempt{err: h.tell(err)}
		case h.state() == releasing:
			done, err := rl.settleRelease(ctx, h)
			if err != nil {
				return attempt{err: rl.acquireFailed(ctx, err), left: -1, again: ended(ctx) == nil}
			}
			if done {
				freed = h
			}
		}
	}
	tried := rl.acquireAnew(ctx, waiting)
	tried.freed = freed
	return tried
}

// acquireAnew asks for a new hold, of the client that is configured by now.
func (rl *RedisLock) acquireAnew(ctx context.Context, waiting *announcement) attempt {
	m, err := rl.source.manager()
	if err != nil {
		return attempt{err: err}
	}
	tried := rl.acquireFrom(ctx, m, waiting)
	if isClosed(tried.err) {
		if next := rl.source.replaced(m); next != m {
			tried = rl.acquireFrom(ctx, next, waiting)
		}
	}
	if isClosed(tried.err) {
		tried = attempt{err: clientGone(tried.err)}
	}
	return tried
}

// acquireFrom asks for a new hold. Whatever the call may have taken without our
// knowledge is cleaned up behind it.
func (rl *RedisLock) acquireFrom(ctx context.Context, m *manager, waiting *announcement) attempt {
	if err := m.admits(); err != nil {
		return attempt{err: err}
	}
	m.beginCall()
	defer m.endCall()
	if err := m.admits(); err != nil { // a drain may have found no call in flight
		return attempt{err: err}
	}
	value := newValue()
	sent := time.Now()
	res := rl.sendAcquire(ctx, m, value, waiting)
	if res.Err == nil && res.Reply.Code == script.Done {
		return rl.start(ctx, m, value, sent, res)
	}
	if res.Unanswered {
		m.clean(rl, value, true, rl.opts.Expiration)
	}
	switch {
	case res.Err != nil:
		return attempt{
			err:   rl.acquireFailed(ctx, res.Err),
			left:  -1,
			again: (res.NotRun || res.Unanswered) && ended(ctx) == nil && !isClosed(res.Err),
		}
	case res.Reply.Code == script.Other, res.Reply.Code == script.Queued, res.Reply.Code == script.Kept:
		return attempt{
			err:    newError(ErrLockAcquireConflict, nil, "lock %q is held by another owner", rl.GetKey()),
			left:   time.Duration(res.Reply.N) * time.Millisecond,
			again:  true,
			queued: res.Reply.Code != script.Other, promised: res.Reply.Code == script.Kept,
			holder: res.Reply.Hold,
			sure:   true,
		}
	}
	return attempt{err: newError(ErrLockAcquireFailed, nil, "acquiring %q was given up before it ran", rl.GetKey()), left: -1, again: true}
}

// sendAcquire asks for the lock. What it needs for that stays on its stack.
func (rl *RedisLock) sendAcquire(ctx context.Context, m *manager, value string, waiting *announcement) script.Result {
	var keys [5]string
	rl.names(keys[:], ownerSuffix, countSuffix, tokenSuffix, roomSuffix)
	keys[2], keys[3], keys[4] = rl.markKey(value), keys[2], keys[3]
	if rl.opts.FenceKey != "" {
		keys[3] = rl.opts.FenceKey
	}
	keep, mode := rl.counterArgs()
	args := [6]string{value, millis(rl.opts.Expiration), keep, mode}
	call := script.Call{Script: acquireScript, Keys: keys[:4], Args: args[:4], Timeout: rl.opts.ScriptCallTimeout}
	if waiting != nil {
		args[4], args[5] = waiting.channel, waiting.how
		call.Keys, call.Args = keys[:5], args[:6]
	}
	return m.runner.Run(ctx, call)
}

// counterArgs say how the token of a new hold is minted.
func (rl *RedisLock) counterArgs() (keep, mode string) {
	if rl.opts.TokenMode == TokenClock {
		mode = "clock"
	}
	return strconv.FormatInt(rl.counterTTL(rl.opts.Expiration), 10), mode
}

// start begins the hold that Redis has granted, unless nobody wants it any more.
func (rl *RedisLock) start(ctx context.Context, m *manager, value string, sent time.Time, res script.Result) attempt {
	now := time.Now()
	h := &hold{
		lock: rl, manager: m, value: value, token: res.Reply.N, acquired: now, mark: res.Unanswered,
		depth: 1, lease: rl.opts.Expiration, until: lease.Until(sent, rl.opts.Expiration),
		renewal: renewal{touched: timeheap.MomentOf(sent)},
	}
	h.wake.Value, h.ready.Value = h, h
	var err error
	switch {
	case ended(ctx) != nil:
		err = endedBy(ctx, rl.GetKey(), nil)
	case lease.Left(h.until, now) <= 0:
		err = newError(ErrLockAcquireFailed, nil, "the answer for %q took longer than its lease of %s", rl.GetKey(), h.lease)
	default:
		err = m.add(h)
	}
	if err == nil {
		rl.begin(h)
		return attempt{lease: h.lease}
	}
	m.clean(rl, value, res.Unanswered, rl.opts.Expiration)
	return attempt{err: err}
}

// acquireFailed is a Redis failure in an acquire, or the caller's own end.
func (rl *RedisLock) acquireFailed(ctx context.Context, cause error) error {
	err := newError(ErrLockAcquireFailed, cause, "acquiring %q", rl.GetKey())
	if ended(ctx) != nil {
		return endedBy(ctx, rl.GetKey(), err)
	}
	return err
}

// reenter takes one more level. Without an answer the depth stays as it was: the
// hold's next call names its depth and settles Redis.
func (rl *RedisLock) reenter(ctx context.Context, h *hold) attempt {
	h.mu.Lock()
	depth, ttl, era := int(h.depth), h.lease, h.era
	h.counted = true
	h.mu.Unlock()
	keys := h.keys()
	if rl.opts.FenceKey == "" {
		keys = append(keys, rl.counterKey())
	}
	sent := time.Now()
	res := h.manager.runner.Run(ctx, script.Call{
		Script: reenterScript, Keys: keys, Timeout: rl.opts.ScriptCallTimeout,
		Args: []string{
			h.value, millis(ttl), strconv.Itoa(depth + 1),
			strconv.FormatInt(rl.counterTTL(ttl), 10),
		},
	})
	h.noteDepthCall(res)
	if h.gone(res) {
		return attempt{err: h.tell(h.err())}
	}
	if res.Err != nil {
		if isClosed(res.Err) {
			return attempt{err: clientGone(res.Err)}
		}
		return attempt{err: rl.acquireFailed(ctx, res.Err)}
	}
	if now := h.enterLevel(res); now <= depth { // the script has written a level too many
		rl.settleDepth(ctx, h, now)
	}
	h.lengthen(sent, ttl, era)
	h.manager.reschedule(h)
	if err := h.check(time.Now()); err != nil { // the answer came after the deadline
		return attempt{err: h.tell(err)}
	}
	return attempt{lease: ttl}
}
