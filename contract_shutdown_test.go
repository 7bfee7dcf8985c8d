package redislock_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// soon is a context for a Shutdown that has to end by itself before it.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// shuttingDown starts a Shutdown and returns once it refuses new locks.
func shuttingDown(t *testing.T, b *bed, ctx context.Context) <-chan error {
	t.Helper()
	got := async(func() error { return redislock.Shutdown(ctx) })
	probe := lockOf(t, b.locks, b.key+":probe")
	eventually(t, "Shutdown refuses new locks", func() bool {
		err := probe.Acquire(context.Background())
		if err == nil {
			_ = probe.Release(context.Background())
		}
		return errors.Is(err, redislock.ErrRenewalServiceStopped)
	})
	return got
}

var shutdownContract = []behaviour{
	{"Shutdown_without_locks_returns_at_once", func(t *testing.T, _ *bed) {
		must(t, "Shutdown", closes(t, "Shutdown returns", async(func() error { return redislock.Shutdown(context.Background()) })))
		must(t, "a second Shutdown", redislock.Shutdown(soon(t)))
	}},
	{"Shutdown_waits_for_the_holders_and_keeps_their_leases_meanwhile", func(t *testing.T, b *bed) {
		lock := b.held(t, renewed, expiration(lease))
		got := shuttingDown(t, b, soon(t))
		staysHeld(t, b, lock)
		equal(t, "Shutdown has returned", isClosed(got), false)
		must(t, "Release", lock.Release(t.Context()))
		must(t, "Shutdown", closes(t, "Shutdown returns", got))
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
	}},
	{"while_Shutdown_runs_new_acquires_get_ErrRenewalServiceStopped", func(t *testing.T, b *bed) {
		lock := b.held(t, renewed)
		got := shuttingDown(t, b, soon(t))
		other := lockOf(t, b.locks, b.key+":2")
		wantIs(t, other.Acquire(t.Context()), redislock.ErrRenewalServiceStopped)
		wantIs(t, other.AcquireWait(t.Context()), redislock.ErrRenewalServiceStopped)
		wantIs(t, other.AcquireWithRetry(t.Context(), strategy(3, time.Millisecond)), redislock.ErrRenewalServiceStopped)
		fresh := lockOf(t, b.provider(t), b.key+":2") // a client without any hold
		wantIs(t, fresh.Acquire(t.Context()), redislock.ErrRenewalServiceStopped)
		b2 := *b
		b2.key = b.key + ":2"
		for _, run := range runners(&b2) {
			err := run(t.Context(), func() error { t.Error("fn has run"); return nil })
			wantIs(t, err, redislock.ErrRenewalServiceStopped)
		}
		equal(t, "the owner key", b2.get(t, b2.ownerKey()), "")
		must(t, "Release", lock.Release(t.Context()))
		must(t, "Shutdown", closes(t, "Shutdown returns", got))
	}},
	{"while_Shutdown_runs_waiters_get_ErrRenewalServiceStopped", func(t *testing.T, b *bed) {
		lock := b.held(t, renewed)
		var waiters []<-chan error
		for range 3 {
			waiter := b.lock(t)
			waiters = append(waiters, waiting(t, b, func() error { return waiter.AcquireWait(t.Context()) }))
		}
		waiters = append(waiters, waiting(t, b, func() error {
			return b.locks.LockWithOptions(t.Context(), b.key, options(wait(-1)), func() error { return nil })
		}))
		got := shuttingDown(t, b, soon(t))
		for _, waiter := range waiters {
			wantIs(t, closes(t, "a waiter returns", waiter), redislock.ErrRenewalServiceStopped)
		}
		must(t, "Release", lock.Release(t.Context()))
		must(t, "Shutdown", closes(t, "Shutdown returns", got))
	}},
	{"while_Shutdown_runs_holders_can_reenter_renew_and_release", func(t *testing.T, b *bed) {
		lock := b.held(t, renewed)
		got := shuttingDown(t, b, soon(t))
		must(t, "a reentry", lock.Acquire(t.Context()))
		must(t, "Renew", lock.Renew(t.Context(), time.Minute))
		must(t, "a partial Release", lock.Release(t.Context()))
		equal(t, "Shutdown has returned", isClosed(got), false)
		must(t, "Release", lock.Release(t.Context()))
		must(t, "Shutdown", closes(t, "Shutdown returns", got))
	}},
	{"a_Shutdown_whose_context_ends_first_tells_how_many_are_active_and_deletes_no_key", func(t *testing.T, b *bed) {
		const n = 13
		var locks []*redislock.RedisLock
		for i := range n {
			lock := lockOf(t, b.locks, b.key+strings.Repeat("x", i), renewed)
			must(t, "Acquire", lock.Acquire(t.Context()))
			locks = append(locks, lock)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err := redislock.Shutdown(ctx)
		if err == nil || !strings.Contains(err.Error(), "13") {
			t.Errorf("Shutdown: %v, want an error with the number 13", err)
		}
		wantIs(t, err, context.DeadlineExceeded)
		for _, lock := range locks {
			equal(t, "the owner", b.get(t, "{lynx:lock:"+lock.GetKey()+"}:owner"), lock.GetValue())
			must(t, "Release", lock.Release(t.Context()))
		}
	}},
	{"after_Shutdown_a_new_lock_starts_the_manager_again", func(t *testing.T, b *bed) {
		for range 3 {
			lock := b.held(t, renewed)
			must(t, "Release", lock.Release(t.Context()))
			must(t, "Shutdown", redislock.Shutdown(soon(t)))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		left := b.held(t, renewed)
		if redislock.Shutdown(ctx) == nil {
			t.Error("Shutdown under an ended context, with an active lock: nil")
		}
		must(t, "Release", left.Release(t.Context()))
		staysHeld(t, b, b.held(t, renewed, expiration(lease)))
	}},
	{"lost_locks_are_not_active", func(t *testing.T, b *bed) {
		lock := b.held(t, renewed)
		b.del(t, b.ownerKey())
		_, _ = lock.IsLocked(t.Context())
		wantIs(t, lock.Err(), redislock.ErrLockLost)
		must(t, "Shutdown", closes(t, "Shutdown returns", async(func() error { return redislock.Shutdown(soon(t)) })))
	}},
	{"a_lock_lost_while_Shutdown_waits_ends_the_wait", func(t *testing.T, b *bed) {
		b.held(t, renewed, expiration(lease))
		got := shuttingDown(t, b, soon(t))
		b.del(t, b.ownerKey())
		must(t, "Shutdown", closes(t, "Shutdown returns", got))
	}},
	{"Shutdown_does_not_wait_for_holds_that_are_not_renewed_and_deletes_no_key", func(t *testing.T, b *bed) {
		lock := b.held(t)
		must(t, "Shutdown", closes(t, "Shutdown returns", async(func() error { return redislock.Shutdown(soon(t)) })))
		equal(t, "the owner", b.get(t, b.ownerKey()), lock.GetValue())
		must(t, "Release", lock.Release(t.Context()))
	}},
	{"a_Release_that_failed_does_not_hang_Shutdown", func(t *testing.T, b *bed) {
		lock := b.held(t, renewed, timeout(callTimeout))
		b.wire.refuse()
		if lock.Release(t.Context()) == nil {
			t.Error("Release on a refusing server is nil")
		}
		must(t, "Shutdown", closes(t, "Shutdown returns", async(func() error { return redislock.Shutdown(soon(t)) })))
		b.wire.heal()
	}},
	{"Shutdown_waits_for_callbacks_in_flight", func(t *testing.T, b *bed) {
		gate := make(chan struct{})
		open := sync.OnceFunc(func() { close(gate) })
		t.Cleanup(open)
		r := b.record(t, func(what string) {
			if what == "renewed" {
				<-gate
			}
		})
		lock := b.held(t)
		must(t, "Renew", lock.Renew(t.Context(), time.Minute))
		r.eventually(t, "renewed", 1)
		must(t, "Release", lock.Release(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		wantIs(t, redislock.Shutdown(ctx), context.DeadlineExceeded)
		got := async(func() error { return redislock.Shutdown(soon(t)) })
		open()
		must(t, "Shutdown", closes(t, "Shutdown returns", got))
	}},
	{"nothing_touches_the_client_after_Shutdown", func(t *testing.T, b *bed) {
		lock := b.held(t, renewed, expiration(lease))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if redislock.Shutdown(ctx) == nil {
			t.Error("Shutdown with an active lock: nil")
		}
		eventually(t, "calls in flight end", func() bool { b.wire.reset(); runtime.Gosched(); return b.wire.scripts() == 0 })
		runsOut(t, lock)
		equal(t, "script calls after Shutdown", b.wire.scripts(), 0)
	}},
	{"start_lock_and_Shutdown_fifty_times_leave_no_goroutines", func(t *testing.T, b *bed) {
		cycle := func() {
			t.Helper()
			lock := b.held(t, renewed)
			must(t, "Renew", lock.Renew(t.Context(), time.Minute))
			must(t, "Release", lock.Release(t.Context()))
			must(t, "Shutdown", redislock.Shutdown(soon(t)))
		}
		cycle() // connections are open
		before := runtime.NumGoroutine()
		for range 50 {
			cycle()
		}
		eventually(t, "goroutines are back to where they were", func() bool { return runtime.NumGoroutine() <= before })
	}},
}
