package redislock_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// badOptions are options that are refused, and what the error has to name.
var badOptions = []struct {
	names []string
	bad   option
}{
	{[]string{"Expiration", "0s"}, expiration(0)},
	{[]string{"Expiration", "-1s"}, expiration(-time.Second)},
	{[]string{"Expiration", "9.999ms"}, expiration(10*time.Millisecond - time.Microsecond)},
	{[]string{"TokenTTL", "999µs"}, tokenTTL(999 * time.Microsecond)},
	{[]string{"TokenTTL", "-1s"}, tokenTTL(-time.Second)},
	{[]string{"RenewalThreshold", "NaN"}, threshold(math.NaN())},
	{[]string{"RenewalThreshold", "-0.1"}, threshold(-0.1)},
	{[]string{"RenewalThreshold", "1.1"}, threshold(1.1)},
	{[]string{"RenewalThreshold", "Inf"}, threshold(math.Inf(1))},
	{[]string{"WorkerPoolSize", "-1"}, func(o *redislock.LockOptions) { o.WorkerPoolSize = -1 }},
	{[]string{"ScriptCallTimeout", "-1s"}, timeout(-time.Second)},
	{[]string{"MaxRetries", "-1"}, func(o *redislock.LockOptions) { o.RetryStrategy.MaxRetries = -1 }},
	{[]string{"RetryDelay", "-1s"}, func(o *redislock.LockOptions) { o.RetryStrategy.RetryDelay = -time.Second }},
	{[]string{"MaxDelay", "-1s"}, func(o *redislock.LockOptions) { o.RetryStrategy.MaxDelay = -time.Second }},
	{[]string{"MaxRetries", "-2"}, func(o *redislock.LockOptions) { o.RenewalConfig.MaxRetries = -2 }},
	{[]string{"BaseDelay", "-1s"}, func(o *redislock.LockOptions) { o.RenewalConfig.BaseDelay = -time.Second }},
	{[]string{"MaxDelay", "-2s"}, func(o *redislock.LockOptions) { o.RenewalConfig.MaxDelay = -2 * time.Second }},
	{[]string{"CheckInterval", "-1s"}, func(o *redislock.LockOptions) { o.RenewalConfig.CheckInterval = -time.Second }},
	{[]string{"CallTimeout", "-1s"}, func(o *redislock.LockOptions) { o.RenewalConfig.CallTimeout = -time.Second }},
	{[]string{"TokenMode", "7"}, func(o *redislock.LockOptions) { o.TokenMode = 7 }},
}

func threshold(f float64) option {
	return func(o *redislock.LockOptions) { o.RenewalThreshold = f }
}

// badKeys are keys that are refused, and what the error has to say.
var badKeys = map[string]string{
	"": "empty", strings.Repeat("x", 256): "256", "a\nb": `\n`, "ключ": "printable", "a{b": "{", "a}b": "}", "a\x7fb": `\x7f`,
}

// entries are the ways in which options and keys come in; none may run fn.
func entries(t *testing.T, locks redislock.ContextProvider) map[string]func(ctx context.Context, key string, o redislock.LockOptions) error {
	ran := func() error { t.Error("fn has run"); return nil }
	return map[string]func(context.Context, string, redislock.LockOptions) error{
		"NewLock": func(ctx context.Context, key string, o redislock.LockOptions) error {
			lock, err := locks.NewLock(ctx, key, o)
			if err != nil && lock != nil {
				t.Error("NewLock gives a lock with its error")
			}
			return err
		},
		"LockWithOptions": func(ctx context.Context, key string, o redislock.LockOptions) error {
			return locks.LockWithOptions(ctx, key, o, ran)
		},
		"LockContext": func(ctx context.Context, key string, o redislock.LockOptions) error {
			return locks.LockContext(ctx, key, o, func(context.Context, *redislock.RedisLock) error { return ran() })
		},
	}
}

