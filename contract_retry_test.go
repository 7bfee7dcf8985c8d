package redislock_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

func strategy(retries int, delay time.Duration) redislock.RetryStrategy {
	return redislock.RetryStrategy{MaxRetries: retries, RetryDelay: delay}
}

var retryContract = []behaviour{
	{"MaxRetries_0_1_and_3_make_1_2_and_4_attempts", func(t *testing.T, b *bed) {
		b.held(t)
		for retries, attempts := range map[int]int{0: 1, 1: 2, 3: 4} {
			b.wire.reset()
			err := b.lock(t).AcquireWithRetry(t.Context(), strategy(retries, time.Millisecond))
			equal(t, "attempts of AcquireWithRetry", b.wire.scripts(), attempts)
			wantIs(t, err, redislock.ErrLockAcquireConflict)
			o := options()
			o.RetryStrategy = strategy(retries, time.Millisecond)
			b.wire.reset()
			err = b.locks.LockWithOptions(t.Context(), b.key, o, func() error { t.Error("fn has run"); return nil })
			equal(t, "attempts of LockWithOptions", b.wire.scripts(), attempts)
			wantIs(t, err, redislock.ErrLockAcquireConflict)
		}
	}},
	{"without_retries_a_held_lock_is_a_conflict_only", func(t *testing.T, b *bed) {
		b.held(t)
		err := b.lock(t).AcquireWithRetry(t.Context(), redislock.RetryStrategy{})
		wantIs(t, err, redislock.ErrLockAcquireConflict)
		wantNot(t, err, redislock.ErrMaxRetriesExceeded, redislock.ErrLockAcquireTimeout)
	}},
	{"an_exhausted_budget_is_ErrMaxRetriesExceeded_and_a_conflict", func(t *testing.T, b *bed) {
		b.held(t)
		err := b.lock(t).AcquireWithRetry(t.Context(), strategy(2, time.Millisecond))
		wantIs(t, err, redislock.ErrMaxRetriesExceeded, redislock.ErrLockAcquireConflict)
		var class *redislock.LockError
		if !errors.As(err, &class) {
			t.Errorf("error %v has no *LockError in it", err)
		}
		wantNot(t, err, context.DeadlineExceeded)
	}},
	{"Lock_starts_from_the_default_strategy", func(t *testing.T, b *bed) {
		b.held(t)
		b.wire.reset()
		err := b.locks.Lock(t.Context(), b.key, time.Minute, func() error { t.Error("fn has run"); return nil })
		wantIs(t, err, redislock.ErrMaxRetriesExceeded, redislock.ErrLockAcquireConflict)
		equal(t, "attempts", b.wire.scripts(), redislock.DefaultRetryStrategy.MaxRetries+1)
	}},
	{"LockWithToken_starts_from_the_default_strategy", func(t *testing.T, b *bed) {
		b.held(t)
		b.wire.reset()
		err := b.locks.LockWithToken(t.Context(), b.key, time.Minute, func(int64) error { t.Error("fn has run"); return nil })
		wantIs(t, err, redislock.ErrMaxRetriesExceeded, redislock.ErrLockAcquireConflict)
		equal(t, "attempts", b.wire.scripts(), redislock.DefaultRetryStrategy.MaxRetries+1)
	}},
	{"a_retry_takes_the_lock_once_it_is_free", func(t *testing.T, b *bed) {
		holder, waiter := b.held(t), b.lock(t)
		b.wire.reset()
		got := async(func() error { return waiter.AcquireWithRetry(t.Context(), strategy(100_000, time.Millisecond)) })
		eventually(t, "three attempts", func() bool { return b.wire.scripts() >= 3 })
		must(t, "Release", holder.Release(t.Context()))
		must(t, "AcquireWithRetry", closes(t, "AcquireWithRetry returns", got))
		equal(t, "the owner", b.get(t, b.ownerKey()), waiter.GetValue())
	}},
	{"a_RetryDelay_of_0_never_spins", func(t *testing.T, b *bed) {
		b.held(t)
		b.wire.reset()
		err := b.lock(t).AcquireWithRetry(t.Context(), strategy(20, 0))
		wantIs(t, err, redislock.ErrMaxRetriesExceeded)
		for _, pause := range b.wire.pauses() {
			if pause < time.Millisecond/2 { // a floor of 1 ms, with its jitter
				t.Errorf("a pause of %s between two attempts", pause)
			}
		}
	}},
	{"the_delay_stays_RetryDelay_with_its_jitter", func(t *testing.T, b *bed) {
		b.held(t)
		b.wire.reset()
		// So many that, on a busy machine too, some pause is below the delay, which
		// none would be without a jitter.
		const delay, retries = 60 * time.Millisecond, 16
		_ = b.lock(t).AcquireWithRetry(t.Context(), strategy(retries, delay))
		pauses := b.wire.pauses()
		equal(t, "pauses", len(pauses), retries)
		shortest := slices.Min(pauses)
		if shortest < delay/2 {
			t.Errorf("a pause of %s, want at least half of %s", shortest, delay)
		}
		if shortest >= delay {
			t.Errorf("the shortest pause of %s shows no jitter", shortest)
		}
	}},
	{"with_a_MaxDelay_the_delay_doubles_up_to_it", func(t *testing.T, b *bed) {
		b.held(t)
		b.wire.reset()
		s := redislock.RetryStrategy{MaxRetries: 6, RetryDelay: 4 * time.Millisecond, MaxDelay: 32 * time.Millisecond}
		started := time.Now()
		_ = b.lock(t).AcquireWithRetry(t.Context(), s)
		took := time.Since(started)
		var sum time.Duration
		for i, pause := range b.wire.pauses() {
			least := min(s.RetryDelay<<i, s.MaxDelay) / 2
			if pause < least {
				t.Errorf("pause %d: %s, want at least %s", i, pause, least)
			}
			sum += pause
		}
		if sum > took {
			t.Errorf("pauses of %s in %s", sum, took)
		}
	}},
	{"MaxDelay_is_not_exceeded", func(t *testing.T, b *bed) {
		b.held(t)
		s := redislock.RetryStrategy{MaxRetries: 14, RetryDelay: time.Millisecond, MaxDelay: 2 * time.Millisecond}
		// Unbounded doubling would make the last pause 8 s or more.
		b.wire.reset()
		_ = b.lock(t).AcquireWithRetry(t.Context(), s)
		pauses := b.wire.pauses()
		equal(t, "pauses", len(pauses), 14)
		if last := pauses[len(pauses)-1]; last > 4*time.Second {
			t.Errorf("the last pause took %s", last)
		}
	}},
	{"AcquireWithRetry_refuses_a_bad_strategy_before_any_attempt", func(t *testing.T, b *bed) {
		for name, s := range map[string]redislock.RetryStrategy{
			"negative retries": strategy(-1, 0), "negative delay": strategy(1, -1), "negative longest delay": {MaxRetries: 1, MaxDelay: -1},
		} {
			wantIs(t, b.lock(t).AcquireWithRetry(t.Context(), s), redislock.ErrInvalidOptions)
			equal(t, name+": script calls", b.wire.scripts(), 0)
		}
	}},
	{"a_failure_that_may_pass_is_retried", func(t *testing.T, b *bed) {
		b.wire.refuse()
		lock := b.lock(t, timeout(callTimeout))
		got := async(func() error { return lock.AcquireWithRetry(t.Context(), strategy(100_000, time.Millisecond)) })
		eventually(t, "a few attempts", func() bool { return b.wire.scripts() >= 3 })
		b.wire.heal()
		must(t, "AcquireWithRetry", closes(t, "AcquireWithRetry returns", got))
	}},
	{"a_budget_exhausted_by_failures_keeps_their_cause", func(t *testing.T, b *bed) {
		b.wire.refuse()
		lock := b.lock(t, timeout(callTimeout))
		err := lock.AcquireWithRetry(t.Context(), strategy(1, time.Millisecond))
		wantIs(t, err, redislock.ErrLockAcquireFailed)
		wantNot(t, err, redislock.ErrLockAcquireConflict)
	}},
}
