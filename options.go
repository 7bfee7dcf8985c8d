package redislock

import (
	"fmt"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-lynx/lynx-redis-lock/internal/slot"
)

// Defaults of zero fields. They do not follow DefaultLockOptions, which a program
// may change for its own Lock calls.
const (
	defaultThreshold = 0.3
	defaultPoolSize  = 50
	defaultTokenTTL  = 7 * 24 * time.Hour
)

// MaxLockKeyLength is the longest lock key, in bytes.
const MaxLockKeyLength = 255

// minExpiration is the shortest lease: the safety margin (1 % + 2 ms) and one
// round trip would eat a shorter one.
const minExpiration = 10 * time.Millisecond

// minRetryDelay is the floor of a retry delay of 0, so that waiting never spins.
const minRetryDelay = 5 * time.Millisecond

// LockOptions configure a lock. They are copied, defaulted and checked once, by
// NewLock and the Lock… functions.
type LockOptions struct {
	// Expiration is the lease: what Redis keeps of a lock whose holder died. At
	// least 10 ms, used in whole milliseconds. It has no default.
	Expiration time.Duration
	// RetryStrategy is how the Lock… functions try again on a held lock, when
	// WaitTimeout is 0. Its zero value: one attempt.
	RetryStrategy RetryStrategy
	// RenewalEnabled renews the lease from the acquisition on until the release.
	RenewalEnabled bool
	// RenewalThreshold is the share of the lease that is left when it is renewed,
	// 0 to 1; 0: 0.3. A renewal never goes out in the first half of a lease and
	// always early enough for one call to be answered. Up to a tenth of the lease
	// earlier than that come the first one and one after a failed or late one, so
	// that many locks are not due together for ever; and of 100 locks or more, those
	// that are due within a fiftieth of their lease go out with others.
	RenewalThreshold float64
	// WorkerPoolSize bounds the renewal calls in flight for one client, each of
	// which is for up to 100 locks; the largest one asked for counts. 0: 50.
	WorkerPoolSize int
	// RenewalConfig shapes the automatic renewals; its zero value: DefaultRenewalConfig.
	RenewalConfig RenewalConfig
	// ScriptCallTimeout bounds each of the lock's own calls (acquire, release,
	// renew, IsLocked, TTL) with its re-sends. 0: no own timeout; the context's
	// deadline or else twice the client's read timeout bounds the call.
	ScriptCallTimeout time.Duration
	// TokenTTL is how long the fencing counter outlives the lease, at least 1 ms;
	// 0: 7 days. Unused with a FenceKey.
	TokenTTL time.Duration
	// WaitTimeout > 0: the Lock… functions wait this long for a held lock, in
	// arrival order within the process; < 0: until ctx ends; 0: RetryStrategy.
	WaitTimeout time.Duration
	// FenceKey is the caller's own fencing counter: incremented atomically with
	// each new acquisition, from 1, without a TTL, never deleted. One FenceKey
	// serves one lock. In a Cluster it must share the lock's slot, see HashTag.
	FenceKey string
	// TokenMode is how the token counts.
	TokenMode TokenMode
}

// RetryStrategy is how often and how soon an attempt on a held lock is repeated.
type RetryStrategy struct {
	// MaxRetries counts the retries after the first attempt: 3 make 4 attempts.
	MaxRetries int
	// RetryDelay is the pause between two attempts, times a random 0.5 to 1.5.
	// 0: 5 ms.
	RetryDelay time.Duration
	// MaxDelay above RetryDelay: the pause doubles from RetryDelay up to
	// MaxDelay, with the same jitter. 0: it stays RetryDelay.
	MaxDelay time.Duration
}

// RenewalConfig shapes the automatic renewals of a lock. Whatever it says, a
// renewal that got no answer is tried again while lease time is left. An entirely
// zero RenewalConfig is DefaultRenewalConfig; in a filled one CallTimeout 0
// means no own timeout and the other zeros take the default.
type RenewalConfig struct {
	// MaxRetries is how often the pause between two tries of a renewal doubles.
	MaxRetries int
	// BaseDelay is the first pause, MaxDelay the longest.
	BaseDelay, MaxDelay time.Duration
	// CheckInterval is the most a renewal may be behind its due time on a machine
	// that keeps up. Renewals are timed exactly, so nothing polls at it.
	CheckInterval time.Duration
	// CallTimeout bounds one try with its re-send; the lease's end bounds it too.
	CallTimeout time.Duration
}

