package redislock_test

import (
	"sync"
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// told is one call of a callback.
type told struct {
	what     string
	duration time.Duration
	err      error
}

// recorder writes down what it is told about one key. Others of the process may
// still have something to say.
type recorder struct {
	key    string
	during func(what string) // runs in the callback

	mu   sync.Mutex
	told []told
}

func (r *recorder) note(key, what string, duration time.Duration, err error) {
	if key != r.key {
		return
	}
	r.mu.Lock()
	r.told = append(r.told, told{what, duration, err})
	r.mu.Unlock()
	if r.during != nil {
		r.during(what)
	}
}

func (r *recorder) OnLockAcquired(key string, d time.Duration) { r.note(key, "acquired", d, nil) }
func (r *recorder) OnLockReleased(key string, d time.Duration) { r.note(key, "released", d, nil) }
func (r *recorder) OnLockRenewed(key string, d time.Duration)  { r.note(key, "renewed", d, nil) }
func (r *recorder) OnLockRenewalFailed(key string, err error)  { r.note(key, "renewal failed", 0, err) }

func (r *recorder) OnLockAcquireFailed(key string, err error) { r.note(key, "acquire failed", 0, err) }
func (r *recorder) count(what string) int                     { return len(r.all(what)) }

func (r *recorder) all(what string) (calls []told) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, call := range r.told {
		if call.what == what {
			calls = append(calls, call)
		}
	}
	return calls
}

// exactly is all, whose number has to be right for the test to go on.
func (r *recorder) exactly(t *testing.T, what string, want int) []told {
	t.Helper()
	calls := r.all(what)
	if len(calls) != want {
		t.Fatalf("%d callbacks %q, want %d: %v", len(calls), what, want, calls)
	}
	return calls
}

// eventually is for callbacks that run on a goroutine of their own.
func (r *recorder) eventually(t *testing.T, what string, want int) {
	t.Helper()
	eventually(t, "the callbacks \""+what+"\"", func() bool { return r.count(what) >= want })
}

// record installs a recorder for the test's key.
func (b *bed) record(t *testing.T, during func(what string)) *recorder {
	t.Helper()
	r := &recorder{key: b.key, during: during}
	redislock.SetCallback(r)
	t.Cleanup(func() { redislock.SetCallback(nil) })
	return r
}

// settle waits until every callback that is queued has run.
func settle(t *testing.T) {
	t.Helper()
	must(t, "Shutdown", redislock.Shutdown(soon(t)))
}

