package redislock_test

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// offline is a provider whose client never speaks: NewLock needs no server.
func offline(tb testing.TB) redislock.Provider {
	tb.Helper()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	tb.Cleanup(func() { _ = client.Close() })
	return redislock.NewProvider(client)
}

// refused checks the error for a bad key or option: a class for NewLock, and plain
// from Validate and ValidateKey.
func refused(t *testing.T, plain, fromNewLock error) {
	t.Helper()
	var class *redislock.LockError
	if plain == nil || errors.As(plain, &class) {
		t.Fatalf("got %v, want a plain error", plain)
	}
	if !errors.Is(fromNewLock, redislock.ErrInvalidOptions) {
		t.Fatalf("NewLock: got %v, want ErrInvalidOptions", fromNewLock)
	}
	if !strings.Contains(fromNewLock.Error(), plain.Error()) {
		t.Fatalf("NewLock's %q does not say what %q does", fromNewLock, plain)
	}
}

func FuzzValidateKey(f *testing.F) {
	for _, key := range []string{
		"", "a", "orders:42", "with space", " ", "~", "\x7f", "\x1f", "a{b", "a}b", "{}", "line\nbreak", "tab\t", "nul\x00",
		"ключ", "\xff\xfe", strings.Repeat("x", 255), strings.Repeat("x", 256), strings.Repeat("é", 128), `quote"`, `back\slash`,
	} {
		f.Add(key)
	}
	locks := offline(f)
	f.Fuzz(func(t *testing.T, key string) {
		valid := len(key) >= 1 && len(key) <= redislock.MaxLockKeyLength
		for i := range len(key) {
			valid = valid && key[i] >= 0x20 && key[i] <= 0x7e && key[i] != '{' && key[i] != '}'
		}
		err := redislock.ValidateKey(key)
		lock, newErr := locks.NewLock(t.Context(), key, redislock.LockOptions{Expiration: time.Second})
		if valid {
			if err != nil || newErr != nil {
				t.Fatalf("key %q: ValidateKey %v, NewLock %v", key, err, newErr)
			}
			if lock.GetKey() != key {
				t.Fatalf("GetKey %q, want %q", lock.GetKey(), key)
			}
			return
		}
		refused(t, err, newErr)
		name := strconv.Quote(key)
		switch {
		case key == "":
			name = "empty"
		case len(key) > redislock.MaxLockKeyLength:
			name = strconv.Itoa(len(key)) // not the whole key
		}
		if !strings.Contains(err.Error(), name) {
			t.Fatalf("error %q does not name %s", err, name)
		}
	})
}

// wrong is a field that is out of its bounds.
type wrong struct {
	field, value string
}

// wrongs is what the contract says about the bounds of options, field by field.
func wrongs(o redislock.LockOptions) (found []wrong) {
	add := func(bad bool, field string, value any) {
		if bad {
			found = append(found, wrong{field, fmt.Sprint(value)})
		}
	}
	add(o.Expiration < 10*time.Millisecond, "Expiration", o.Expiration)
	add(o.TokenTTL != 0 && o.TokenTTL < time.Millisecond, "TokenTTL", o.TokenTTL)
	add(math.IsNaN(o.RenewalThreshold) || o.RenewalThreshold < 0 || o.RenewalThreshold > 1, "RenewalThreshold", o.RenewalThreshold)
	add(o.WorkerPoolSize < 0, "WorkerPoolSize", o.WorkerPoolSize)
	add(o.ScriptCallTimeout < 0, "ScriptCallTimeout", o.ScriptCallTimeout)
	add(o.RetryStrategy.MaxRetries < 0, "MaxRetries", o.RetryStrategy.MaxRetries)
	add(o.RetryStrategy.RetryDelay < 0, "RetryDelay", o.RetryStrategy.RetryDelay)
	add(o.RetryStrategy.MaxDelay < 0, "MaxDelay", o.RetryStrategy.MaxDelay)
	add(o.RenewalConfig.MaxRetries < 0, "RenewalConfig.MaxRetries", o.RenewalConfig.MaxRetries)
	add(o.RenewalConfig.BaseDelay < 0, "RenewalConfig.BaseDelay", o.RenewalConfig.BaseDelay)
	add(o.RenewalConfig.MaxDelay < 0, "RenewalConfig.MaxDelay", o.RenewalConfig.MaxDelay)
	add(o.RenewalConfig.CheckInterval < 0, "RenewalConfig.CheckInterval", o.RenewalConfig.CheckInterval)
	add(o.RenewalConfig.CallTimeout < 0, "RenewalConfig.CallTimeout", o.RenewalConfig.CallTimeout)
	add(o.TokenMode != redislock.TokenCounter && o.TokenMode != redislock.TokenClock, "TokenMode", int(o.TokenMode))
	for _, suffix := range []string{":owner", ":count", ":token"} {
		add(o.FenceKey == redislock.HashTag("k")+suffix, "FenceKey", o.FenceKey)
	}
	return found
}

