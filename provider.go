package redislock

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"
)

// Provider is what code gets injected instead of the package functions.
type Provider interface {
	NewLock(ctx context.Context, key string, options LockOptions) (*RedisLock, error)
	Lock(ctx context.Context, key string, expiration time.Duration, fn func() error) error
	LockWithOptions(ctx context.Context, key string, options LockOptions, fn func() error) error
	LockWithToken(ctx context.Context, key string, expiration time.Duration, fn func(token int64) error) error
	UnlockByValue(ctx context.Context, key, value string) error
}

// ContextProvider is a Provider with LockContext. What GetProvider and NewProvider
// return implements it; it is apart because users mock Provider.
type ContextProvider interface {
	Provider
	LockContext(ctx context.Context, key string, options LockOptions, fn func(ctx context.Context, lock *RedisLock) error) error
}

// source is where a lock gets the manager of the client for a new acquisition.
type source interface {
	manager() (*manager, error)
	// replaced is asked when m's client was found closed: the manager of the
	// client that took its place, or m itself when there is none.
	replaced(m *manager) *manager
}

// provider implements ContextProvider over a source.
type provider struct{ source source }

// GetProvider is the provider over the Lynx application's Redis client. It looks
// the client up at each acquisition, so it may be kept across restarts.
func GetProvider() Provider { return provider{hostSource{}} }

// NewProvider is a provider over any client: for tests and for programs without
// Lynx. The client stays the caller's to close. A *redis.Ring is refused, at each
// use: its shards fail over to each other without the lock.
func NewProvider(client redis.UniversalClient) Provider {
	if isNil(client) {
		return provider{failing{newError(ErrRedisClientNotFound, nil, "NewProvider was given no client")}}
	}
	if _, ring := client.(*redis.Ring); ring {
		return provider{failing{newError(ErrInvalidOptions, nil, "a *redis.Ring cannot keep a lock: it moves keys when a shard is down")}}
	}
	return provider{fixed{newManager(client)}}
}

// isNil also finds a nil pointer inside the interface.
func isNil(client redis.UniversalClient) bool {
	if client == nil {
		return true
	}
	v := reflect.ValueOf(client)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// fixed is a source of one client.
type fixed struct{ m *manager }

func (f fixed) manager() (*manager, error)   { return f.m, nil }
func (f fixed) replaced(m *manager) *manager { return m }

// failing is a source without a client.
type failing struct{ err *LockError }

func (f failing) manager() (*manager, error)   { return nil, f.err }
func (f failing) replaced(m *manager) *manager { return m }

// isClosed says that the client was closed: nothing ran and nothing will.
func isClosed(err error) bool { return errors.Is(err, redis.ErrClosed) }

// clientGone words what a closed client means to the caller.
func clientGone(cause error) error {
	return newError(ErrRedisClientNotFound, cause, "the Redis client was closed: the application that configured it has stopped or replaced it")
}

func (p provider) NewLock(ctx context.Context, key string, options LockOptions) (*RedisLock, error) {
	return newLock(ctx, p.source, key, options)
}

func (p provider) Lock(ctx context.Context, key string, expiration time.Duration, fn func() error) error {
	return p.LockWithOptions(ctx, key, defaultsWith(expiration), fn)
}

func (p provider) LockWithOptions(ctx context.Context, key string, options LockOptions, fn func() error) error {
	if fn == nil {
		return fnRequired(key)
	}
	return p.run(ctx, key, options, func(*RedisLock) error { return fn() })
}

func (p provider) LockWithToken(ctx context.Context, key string, expiration time.Duration, fn func(token int64) error) error {
	if fn == nil {
		return fnRequired(key)
	}
	options := defaultsWith(expiration)
	options.RetryStrategy = DefaultRetryStrategy
	return p.run(ctx, key, options, func(lock *RedisLock) error { return fn(lock.GetToken()) })
}

func (p provider) LockContext(ctx context.Context, key string, options LockOptions, fn func(ctx context.Context, lock *RedisLock) error) error {
	if fn == nil {
		return fnRequired(key)
	}
	return p.run(ctx, key, options, func(lock *RedisLock) error {
		held, cancel := lock.Context(ctx)
		defer cancel()
		return fn(held, lock)
	})
}

func defaultsWith(expiration time.Duration) LockOptions {
	options := DefaultLockOptions
	options.Expiration = expiration
	return options
}

func fnRequired(key string) error {
	return newError(ErrLockFnRequired, nil, "lock %q needs a function to run", key)
}

// run acquires, runs fn and releases, also when fn panics or ends its goroutine.
func (p provider) run(ctx context.Context, key string, options LockOptions, fn func(*RedisLock) error) (retErr error) {
	lock, err := newLock(ctx, p.source, key, options)
	if err != nil {
		return err
	}
	defer func() { // before the acquire: a callback may end this goroutine
		retErr = joined(retErr, lock.releaseBehind(ctx))
	}()
	if err := lock.acquireByOptions(ctx); err != nil {
		return err
	}
	switch err := lock.Err(); {
	case err == nil:
		return fn(lock)
	case IsLockError(err, ErrCodeLockLost):
		return nil // a slow OnLockAcquired has used the lease up; the release reports it
	default:
		return newError(ErrLockNotHeld, nil, "%q was released before its function ran", key)
	}
}

// joined keeps a lone error as it is, so that fn's own comes back unchanged.
func joined(a, b error) error {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	return errors.Join(a, b)
}

// Lock runs fn while holding the lock on key, with DefaultLockOptions and the given
// lease, which is renewed while fn runs. See LockWithOptions for the errors.
func Lock(ctx context.Context, key string, expiration time.Duration, fn func() error) error {
	return provider{hostSource{}}.Lock(ctx, key, expiration, fn)
}

// LockWithRetry is Lock with another retry strategy.
func LockWithRetry(ctx context.Context, key string, expiration time.Duration, fn func() error, strategy RetryStrategy) error {
	options := defaultsWith(expiration)
	options.RetryStrategy = strategy
	return LockWithOptions(ctx, key, options, fn)
}

// LockWithOptions runs fn while holding the lock on key. It acquires by
// options.WaitTimeout or, when that is 0, by options.RetryStrategy, and releases on
// a short context of its own, so that a cancelled caller still releases.
//
// fn's error comes back joined with the lock's: ErrLockNotHeld and ErrLockLost when
// the lease ended under fn, or the error of a release that got no answer (the key
// then is freed in the background, or runs out with its lease). Without having run
// fn: ErrLockFnRequired, ErrInvalidOptions, ErrRedisClientNotFound,
// ErrLockAcquireConflict, ErrMaxRetriesExceeded, ErrLockAcquireTimeout,
// ErrLockAcquireFailed or ErrRenewalServiceStopped.
func LockWithOptions(ctx context.Context, key string, options LockOptions, fn func() error) (retErr error) {
	return provider{hostSource{}}.LockWithOptions(ctx, key, options, fn)
}

// LockWithToken is Lock for a fn that passes the fencing token on to the resource.
func LockWithToken(ctx context.Context, key string, expiration time.Duration, fn func(token int64) error) (retErr error) {
	return provider{hostSource{}}.LockWithToken(ctx, key, expiration, fn)
}

// LockContext runs fn under a context that is cancelled, with a cause that Is
// ErrLockLost, the moment the lease can no longer be trusted. See LockWithOptions
// for the errors.
func LockContext(ctx context.Context, key string, options LockOptions, fn func(ctx context.Context, lock *RedisLock) error) error {
	return provider{hostSource{}}.LockContext(ctx, key, options, fn)
}
