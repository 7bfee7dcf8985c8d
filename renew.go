package redislock

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/go-lynx/lynx-redis-lock/internal/lease"
	"github.com/go-lynx/lynx-redis-lock/internal/script"
	"github.com/go-lynx/lynx-redis-lock/internal/timeheap"
)

// Renew gives the hold a lease of newExpiration (at least 10 ms), longer or
// shorter; the rest of the hold is renewed with it, the next acquisition starts
// from the options again.
//
// The error Is ErrInvalidOptions for a bad duration, which touches nothing, and else
// ErrLockRenewalFailed: with ErrLockNotHeld when there is no hold, with ErrLockLost
// when the lease is gone, or with the failure of Redis. When a shorter lease got no
// answer, nothing later in this hold is trusted longer than it: the request may
// still arrive.
func (rl *RedisLock) Renew(ctx context.Context, newExpiration time.Duration) error {
	if err := rl.ready(ctx); err != nil {
		return err
	}
	if newExpiration < minExpiration {
		return newError(ErrInvalidOptions, nil, "renewing %q by %s, which is below %s", rl.GetKey(), newExpiration, minExpiration)
	}
	start := time.Now()
	h := rl.current()
	over := h == nil || h.state() != held
	result, err := rl.renewGated(ctx, newExpiration.Truncate(time.Millisecond))
	recordRenew(result, time.Since(start))
	if err != nil && (over || !IsLockError(err, ErrCodeLockLost)) { // a loss found here has told by itself
		dispatch.failed(rl.GetKey(), err)
	}
	return err
}

func (rl *RedisLock) renewGated(ctx context.Context, ttl time.Duration) (string, error) {
	failed := func(cause error) error {
		return newError(ErrLockRenewalFailed, cause, "renewing %q by %s", rl.GetKey(), ttl)
	}
	if ctx.Err() != nil || rl.enter(ctx) != nil {
		return resultError, failed(ctx.Err())
	}
	defer rl.leave()
	h := rl.current()
	if h == nil {
		return resultNotExist, failed(ErrLockNotHeld)
	}
	if err := h.check(time.Now()); err != nil {
		return resultNotExist, failed(notHeld(err))
	}
	sent := time.Now()
	before := h.beginRenew(sent, ttl)
	h.manager.reschedule(h) // the deadline may be nearer now, whatever becomes of the call
	res := h.manager.runner.Run(ctx, h.renewCall(ttl, "set", rl.opts.ScriptCallTimeout))
	era := h.endRenew(res, ttl, before)
	if h.gone(res) {
		return resultOf(res.Reply), failed(notHeld(h.err()))
	}
	h.manager.reschedule(h)
	if res.Err != nil {
		if isClosed(res.Err) {
			return resultError, failed(clientGone(res.Err))
		}
		return resultError, failed(res.Err)
	}
	h.lengthen(sent, ttl, era)
	h.manager.reschedule(h)
	if err := h.check(time.Now()); err != nil { // the answer came after the deadline
		return resultFail, failed(notHeld(err))
	}
	h.touch(ctx, ttl, rl.opts.ScriptCallTimeout-time.Since(sent))
	dispatch.renewed(rl.GetKey(), ttl)
	return resultSuccess, nil
}

// beginRenew counts the lease with the shorter time from the send of a Renew on. It
// starts a new era: the answer to a renewal sent before lengthens nothing. One that
// is sent while the Renew is in flight may reach Redis before it, and is believed no
// longer than the Renew. It returns the moment trusted before.
func (h *hold) beginRenew(sent time.Time, ttl time.Duration) (before time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before = h.until
	h.era++
	h.seldomPart().pending = ttl
	h.until = lease.Earlier(before, lease.Until(sent, ttl))
	return before
}

// endRenew keeps the new lease for the renewals to come, in an era of their own. A
// send that was not answered may arrive any time later and shorten what was granted
// since; one that was never made, or was refused, has changed nothing.
func (h *hold) endRenew(res script.Result, ttl time.Duration, before time.Time) (era uint32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.era++
	part := h.seldomPart()
	part.pending = 0
	if res.Err != nil && !res.Unanswered && h.phase == held {
		h.until = lease.Later(h.until, before)
	}
	if res.Err == nil && res.Reply.Code == script.Done {
		h.lease = ttl
	}
	if res.Unanswered && (part.ceiling == 0 || ttl < part.ceiling) {
		part.ceiling = ttl
	}
	return h.era
}