var optionContract = []behaviour{
	{"bad_options_are_ErrInvalidOptions_and_named", func(t *testing.T, b *bed) {
		for _, c := range badOptions {
			o := options(c.bad)
			for name, call := range entries(t, b.locks) {
				err := call(t.Context(), b.key, o)
				wantIs(t, err, redislock.ErrInvalidOptions)
				for _, part := range c.names {
					if err == nil || !strings.Contains(err.Error(), part) {
						t.Errorf("%s: error %v does not name %s", name, err, part)
					}
				}
			}
		}
		equal(t, "script calls", b.wire.scripts(), 0)
	}},
	{"Validate_gives_a_plain_error_that_says_which", func(t *testing.T, _ *bed) {
		for _, c := range badOptions {
			o := options(c.bad)
			err := o.Validate()
			var class *redislock.LockError
			if err == nil || errors.As(err, &class) {
				t.Errorf("Validate of a bad %s: %v, want a plain error", c.names[0], err)
				continue
			}
			if !strings.Contains(err.Error(), c.names[0]) || !strings.Contains(err.Error(), c.names[1]) {
				t.Errorf("error %v does not name %v", err, c.names)
			}
		}
		s := strategy(-1, 0)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), "MaxRetries") {
			t.Errorf("Validate of a bad strategy: %v", err)
		}
		if (*redislock.LockOptions)(nil).Validate() == nil || (*redislock.RetryStrategy)(nil).Validate() == nil {
			t.Error("Validate of nil is nil")
		}
	}},
	{"zero_fields_take_their_defaults", func(t *testing.T, b *bed) {
		o := options()
		must(t, "Validate", o.Validate())
		defaults := redislock.DefaultLockOptions
		must(t, "Validate of DefaultLockOptions", defaults.Validate())
		lock := b.held(t)
		equal(t, "GetExpiration", lock.GetExpiration(), time.Minute)
	}},
	{"values_at_the_limits_are_accepted", func(t *testing.T, b *bed) {
		for _, mod := range []option{
			expiration(10 * time.Millisecond), tokenTTL(time.Millisecond), threshold(0), threshold(1),
			func(o *redislock.LockOptions) { o.WaitTimeout = -1 },
			func(o *redislock.LockOptions) { o.RenewalConfig.MaxRetries = 1 },
			func(o *redislock.LockOptions) { o.RenewalConfig.BaseDelay = time.Minute },
			func(o *redislock.LockOptions) { o.RetryStrategy.MaxDelay = time.Minute },
		} {
			_, err := b.locks.NewLock(t.Context(), b.key, options(mod))
			must(t, "NewLock", err)
		}
	}},
	{"options_are_copied", func(t *testing.T, b *bed) {
		o := options()
		lock, err := b.locks.NewLock(t.Context(), b.key, o)
		must(t, "NewLock", err)
		o.Expiration = time.Hour
		equal(t, "GetExpiration", lock.GetExpiration(), time.Minute)
	}},
	{"bad_keys_are_ErrInvalidOptions_and_named", func(t *testing.T, b *bed) {
		for key, part := range badKeys {
			for name, call := range entries(t, b.locks) {
				err := call(t.Context(), key, options())
				wantIs(t, err, redislock.ErrInvalidOptions)
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("%s: error %v does not say %s", name, err, part)
				}
			}
			wantIs(t, b.locks.UnlockByValue(t.Context(), key, "value"), redislock.ErrInvalidOptions)
			wantIs(t, b.locks.Lock(t.Context(), key, time.Minute, func() error { return nil }), redislock.ErrInvalidOptions)
			wantIs(t, b.locks.LockWithToken(t.Context(), key, time.Minute, func(int64) error { return nil }), redislock.ErrInvalidOptions)
			err := redislock.ValidateKey(key)
			var class *redislock.LockError
			if err == nil || errors.As(err, &class) || !strings.Contains(err.Error(), part) {
				t.Errorf("ValidateKey(%q): %v, want a plain error that says %s", key, err, part)
			}
		}
		equal(t, "script calls", b.wire.scripts(), 0)
	}},
	{"Lock_and_LockWithToken_refuse_a_bad_expiration", func(t *testing.T, b *bed) {
		for _, d := range []time.Duration{0, -time.Second, 9 * time.Millisecond} {
			wantIs(t, b.locks.Lock(t.Context(), b.key, d, func() error { t.Error("fn has run"); return nil }), redislock.ErrInvalidOptions)
			wantIs(t, b.locks.LockWithToken(t.Context(), b.key, d, func(int64) error { t.Error("fn has run"); return nil }), redislock.ErrInvalidOptions)
		}
	}},
	{"a_Ring_is_refused", func(t *testing.T, b *bed) {
		ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": b.options.Addrs[0]}})
		t.Cleanup(func() { _ = ring.Close() })
		for name, call := range entries(t, redislock.NewProvider(ring).(redislock.ContextProvider)) {
			if wantIs(t, call(t.Context(), b.key, options()), redislock.ErrInvalidOptions); t.Failed() {
				t.Fatal(name)
			}
		}
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
	}},
	{"a_provider_without_a_client_is_ErrRedisClientNotFound", func(t *testing.T, b *bed) {
		for _, client := range []redis.UniversalClient{nil, (*redis.Client)(nil)} {
			locks := redislock.NewProvider(client)
			_, err := locks.NewLock(t.Context(), b.key, options())
			wantIs(t, err, redislock.ErrRedisClientNotFound)
			wantIs(t, locks.UnlockByValue(t.Context(), b.key, "value"), redislock.ErrRedisClientNotFound)
			wantIs(t, locks.Lock(t.Context(), b.key, time.Minute, func() error { return nil }), redislock.ErrRedisClientNotFound)
		}
	}},
}