var callbackContract = []behaviour{
	{"OnLockAcquired_gives_the_TTL_of_the_lease_for_each_level", func(t *testing.T, b *bed) {
		r := b.record(t, nil)
		lock := b.held(t)
		must(t, "Acquire", lock.Acquire(t.Context()))
		for _, call := range r.exactly(t, "acquired", 2) {
			equal(t, "the duration", call.duration, time.Minute)
		}
	}},
	{"OnLockReleased_gives_the_time_held_on_the_full_release_only", func(t *testing.T, b *bed) {
		r := b.record(t, nil)
		before := time.Now()
		lock := b.held(t)
		after := time.Now()
		time.Sleep(20 * time.Millisecond) // makes a time held that is not 0
		must(t, "Acquire", lock.Acquire(t.Context()))
		must(t, "a partial Release", lock.Release(t.Context()))
		equal(t, "OnLockReleased after a partial release", r.count("released"), 0)
		least := time.Since(after)
		must(t, "Release", lock.Release(t.Context()))
		most := time.Since(before)
		calls := r.exactly(t, "released", 1)
		between(t, "the time held, from the first acquisition on", calls[0].duration, least-time.Nanosecond, most)
		wantIs(t, lock.Release(t.Context()), redislock.ErrLockNotHeld)
		equal(t, "OnLockReleased after a release of nothing", r.count("released"), 1)
	}},
	{"OnLockReleased_is_called_for_the_Lock_functions_and_UnlockByValue", func(t *testing.T, b *bed) {
		r := b.record(t, nil)
		must(t, "LockWithOptions", b.locks.LockWithOptions(t.Context(), b.key, options(), func() error { return nil }))
		equal(t, "OnLockReleased", r.count("released"), 1)
		lock := b.held(t)
		must(t, "UnlockByValue", b.provider(t).UnlockByValue(t.Context(), b.key, lock.GetValue()))
		equal(t, "OnLockReleased", r.count("released"), 2)
		equal(t, "OnLockAcquired", r.count("acquired"), 2)
	}},
	{"OnLockAcquireFailed_is_called_for_each_failed_attempt", func(t *testing.T, b *bed) {
		b.held(t)
		for retries, attempts := range map[int]int{0: 1, 1: 2, 3: 4} {
			r := b.record(t, nil)
			before := samples(t)
			_ = b.lock(t).AcquireWithRetry(t.Context(), strategy(retries, time.Millisecond))
			for _, call := range r.exactly(t, "acquire failed", attempts) {
				wantIs(t, call.err, redislock.ErrLockAcquireConflict)
				wantNot(t, call.err, redislock.ErrMaxRetriesExceeded)
			}
			after := samples(t)
			name := `lynx_redis_lock_acquire_total{result="conflict"}`
			equal(t, name, after[name]-before[name], float64(attempts))
		}
	}},
	{"OnLockAcquireFailed_tells_a_Redis_failure", func(t *testing.T, b *bed) {
		r := b.record(t, nil)
		b.set(t, b.tokenKey(), "abc", time.Minute)
		_ = b.lock(t).Acquire(t.Context())
		calls := r.exactly(t, "acquire failed", 1)
		wantIs(t, calls[0].err, redislock.ErrLockAcquireFailed)
	}},
	{"OnLockRenewed_gives_the_TTL_for_manual_and_automatic_renewals", func(t *testing.T, b *bed) {
		r := b.record(t, nil)
		lock := b.held(t, renewed)
		must(t, "Renew", lock.Renew(t.Context(), lease))
		r.eventually(t, "renewed", 3)
		must(t, "Release", lock.Release(t.Context()))
		settle(t)
		for _, call := range r.all("renewed") {
			equal(t, "the duration", call.duration, lease)
		}
		equal(t, "OnLockRenewalFailed", r.count("renewal failed"), 0)
	}},
	{"a_reentry_is_no_renewal", func(t *testing.T, b *bed) {
		r := b.record(t, nil)
		lock := b.held(t)
		must(t, "Acquire", lock.Acquire(t.Context()))
		settle(t)
		equal(t, "OnLockRenewed", r.count("renewed"), 0)
	}},
	{"a_nil_callback_is_none_and_NoOpCallback_does_nothing", func(t *testing.T, b *bed) {
		r := b.record(t, nil)
		redislock.SetCallback(redislock.NoOpCallback{})
		lock := b.held(t)
		redislock.SetCallback(nil)
		must(t, "Renew", lock.Renew(t.Context(), time.Minute))
		must(t, "Release", lock.Release(t.Context()))
		settle(t)
		for _, what := range []string{"acquired", "renewed", "released"} {
			r.exactly(t, what, 0)
		}
	}},
	{"a_slow_OnLockAcquired_that_outlasts_the_lease_keeps_fn_from_running", func(t *testing.T, b *bed) {
		b.record(t, func(what string) {
			if what == "acquired" {
				time.Sleep(200 * time.Millisecond) // the fault itself
			}
		})
		ran := false
		err := b.locks.LockWithOptions(t.Context(), b.key, options(expiration(100*time.Millisecond)), func() error { ran = true; return nil })
		equal(t, "fn has run", ran, false)
		wantIs(t, err, redislock.ErrLockNotHeld, redislock.ErrLockLost)
	}},
	{"a_callback_that_blocks_delays_no_renewal", func(t *testing.T, b *bed) {
		gate := make(chan struct{})
		open := sync.OnceFunc(func() { close(gate) })
		t.Cleanup(open)
		r := b.record(t, func(what string) {
			if what == "renewed" {
				<-gate
			}
		})
		lock := b.held(t, renewed, expiration(lease))
		r.eventually(t, "renewed", 1)
		staysHeld(t, b, lock)
		must(t, "Release", closes(t, "Release returns", async(func() error { return lock.Release(t.Context()) })))
		equal(t, "OnLockRenewed so far", r.count("renewed"), 1)
		open()
		settle(t)
		if n := r.count("renewed"); n < 2 {
			t.Errorf("OnLockRenewed %d times: the ones behind the slow one are lost", n)
		}
	}},
	{"a_callback_may_use_the_lock", func(t *testing.T, b *bed) {
		var lock *redislock.RedisLock
		errs := make(chan error, 100)
		b.record(t, func(what string) {
			switch what {
			case "acquired":
				errs <- lock.Renew(t.Context(), time.Minute)
			case "renewed":
				_, err := lock.IsLocked(t.Context())
				errs <- err
			}
		})
		lock = b.lock(t)
		must(t, "Acquire", closes(t, "Acquire returns", async(func() error { return lock.Acquire(t.Context()) })))
		must(t, "Renew in OnLockAcquired", closes(t, "OnLockAcquired ends", errs))
		must(t, "IsLocked in OnLockRenewed", closes(t, "OnLockRenewed ends", errs))
	}},
}
