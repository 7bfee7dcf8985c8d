// Package redislock is a distributed lock on Redis: reentrant, renewed, fenced,
// and honest about failure.
//
// What it does not promise: a lock alone cannot stop a holder that was paused
// longer than its lease from writing afterwards. The holder is told (LockContext,
// Done, Err), and the resource can refuse it by the fencing token; see
// LIMITATIONS.md.
package redislock

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-lynx/lynx-redis-lock/internal/lease"
)

// The keys of a lock. All share one hash tag, hence one Cluster slot; owner, count
// and token are those of the published versions, so that both exclude each other.
// The room lists the processes that wait.
const (
	tagPrefix   = "{lynx:lock:"
	ownerSuffix = ":owner"
	countSuffix = ":count"
	tokenSuffix = ":token"
	roomSuffix  = ":room"
	markSuffix  = ":mark:" // and an owner value that was given up
)

// HashTag is the hash tag of a lock's keys, "{lynx:lock:<key>}": put it into a
// FenceKey so that both live in one Cluster slot.
func HashTag(key string) string { return tagPrefix + key + "}" }

// RedisLock is one instance of a lock on a key. Reentrancy is per instance: what it
// acquired n times it releases n times, and any other instance on the key is
// another holder. It may be used by several goroutines, which then share one hold:
// eight goroutines that acquire it are eight levels.
type RedisLock struct {
	// Fixed after construction.
	tag    string       // has the key in it
	opts   *LockOptions // shared with other locks
	source source

	// gate lets one call of this instance at a time change the hold; it is held
	// for one attempt, never while waiting for the lock.
	gate gate

	mu    sync.Mutex // guards the rest; nothing blocks under it
	hold  *hold      // the current or last one; nil before the first
	begun chan struct{}
}

// NewLock makes an instance for key; nothing is locked yet. The error Is
// ErrInvalidOptions for a bad key or option, and ErrRedisClientNotFound when no
// client is configured.
func NewLock(ctx context.Context, key string, options LockOptions) (*RedisLock, error) {
	return newLock(ctx, hostSource{}, key, options)
}

func newLock(ctx context.Context, src source, key string, options LockOptions) (*RedisLock, error) {
	if ctx == nil {
		return nil, newError(ErrInvalidOptions, nil, "lock %q with a nil context", key)
	}
	if err := ValidateKey(key); err != nil {
		return nil, newError(ErrInvalidOptions, err, "lock key")
	}
	opts, err := options.checked(key)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, endedBy(ctx, key, nil)
	}
	m, err := src.manager()
	if err != nil {
		return nil, err
	}
	if m.cluster && opts.FenceKey != "" {
		if err := checkFenceSlot(key, opts.FenceKey); err != nil {
			return nil, err
		}
	}
	return &RedisLock{tag: HashTag(key), opts: opts.shared(), source: src}, nil
}

func (rl *RedisLock) ownerKey() string { return rl.tag + ownerSuffix }
func (rl *RedisLock) countKey() string { return rl.tag + countSuffix }
func (rl *RedisLock) roomKey() string  { return rl.tag + roomSuffix }

// counterKey is where the fencing token comes from.
func (rl *RedisLock) counterKey() string {
	if rl.opts.FenceKey != "" {
		return rl.opts.FenceKey
	}
	return rl.tag + tokenSuffix
}

// names are keys of the lock with these suffixes, cut from one string.
func (rl *RedisLock) names(into []string, suffixes ...string) {
	var all strings.Builder
	n := len(rl.tag) * len(suffixes)
	for _, suffix := range suffixes {
		n += len(suffix)
	}
	all.Grow(n)
	for _, suffix := range suffixes {
		all.WriteString(rl.tag)
		all.WriteString(suffix)
	}
	rest := all.String()
	for i, suffix := range suffixes {
		n := len(rl.tag) + len(suffix)
		into[i], rest = rest[:n], rest[n:]
	}
}

// millis is a time as scripts take it.
func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func (rl *RedisLock) markKey(value string) string { return rl.tag + markSuffix + value }

// markTTL is how long a value that was given up is refused.
func (rl *RedisLock) markTTL() time.Duration { return max(rl.opts.Expiration, minMark) }

// counterTTL is the TTL, in ms, that a call with this lease gives the counter; 0 with a
// FenceKey. It is a quarter more than the counter has to live, so that it need not be
// set each time: an acquire does when a tenth is used up, and leaves an eighth more than
// is needed; a renewed hold does once in an eighth of TokenTTL.
func (rl *RedisLock) counterTTL(lease time.Duration) int64 {
	if rl.opts.FenceKey != "" {
		return 0
	}
	ttl := lease.Milliseconds() + max(rl.opts.TokenTTL.Milliseconds(), 1)
	return ttl + ttl/4
}

// callTime bounds calls made for the lock that no caller waits for.
func (rl *RedisLock) callTime() time.Duration {
	if rl.opts.ScriptCallTimeout > 0 {
		return rl.opts.ScriptCallTimeout
	}
	return cleanupCaller
}

// ready says whether the instance and the context can be used at all.
func (rl *RedisLock) ready(ctx context.Context) error {
	switch {
	case rl == nil || rl.source == nil:
		return newError(ErrLockNotHeld, ErrInvalidOptions, "a RedisLock that NewLock did not make")
	case ctx == nil:
		return newError(ErrInvalidOptions, nil, "lock %q used with a nil context", rl.GetKey())
	}
	return nil
}