// TokenMode is how fencing tokens count.
type TokenMode int

const (
	// TokenCounter counts 1, 2, 3 … A counter that Redis lost starts again at 1.
	TokenCounter TokenMode = iota
	// TokenClock gives max(previous+1, the server's time in µs): it still grows
	// after the counter itself was lost, as long as the server's clock does not
	// go back.
	TokenClock
)

// DefaultRetryStrategy makes four attempts about 100 ms apart.
var DefaultRetryStrategy = RetryStrategy{MaxRetries: 3, RetryDelay: 100 * time.Millisecond}

// DefaultRenewalConfig is used where a RenewalConfig is entirely zero.
var DefaultRenewalConfig = RenewalConfig{
	MaxRetries: 4, BaseDelay: 100 * time.Millisecond, MaxDelay: 800 * time.Millisecond,
	CheckInterval: 300 * time.Millisecond, CallTimeout: 600 * time.Millisecond,
}

// DefaultLockOptions is where Lock, LockWithRetry and LockWithToken start from.
var DefaultLockOptions = LockOptions{
	Expiration: 30 * time.Second, RetryStrategy: DefaultRetryStrategy,
	RenewalEnabled: true, RenewalThreshold: defaultThreshold, WorkerPoolSize: defaultPoolSize,
	RenewalConfig: DefaultRenewalConfig, ScriptCallTimeout: 600 * time.Millisecond, TokenTTL: defaultTokenTTL,
}

// ValidateKey checks a lock key: 1 to 255 bytes of printable ASCII without '{'
// and '}', which would move its Redis keys to other Cluster slots.
func ValidateKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("lock key is empty")
	case len(key) > MaxLockKeyLength:
		return fmt.Errorf("lock key of %d bytes is longer than %d", len(key), MaxLockKeyLength)
	}
	for i := range len(key) {
		if c := key[i]; c < ' ' || c > '~' || c == '{' || c == '}' {
			return fmt.Errorf("lock key %q has %q at byte %d: only printable ASCII without braces is allowed", key, c, i)
		}
	}
	return nil
}

// Validate checks every option. The error is a plain one that names the option,
// its value and the rule.
func (lo *LockOptions) Validate() error {
	switch {
	case lo == nil:
		return fmt.Errorf("options are nil")
	case lo.Expiration < minExpiration:
		return fmt.Errorf("Expiration %s is below %s", lo.Expiration, minExpiration)
	case !(lo.RenewalThreshold >= 0 && lo.RenewalThreshold <= 1): // NaN is neither
		return fmt.Errorf("RenewalThreshold %v is not within 0 to 1", lo.RenewalThreshold)
	case lo.WorkerPoolSize < 0:
		return fmt.Errorf("WorkerPoolSize %d is negative", lo.WorkerPoolSize)
	case lo.ScriptCallTimeout < 0:
		return fmt.Errorf("ScriptCallTimeout %s is negative", lo.ScriptCallTimeout)
	case lo.TokenTTL != 0 && lo.TokenTTL < time.Millisecond:
		return fmt.Errorf("TokenTTL %s is below 1ms", lo.TokenTTL)
	case lo.TokenMode != TokenCounter && lo.TokenMode != TokenClock:
		return fmt.Errorf("TokenMode %d is neither TokenCounter nor TokenClock", lo.TokenMode)
	}
	if err := lo.RetryStrategy.Validate(); err != nil {
		return err
	}
	if err := lo.RenewalConfig.validate(); err != nil {
		return err
	}
	return checkFenceKey(lo.FenceKey)
}

// Validate checks the strategy. The error is a plain one that names the field,
// its value and the rule.
func (rs *RetryStrategy) Validate() error {
	switch {
	case rs == nil:
		return fmt.Errorf("retry strategy is nil")
	case rs.MaxRetries < 0:
		return fmt.Errorf("MaxRetries %d is negative", rs.MaxRetries)
	case rs.RetryDelay < 0:
		return fmt.Errorf("RetryDelay %s is negative", rs.RetryDelay)
	case rs.MaxDelay != 0 && rs.MaxDelay < rs.RetryDelay:
		return fmt.Errorf("MaxDelay %s is below RetryDelay %s", rs.MaxDelay, rs.RetryDelay)
	}
	return nil
}