// undecided are combinations of which the contract says nothing.
func undecided(o redislock.LockOptions) bool {
	backoff := func(first, longest time.Duration) bool { return longest > 0 && longest < first }
	return backoff(o.RetryStrategy.RetryDelay, o.RetryStrategy.MaxDelay) ||
		backoff(o.RenewalConfig.BaseDelay, o.RenewalConfig.MaxDelay) ||
		strings.HasPrefix(o.FenceKey, "{lynx:lock:") // keys of other locks
}

func FuzzLockOptionsValidate(f *testing.F) {
	const s, ms = int64(time.Second), int64(time.Millisecond)
	f.Add(30*s, 3, 100*ms, int64(0), true, 0.3, 50, 4, 100*ms, 800*ms, 300*ms, 600*ms, 600*ms, 7*24*3600*s, int64(0), "", 0)
	f.Add(10*ms, 0, int64(0), int64(0), false, 0.0, 0, 0, int64(0), int64(0), int64(0), int64(0), int64(0), int64(0), int64(0), "", 0)
	f.Add(10*ms-1, 0, int64(0), int64(0), false, 1.0, 0, 0, int64(0), int64(0), int64(0), int64(0), int64(0), ms, -s, "fence", 1)
	f.Add(int64(math.MaxInt64), math.MaxInt, int64(math.MaxInt64), int64(math.MaxInt64), true, math.SmallestNonzeroFloat64, math.MaxInt, math.MaxInt,
		int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MinInt64), "{k}", 2)
	f.Add(int64(math.MinInt64), -1, -s, -s, true, math.NaN(), -1, -1, -s, -s, -s, -s, -s, -s, -s, redislock.HashTag("k")+":owner", -1)
	for _, threshold := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -0.1, 1.1, math.Copysign(0, -1)} {
		f.Add(s, 0, int64(0), int64(0), true, threshold, 0, 0, int64(0), int64(0), int64(0), int64(0), int64(0), int64(0), int64(0), "", 0)
	}
	f.Add(s, 0, int64(0), int64(0), true, 0.5, 0, 0, int64(0), int64(0), int64(0), int64(0), int64(0), ms-1, int64(0), redislock.HashTag("k")+":count", 0)
	locks := offline(f)
	f.Fuzz(func(t *testing.T, expiration int64, retries int, retryDelay, retryMax int64, renew bool, threshold float64, pool, renewRetries int,
		base, longest, check, call, script, tokenTTL, wait int64, fence string, mode int,
	) {
		o := redislock.LockOptions{
			Expiration:     time.Duration(expiration),
			RetryStrategy:  redislock.RetryStrategy{MaxRetries: retries, RetryDelay: time.Duration(retryDelay), MaxDelay: time.Duration(retryMax)},
			RenewalEnabled: renew, RenewalThreshold: threshold, WorkerPoolSize: pool,
			RenewalConfig: redislock.RenewalConfig{
				MaxRetries: renewRetries, BaseDelay: time.Duration(base), MaxDelay: time.Duration(longest),
				CheckInterval: time.Duration(check), CallTimeout: time.Duration(call),
			},
			ScriptCallTimeout: time.Duration(script), TokenTTL: time.Duration(tokenTTL), WaitTimeout: time.Duration(wait),
			FenceKey: fence, TokenMode: redislock.TokenMode(mode),
		}
		err := o.Validate()
		_, newErr := locks.NewLock(t.Context(), "k", o)
		found := wrongs(o)
		switch {
		case len(found) == 0 && undecided(o):
			if (err == nil) != (newErr == nil) {
				t.Fatalf("Validate %v, NewLock %v", err, newErr)
			}
			return
		case len(found) == 0:
			if err != nil || newErr != nil {
				t.Fatalf("valid options: Validate %v, NewLock %v", err, newErr)
			}
			return
		}
		refused(t, err, newErr)
		if undecided(o) {
			return // it may be what the error names
		}
		for _, w := range found {
			if strings.Contains(err.Error(), w.field) && strings.Contains(err.Error(), w.value) {
				return
			}
		}
		t.Fatalf("error %q names none of %v", err, found)
	})
}