// enter takes the gate; it fails only when ctx ends first.
func (rl *RedisLock) enter(ctx context.Context) error {
	if turn := rl.gate.enter(&rl.mu); turn != nil {
		select {
		case <-turn:
			return nil
		case <-ctx.Done():
			rl.gate.quit(&rl.mu)
			return ctx.Err()
		}
	}
	return nil
}

// tryEnter is enter without waiting.
func (rl *RedisLock) tryEnter() bool { return rl.gate.tryEnter(&rl.mu) }

func (rl *RedisLock) leave() { rl.gate.leave(&rl.mu) }

// current is the hold of the instance; nil before the first.
func (rl *RedisLock) current() *hold {
	if rl == nil {
		return nil
	}
	rl.mu.Lock()
	defer rl.mu.Unlock()
	return rl.hold
}

// settled says that no call of the instance has anything to find out first: it holds
// nothing, no release of it is unanswered and no loss unreported.
func (rl *RedisLock) settled() bool {
	h := rl.current()
	return h == nil || h.state() == released || (h.state() == lost && !h.untoldLoss())
}

// begin makes h the hold of the instance and lets its own waiters reenter; those of
// other instances know that the lock will come to them.
func (rl *RedisLock) begin(h *hold) {
	waiters.Held(h.manager.line(rl.GetKey()), h.expiry())
	rl.mu.Lock()
	defer rl.mu.Unlock()
	rl.hold = h
	if rl.begun != nil {
		close(rl.begun)
		rl.begun = nil
	}
}

// nextHold is closed when a hold of the instance begins.
func (rl *RedisLock) nextHold() <-chan struct{} {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	if rl.begun == nil {
		rl.begun = make(chan struct{})
	}
	return rl.begun
}

// GetKey is the key the lock was made for.
func (rl *RedisLock) GetKey() string {
	if rl == nil || rl.tag == "" {
		return ""
	}
	return rl.tag[len(tagPrefix) : len(rl.tag)-1]
}

// GetToken is the fencing token of the current hold; after its end it stays, for a
// late check. 0: there was no hold yet.
func (rl *RedisLock) GetToken() int64 {
	if h := rl.current(); h != nil {
		return h.token
	}
	return 0
}

// GetValue is the owner value of the current hold, for UnlockByValue; "" when not held.
func (rl *RedisLock) GetValue() string {
	if h := rl.current(); h != nil && h.trusted() {
		return h.value
	}
	return ""
}

// GetExpiration is the lease of the current hold, which Renew may have changed, and
// else the one in the options.
func (rl *RedisLock) GetExpiration() time.Duration {
	switch h := rl.current(); {
	case rl == nil || rl.opts == nil:
		return 0
	case h != nil && h.trusted():
		return h.currentLease()
	default:
		return rl.opts.Expiration
	}
}

// GetAcquiredAt is when the current or last hold was acquired first; the zero time
// before there was one.
func (rl *RedisLock) GetAcquiredAt() time.Time {
	if h := rl.current(); h != nil {
		return h.acquired
	}
	return time.Time{}
}

// GetExpiresAt is the moment up to which the current or last hold is trusted: the
// lease, counted from before the call that asked for it, less a margin of 1 % and 2 ms.
func (rl *RedisLock) GetExpiresAt() time.Time {
	if h := rl.current(); h != nil {
		return h.expiry()
	}
	return time.Time{}
}

// GetRemainingTime is how long the hold is still trusted; 0 when it is not.
func (rl *RedisLock) GetRemainingTime() time.Duration {
	left, _ := rl.GetStatus()
	return left
}

// GetStatus is GetRemainingTime and IsExpired at one moment.
func (rl *RedisLock) GetStatus() (remainingTime time.Duration, isExpired bool) {
	now := time.Now()
	h := rl.current()
	if h == nil || h.check(now) != nil {
		return 0, true
	}
	left := lease.Left(h.expiry(), now)
	return max(left, 0), left <= 0
}

// IsExpired reports whether the instance's hold is no longer trusted: its deadline
// has come, it was lost or released, or there is none.
func (rl *RedisLock) IsExpired() bool {
	_, expired := rl.GetStatus()
	return expired
}

// Done is closed when the current hold ends, by release or by loss; before the
// first Acquire it is closed. It follows as timers run; Err looks at the clock.
func (rl *RedisLock) Done() <-chan struct{} {
	if h := rl.current(); h != nil {
		return h.doneChan()
	}
	return closedChan
}

// Err is nil while the lock is held and trusted. It Is ErrLockNotHeld when released
// or never held, and ErrLockLost, with a LostError, after a loss.
func (rl *RedisLock) Err() error {
	if h := rl.current(); h != nil {
		return h.check(time.Now())
	}
	return ErrLockNotHeld
}

// Context derives a context that ends with the current hold: its cause Is
// ErrLockLost after a loss and ErrLockNotHeld after the release. Without a hold it
// has ended already. Call the CancelFunc when it is no longer needed.
func (rl *RedisLock) Context(parent context.Context) (context.Context, context.CancelFunc) {
	if parent == nil {
		parent = context.Background()
	}
	if h := rl.current(); h != nil {
		return h.context(parent)
	}
	ctx, cancel := context.WithCancelCause(parent)
	cancel(ErrLockNotHeld)
	return ctx, func() {}
}
