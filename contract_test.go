package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// behaviour is one sentence of the contract.
type behaviour struct {
	sentence string
	check    func(*testing.T, *bed)
}

// contract is all of it. The serial behaviours look at or change what the whole
// process shares: the callback, Shutdown, the metrics.
func contract() (serial, parallel []behaviour) {
	serial = slices.Concat(callbackContract, lossCallbackContract, panicContract, shutdownContract,
		statsContract, metricsContract, wireContract)
	parallel = slices.Concat(acquireContract, retryContract, contextContract, reentryContract, releaseContract,
		unlockContract, renewContract, autoRenewContract, lossContract, lossReportContract, tokenContract,
		fenceContract, optionContract, badInputContract, leaseContextContract, funcContract, waitContract,
		timeoutContract, replyContract)
	return serial, parallel
}

// TestContract checks every behaviour on every backend, the serial ones before the
// others, which run side by side.
func TestContract(t *testing.T) {
	serial, parallel := contract()
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			e := b.start(t)
			for _, c := range serial {
				t.Run(c.sentence, func(t *testing.T) { c.check(t, newBed(t, e)) })
			}
			for _, c := range parallel {
				t.Run(c.sentence, func(t *testing.T) {
					t.Parallel()
					c.check(t, newBed(t, e))
				})
			}
		})
	}
}

// bed is what one test works with: a key of its own, a client with a hook in it,
// and a provider over that client.
type bed struct {
	env
	key   string
	wire  *wire
	locks redislock.ContextProvider
}

var beds atomic.Int64

func newBed(t *testing.T, e env) *bed {
	t.Helper()
	name := strings.NewReplacer("{", "(", "}", ")").Replace(t.Name())
	b := &bed{env: e, key: fmt.Sprintf("%s:%d", name, beds.Add(1)), wire: &wire{}}
	b.locks = providerOf(t, b.wire.client(t, b))
	return b
}

// provider is one more provider, over a client of its own without a wire.
func (b *bed) provider(t *testing.T) redislock.ContextProvider {
	t.Helper()
	return providerOf(t, b.NewClient(t))
}

func providerOf(t *testing.T, client redis.UniversalClient) redislock.ContextProvider {
	t.Helper()
	provider, ok := redislock.NewProvider(client).(redislock.ContextProvider)
	if !ok {
		t.Fatal("what NewProvider returns is no ContextProvider")
	}
	return provider
}

// option changes one thing of the options a test starts from.
type option = func(*redislock.LockOptions)

func expiration(d time.Duration) option {
	return func(o *redislock.LockOptions) { o.Expiration = d }
}

func renewed(o *redislock.LockOptions) { o.RenewalEnabled = true }

// options are a lease that outlives any test, without renewal.
func options(mods ...option) redislock.LockOptions {
	o := redislock.LockOptions{Expiration: 60 * time.Second}
	for _, mod := range mods {
		mod(&o)
	}
	return o
}

// lock is a new instance for the test's key. What it still holds at the end of the
// test is released, so that no renewal outlives the test.
func (b *bed) lock(t *testing.T, mods ...option) *redislock.RedisLock {
	t.Helper()
	return lockOf(t, b.locks, b.key, mods...)
}

func lockOf(t *testing.T, provider redislock.Provider, key string, mods ...option) *redislock.RedisLock {
	t.Helper()
	lock, err := provider.NewLock(t.Context(), key, options(mods...))
	if err != nil {
		t.Fatalf("NewLock: %v", err)
	}
	t.Cleanup(func() {
		for lock.Err() == nil {
			_ = lock.Release(context.Background())
		}
	})
	return lock
}

// held is lock, acquired.
func (b *bed) held(t *testing.T, mods ...option) *redislock.RedisLock {
	t.Helper()
	lock := b.lock(t, mods...)
	must(t, "Acquire", lock.Acquire(t.Context()))
	return lock
}

func (b *bed) ownerKey() string { return "{lynx:lock:" + b.key + "}:owner" }
func (b *bed) countKey() string { return "{lynx:lock:" + b.key + "}:count" }
func (b *bed) roomKey() string  { return "{lynx:lock:" + b.key + "}:room" }
func (b *bed) tokenKey() string { return "{lynx:lock:" + b.key + "}:token" }

// get is a key's value; "" when there is none.
func (b *bed) get(t *testing.T, key string) string {
	t.Helper()
	value, err := b.control.Get(context.Background(), key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatalf("GET %s: %v", key, err)
	}
	return value
}

// set is SET with a TTL; 0: none.
func (b *bed) set(t *testing.T, key, value string, ttl time.Duration) {
	t.Helper()
	must(t, "SET "+key, b.control.Set(context.Background(), key, value, ttl).Err())
}

func (b *bed) del(t *testing.T, keys ...string) {
	t.Helper()
	for _, key := range keys {
		must(t, "DEL "+key, b.control.Del(context.Background(), key).Err())
	}
}

// pttl is what is left of a key; -1: it has no TTL, -2: there is no such key.
func (b *bed) pttl(t *testing.T, key string) time.Duration {
	t.Helper()
	left, err := b.control.PTTL(context.Background(), key).Result()
	must(t, "PTTL "+key, err)
	return left
}

func (b *bed) pexpire(t *testing.T, key string, ttl time.Duration) {
	t.Helper()
	must(t, "PEXPIRE "+key, b.control.PExpire(context.Background(), key, ttl).Err())
}

// counter is a key's value as a number.
func (b *bed) counter(t *testing.T, key string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(b.get(t, key), 10, 64)
	must(t, "the counter in "+key, err)
	return n
}

// takenElsewhere makes the keys another process would have written, whatever
// there was before.
func (b *bed) takenElsewhere(t *testing.T, value string, depth int, ttl time.Duration) {
	t.Helper()
	b.set(t, b.ownerKey(), value, ttl)
	b.set(t, b.countKey(), strconv.Itoa(depth), ttl)
}

// patience bounds a wait for something that has to come. It is far above what an
// idle machine needs.
const patience = 20 * time.Second

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// closes waits for a channel that has to close, or to give something.
func closes[T any](t *testing.T, what string, c <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-c:
	case <-time.After(patience):
		t.Fatalf("not within %s: %s", patience, what)
	}
	return got
}

// isClosed looks without waiting.
func isClosed[T any](c <-chan T) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// async runs a call that is expected to block, and gives its result.
func async(call func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	return done
}

func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// wantIs checks that err is every one of the targets, at once.
func wantIs(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("error %v\n is not %v", err, target)
		}
		var class *redislock.LockError
		if errors.As(target, &class) && !redislock.IsLockError(err, class.Code) {
			t.Errorf("error %v\n IsLockError finds no %s", err, class.Code)
		}
	}
}

// wantNot checks that err is none of the targets.
func wantNot(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if errors.Is(err, target) {
			t.Errorf("error %v\n is %v", err, target)
		}
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// between checks low < got <= high.
func between(t *testing.T, what string, got, low, high time.Duration) {
	t.Helper()
	if got <= low || got > high {
		t.Errorf("%s: got %s, want more than %s and at most %s", what, got, low, high)
	}
}
