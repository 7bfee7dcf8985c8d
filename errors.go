package redislock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Codes of LockError, one per class of failure.
const (
	ErrCodeLockNotHeld           = "LOCK_NOT_HELD"
	ErrCodeLockAcquireFailed     = "LOCK_ACQUIRE_FAILED"
	ErrCodeLockAcquireTimeout    = "LOCK_ACQUIRE_TIMEOUT"
	ErrCodeLockAcquireConflict   = "LOCK_ACQUIRE_CONFLICT"
	ErrCodeRedisClientNotFound   = "REDIS_CLIENT_NOT_FOUND"
	ErrCodeMaxRetriesExceeded    = "MAX_RETRIES_EXCEEDED"
	ErrCodeLockFnRequired        = "LOCK_FN_REQUIRED"
	ErrCodeLockRenewalFailed     = "LOCK_RENEWAL_FAILED"
	ErrCodeRenewalServiceStopped = "RENEWAL_SERVICE_STOPPED"
	ErrCodeInvalidOptions        = "INVALID_OPTIONS"
	ErrCodeLockLost              = "LOCK_LOST" // the lease ended under its holder
)

// LockError is the type of every class of failure. Code is one of the ErrCode
// constants, Message says what happened in English, Err is the cause, if any.
type LockError struct {
	Code    string
	Message string
	Err     error
}

// Sentinels to compare with errors.Is. An error may match several of them: an
// exhausted retry budget, for one, is ErrMaxRetriesExceeded and
// ErrLockAcquireConflict.
var (
	ErrLockNotHeld           = sentinel(ErrCodeLockNotHeld)
	ErrLockAcquireFailed     = sentinel(ErrCodeLockAcquireFailed)
	ErrLockAcquireTimeout    = sentinel(ErrCodeLockAcquireTimeout)
	ErrLockAcquireConflict   = sentinel(ErrCodeLockAcquireConflict)
	ErrRedisClientNotFound   = sentinel(ErrCodeRedisClientNotFound)
	ErrMaxRetriesExceeded    = sentinel(ErrCodeMaxRetriesExceeded)
	ErrLockFnRequired        = sentinel(ErrCodeLockFnRequired)
	ErrLockRenewalFailed     = sentinel(ErrCodeLockRenewalFailed)
	ErrRenewalServiceStopped = sentinel(ErrCodeRenewalServiceStopped)
	ErrInvalidOptions        = sentinel(ErrCodeInvalidOptions)
	ErrLockLost              = sentinel(ErrCodeLockLost)
)

func sentinel(code string) *LockError {
	return &LockError{Code: code, Message: GetErrorMessage(code, "en")}
}

// Error is the message and, behind a colon, the cause. It holds no secrets: keys and
// Redis's own error text, never a value that owns a lock.
func (e *LockError) Error() string {
	if e == nil {
		return "<nil>"
	}
	text := "redislock: " + e.Message
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *LockError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// Is matches any LockError with the same code, so that every exported Err… is
// found however it was wrapped.
func (e *LockError) Is(target error) bool {
	t, ok := target.(*LockError)
	return ok && e != nil && t != nil && e.Code == t.Code
}

// IsLockError reports whether err, or an error it wraps, is a LockError with that code.
func IsLockError(err error, code string) bool {
	return errors.Is(err, &LockError{Code: code})
}

// newError makes an error of a class; the text adds what the class does not say.
func newError(class *LockError, cause error, format string, args ...any) *LockError {
	return &LockError{Code: class.Code, Message: fmt.Sprintf(format, args...), Err: cause}
}

// LossReason says how a lease ended under its holder.
type LossReason string

// The values of LossReason, part of the contract as the strings they are.
const (
	lossExpired  LossReason = "expired"  // the deadline came without a renewal
	lossTaken    LossReason = "taken"    // Redis has another value in the owner key
	lossVanished LossReason = "vanished" // Redis has no owner key
)

// LostError is what errors.As finds inside an error that Is ErrLockLost.
type LostError struct {
	Key    string
	Token  int64 // of the hold that was lost; 0 when it had none
	Reason LossReason
	At     time.Time // when this process learned of it
}

// Error names the key, the token and the reason.
func (e *LostError) Error() string {
	return fmt.Sprintf("the lease of %q (token %d) ended under its holder: %s", e.Key, e.Token, e.Reason)
}

// ended is ctx's error. A deadline that has passed counts before ctx's own timer
// has run: a call bound to it may come back first.
func ended(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && ctx.Err() == nil && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// endedBy is the error of a call that ctx ended before the lock was acquired; both
// facts are in it. last is what the attempt before met, if anything.
func endedBy(ctx context.Context, key string, last error) error {
	class, verb := ErrLockAcquireFailed, "cancelled"
	cause := ended(ctx)
	if errors.Is(cause, context.DeadlineExceeded) {
		class, verb = ErrLockAcquireTimeout, "out of time"
	}
	if c := context.Cause(ctx); c != nil && !errors.Is(cause, c) {
		cause = errors.Join(cause, c)
	}
	if last != nil {
		cause = errors.Join(cause, last)
	}
	return newError(class, cause, "%s while acquiring %q", verb, key)
}

var messages = map[string]struct{ en, zh string }{
	ErrCodeLockNotHeld:           {"lock is not held", "未持有锁"},
	ErrCodeLockAcquireFailed:     {"failed to acquire lock", "获取锁失败"},
	ErrCodeLockAcquireTimeout:    {"timed out acquiring lock", "获取锁超时"},
	ErrCodeLockAcquireConflict:   {"lock is held by another owner", "锁已被其他持有者占用"},
	ErrCodeRedisClientNotFound:   {"redis client not found", "未找到 Redis 客户端"},
	ErrCodeMaxRetriesExceeded:    {"maximum number of retries exceeded", "超过最大重试次数"},
	ErrCodeLockFnRequired:        {"lock function is required", "必须提供加锁后执行的函数"},
	ErrCodeLockRenewalFailed:     {"failed to renew lock", "锁续期失败"},
	ErrCodeRenewalServiceStopped: {"renewal service is stopped", "续期服务已停止"},
	ErrCodeInvalidOptions:        {"invalid lock options", "锁配置无效"},
	ErrCodeLockLost:              {"lock was lost while held", "持有期间锁已丢失"},
}

// GetErrorMessage is the text of a code in lang, "en" or "zh". An unknown lang
// gives English, an unknown code the code itself.
func GetErrorMessage(code, lang string) string {
	text, ok := messages[code]
	switch {
	case !ok:
		return code
	case lang == "zh":
		return text.zh
	}
	return text.en
}