// delay is the pause before the n'th retry (from 0), with its jitter.
func (rs RetryStrategy) delay(n int) time.Duration {
	d := max(rs.RetryDelay, minRetryDelay)
	for range n {
		if d >= rs.MaxDelay/2 {
			d = max(d, rs.MaxDelay)
			break
		}
		d *= 2
	}
	d = min(d, math.MaxInt64/2) // the jitter must not overflow
	return time.Duration((0.5 + rand.Float64()) * float64(d))
}

func (rc RenewalConfig) validate() error {
	for _, f := range []struct {
		name string
		d    time.Duration
	}{{"BaseDelay", rc.BaseDelay}, {"MaxDelay", rc.MaxDelay}, {"CheckInterval", rc.CheckInterval}, {"CallTimeout", rc.CallTimeout}} {
		if f.d < 0 {
			return fmt.Errorf("RenewalConfig.%s %s is negative", f.name, f.d)
		}
	}
	if rc.MaxRetries < 0 {
		return fmt.Errorf("RenewalConfig.MaxRetries %d is negative", rc.MaxRetries)
	}
	if rc.MaxDelay != 0 && rc.MaxDelay < rc.BaseDelay {
		return fmt.Errorf("RenewalConfig.MaxDelay %s is below BaseDelay %s", rc.MaxDelay, rc.BaseDelay)
	}
	return nil
}

func (rc RenewalConfig) withDefaults() RenewalConfig {
	if rc == (RenewalConfig{}) {
		return DefaultRenewalConfig
	}
	orDefault(&rc.MaxRetries, DefaultRenewalConfig.MaxRetries)
	orDefault(&rc.BaseDelay, DefaultRenewalConfig.BaseDelay)
	orDefault(&rc.MaxDelay, max(DefaultRenewalConfig.MaxDelay, rc.BaseDelay))
	rc.BaseDelay = min(rc.BaseDelay, rc.MaxDelay) // a MaxDelay below the default BaseDelay
	orDefault(&rc.CheckInterval, DefaultRenewalConfig.CheckInterval)
	return rc
}

func orDefault[T int | float64 | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// checked is a copy of valid options, zeros replaced by their defaults.
func (lo LockOptions) checked(key string) (LockOptions, error) {
	if err := lo.Validate(); err != nil {
		return lo, newError(ErrInvalidOptions, err, "options of lock %q", key)
	}
	lo.Expiration = lo.Expiration.Truncate(time.Millisecond)
	orDefault(&lo.RenewalThreshold, defaultThreshold)
	orDefault(&lo.WorkerPoolSize, defaultPoolSize)
	orDefault(&lo.TokenTTL, defaultTokenTTL)
	lo.RenewalConfig = lo.RenewalConfig.withDefaults()
	return lo, nil
}

// sharedOptions are some that were used lately, by their hash.
var (
	sharedOptions [64]atomic.Pointer[LockOptions]
	optionsSeed   = maphash.MakeSeed()
)

// shared is a copy that is not to be changed, the same one for many locks: 144 bytes
// are a quarter of a lock.
func (lo LockOptions) shared() *LockOptions {
	place := &sharedOptions[maphash.Comparable(optionsSeed, lo)%uint64(len(sharedOptions))]
	if known := place.Load(); known != nil && *known == lo {
		return known
	}
	place.Store(&lo)
	return &lo
}

// checkFenceKey refuses keys that a lock writes itself: of this lock or of another.
func checkFenceKey(fence string) error {
	if !strings.HasPrefix(fence, tagPrefix) {
		return nil
	}
	_, suffix, _ := strings.Cut(fence, "}")
	if slices.Contains([]string{ownerSuffix, countSuffix, tokenSuffix, roomSuffix}, suffix) || strings.HasPrefix(suffix, markSuffix) {
		return fmt.Errorf("FenceKey %q is one of a lock's own keys", fence)
	}
	return nil
}

// checkFenceSlot refuses, on a Cluster, a FenceKey in another slot than the lock.
func checkFenceSlot(key, fence string) error {
	tag := HashTag(key)
	if a, b := slot.Of(tag), slot.Of(fence); a != b {
		return newError(ErrInvalidOptions, nil, "FenceKey %q is in Cluster slot %d, the lock's key %q in slot %d: "+
			"put HashTag(%q), which is %s, into the FenceKey", fence, b, tag+ownerSuffix, a, key, tag)
	}
	return nil
}
