package redislock

import (
	"context"
	"strconv"
	"time"

	"github.com/go-lynx/lynx-redis-lock/internal/script"
)

// UnlockByValue takes one level off the hold with that owner value (GetValue), in
// this process or elsewhere, whatever version made it. For a hold of this process
// it is that hold's Release; a holder elsewhere learns of it by its next call or
// renewal. It is bounded by DefaultLockOptions.ScriptCallTimeout.
//
// The error Is ErrLockNotHeld when that value does not own the lock. Without an
// answer from Redis it says so: the level may or may not be gone.
func UnlockByValue(ctx context.Context, key, value string) error {
	return provider{hostSource{}}.UnlockByValue(ctx, key, value)
}

func (p provider) UnlockByValue(ctx context.Context, key, value string) error {
	if ctx == nil {
		return newError(ErrInvalidOptions, nil, "UnlockByValue of %q with a nil context", key)
	}
	if err := ValidateKey(key); err != nil {
		return newError(ErrInvalidOptions, err, "lock key")
	}
	if limit := DefaultLockOptions.ScriptCallTimeout; limit > 0 {
		bounded, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		ctx = bounded
	}
	if h := process.find(value); h != nil && h.lock.GetKey() == key {
		return h.lock.releaseHold(ctx, h)
	}
	start := time.Now()
	result, err := p.unlockElsewhere(ctx, key, value)
	recordUnlock(result, time.Since(start))
	return err
}

// unlockElsewhere asks the client that is configured by now.
func (p provider) unlockElsewhere(ctx context.Context, key, value string) (string, error) {
	m, err := p.source.manager()
	if err != nil {
		return resultError, err
	}
	if value == "" {
		return resultNotHeld, newError(ErrLockNotHeld, nil, "no owner value was given for %q", key)
	}
	result, err := m.unlock(ctx, key, value)
	if isClosed(err) {
		if next := p.source.replaced(m); next != m {
			return next.unlock(ctx, key, value)
		}
	}
	return result, err
}

// unlock asks for the depth and takes one level off by compare-and-set, again
// when the holder was quicker. Only the last level may be sent twice: its value
// never comes back, while one of several levels may be taken anew in between.
func (m *manager) unlock(ctx context.Context, key, value string) (string, error) {
	tag := HashTag(key)
	for depth := int64(0); ctx.Err() == nil; {
		res := m.runner.Run(ctx, script.Call{
			Script: unlockScript, Keys: []string{tag + ownerSuffix, tag + countSuffix, tag + roomSuffix},
			Args: []string{value, strconv.FormatInt(depth, 10)}, Once: depth > 1,
		})
		switch {
		case res.Err != nil:
			consequence := "one level may be gone"
			if res.NotRun {
				consequence = "nothing was done"
			}
			return resultError, releaseFailed(key, consequence, res.Err)
		case res.Reply.Code == script.Differ:
			depth = res.Reply.N
		case res.Reply.Code == script.Done && res.Reply.N > 0:
			return resultPartial, nil
		case res.Reply.Code == script.Done, depth == 1 && res.Resent:
			return resultFull, nil
		default:
			return resultNotHeld, newError(ErrLockNotHeld, nil, "lock %q is not owned by that value", key)
		}
	}
	return resultError, releaseFailed(key, "its depth never stood still", ctx.Err())
}