var badInputContract = []behaviour{
	{"a_nil_fn_is_ErrLockFnRequired", func(t *testing.T, b *bed) {
		wantIs(t, b.locks.Lock(t.Context(), b.key, time.Minute, nil), redislock.ErrLockFnRequired)
		wantIs(t, b.locks.LockWithOptions(t.Context(), b.key, options(), nil), redislock.ErrLockFnRequired)
		wantIs(t, b.locks.LockWithToken(t.Context(), b.key, time.Minute, nil), redislock.ErrLockFnRequired)
		wantIs(t, b.locks.LockContext(t.Context(), b.key, options(), nil), redislock.ErrLockFnRequired)
		equal(t, "script calls", b.wire.scripts(), 0)
	}},
	{"a_nil_context_is_an_error", func(t *testing.T, b *bed) {
		var none context.Context
		lock := b.held(t)
		b.wire.reset()
		_, locked := lock.IsLocked(none)
		_, ttl := lock.TTL(none)
		calls := map[string]error{
			"Acquire": lock.Acquire(none), "AcquireWait": lock.AcquireWait(none), "Release": lock.Release(none),
			"AcquireWithRetry": lock.AcquireWithRetry(none, redislock.RetryStrategy{}), "Renew": lock.Renew(none, time.Minute),
			"IsLocked": locked, "TTL": ttl, "UnlockByValue": b.locks.UnlockByValue(none, b.key, lock.GetValue()),
			"Lock": b.locks.Lock(none, b.key, time.Minute, func() error { return nil }), "Shutdown": redislock.Shutdown(none),
			"LockWithToken": b.locks.LockWithToken(none, b.key, time.Minute, func(int64) error { return nil }),
		}
		for name, call := range entries(t, b.locks) {
			calls[name] = call(none, b.key, options())
		}
		for name, err := range calls {
			if err == nil {
				t.Errorf("%s with a nil context: no error", name)
			}
		}
		equal(t, "script calls", b.wire.scripts(), 0)
		ctx, cancel := lock.Context(none)
		defer cancel()
		must(t, "Err of a context without a parent", ctx.Err())
	}},
	{"nil_and_zero_locks_give_errors_and_zeros", func(t *testing.T, _ *bed) {
		for name, lock := range map[string]*redislock.RedisLock{"nil": nil, "zero": {}} {
			ctx := t.Context()
			_, locked := lock.IsLocked(ctx)
			_, ttl := lock.TTL(ctx)
			for call, err := range map[string]error{
				"Acquire": lock.Acquire(ctx), "AcquireWait": lock.AcquireWait(ctx), "Release": lock.Release(ctx), "IsLocked": locked, "TTL": ttl,
				"AcquireWithRetry": lock.AcquireWithRetry(ctx, redislock.RetryStrategy{}), "Renew": lock.Renew(ctx, time.Minute), "Err": lock.Err(),
			} {
				if err == nil {
					t.Errorf("%s of a %s lock: no error", call, name)
				}
			}
			wantIs(t, lock.Err(), redislock.ErrLockNotHeld)
			lock.EnableAutoRenew(options())
			equal(t, "GetKey", lock.GetKey(), "")
			equal(t, "GetToken", lock.GetToken(), 0)
			equal(t, "GetValue", lock.GetValue(), "")
			equal(t, "GetExpiration", lock.GetExpiration(), 0)
			equal(t, "GetAcquiredAt", lock.GetAcquiredAt().IsZero(), true)
			equal(t, "GetExpiresAt", lock.GetExpiresAt().IsZero(), true)
			equal(t, "GetRemainingTime", lock.GetRemainingTime(), 0)
			equal(t, "IsExpired", lock.IsExpired(), true)
			left, expired := lock.GetStatus()
			equal(t, "GetStatus", left, 0)
			equal(t, "GetStatus", expired, true)
			equal(t, "Done is closed", isClosed(lock.Done()), true)
			held, cancel := lock.Context(ctx)
			wantIs(t, context.Cause(held), redislock.ErrLockNotHeld)
			cancel()
		}
	}},
	{"nil_errors_give_text_and_no_match", func(t *testing.T, _ *bed) {
		var none *redislock.LockError
		if none.Error() == "" || none.Unwrap() != nil || none.Is(redislock.ErrLockLost) {
			t.Error("a nil *LockError is not harmless")
		}
		equal(t, "IsLockError of nil", redislock.IsLockError(nil, redislock.ErrCodeLockLost), false)
		equal(t, "IsLockError of a stranger", redislock.IsLockError(errors.New("x"), redislock.ErrCodeLockLost), false)
	}},
}