func (h *hold) renewCall(ttl time.Duration, how string, timeout time.Duration) script.Call {
	return script.Call{
		Script: renewScript, Keys: h.keys(), Bare: 1, Timeout: timeout,
		Args: []string{h.value, millis(ttl), how},
	}
}

func resultOf(reply script.Reply) string {
	if reply.Code == script.Absent {
		return resultNotExist
	}
	return resultNotOwner
}

// touch makes the counter outlive the lease by TokenTTL. Its failure costs nothing
// now, unless the lease is longer than the counter still lives. It takes a quarter of
// the lease at most, which leaves the next renewal its time, no longer than a renewal
// may, and none when its caller has used its own up.
func (h *hold) touch(ctx context.Context, ttl, left time.Duration) {
	if h.lock.opts.FenceKey != "" || (left <= 0 && h.lock.opts.ScriptCallTimeout > 0) {
		return
	}
	limit := min(ttl/4, renewalCall(h.lock.opts))
	if left > 0 {
		limit = min(limit, left)
	}
	sent := time.Now()
	res := h.manager.runner.Run(ctx, script.Call{
		Script: touchScript, Keys: []string{h.lock.counterKey()},
		Args:    []string{strconv.FormatInt(h.lock.counterTTL(ttl), 10)},
		Timeout: limit,
	})
	if res.Err != nil {
		sent = time.Time{} // the next renewal tries again
	}
	h.manager.mu.Lock()
	h.renewal.touched = timeheap.MomentOf(sent)
	h.manager.mu.Unlock()
}

// EnableAutoRenew starts the renewal of a lock that is held and whose options did
// not ask for it, by the renewal options given; zero ones take their defaults.
// Without a hold, or with options that are not valid, it does nothing but log.
func (rl *RedisLock) EnableAutoRenew(options LockOptions) {
	h := rl.current()
	if h == nil || !h.trusted() {
		return
	}
	options.Expiration = rl.opts.Expiration // the hold's lease counts, see Renew
	opts, err := options.checked(rl.GetKey())
	if err != nil {
		logWarn("redislock: EnableAutoRenew of %q: %v", rl.GetKey(), err)
		return
	}
	h.manager.renew(h, opts.shared())
}

// IsLocked asks Redis (the primary) whether this instance holds the lock. A no
// ends a hold that was believed held; false after the local deadline in any case.
func (rl *RedisLock) IsLocked(ctx context.Context) (bool, error) {
	_, held, err := rl.ask(ctx)
	return held, err
}

// TTL asks Redis (the primary) how long the key still lives; 0 when this instance
// does not hold the lock. It is more than GetRemainingTime by the margin and the
// time of the calls.
func (rl *RedisLock) TTL(ctx context.Context) (time.Duration, error) {
	left, _, err := rl.ask(ctx)
	return left, err
}

// ask is one question to Redis about the current hold.
func (rl *RedisLock) ask(ctx context.Context) (left time.Duration, held bool, err error) {
	if err := rl.ready(ctx); err != nil {
		return 0, false, err
	}
	h := rl.current()
	if h == nil || !h.trusted() {
		return 0, false, ctx.Err()
	}
	res := h.manager.runner.Run(ctx, script.Call{
		Script: statusScript, Keys: []string{rl.ownerKey()}, Args: []string{h.value},
		Timeout: rl.opts.ScriptCallTimeout,
	})
	switch {
	case isClosed(res.Err):
		return 0, false, clientGone(res.Err)
	case res.Err != nil:
		return 0, false, fmt.Errorf("redislock: asking Redis about %q: %w", rl.GetKey(), res.Err)
	}
	if h.gone(res) || !h.trusted() {
		return 0, false, nil
	}
	return max(time.Duration(res.Reply.N)*time.Millisecond, 0), true, nil
}
