package redislock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// A hold is no longer active while its release is in flight. Who closes the client
// when Shutdown has returned must not cut that release off.
func TestShutdownWaitsForAReleaseInFlight(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	direct := server.Client(t)
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), ContextTimeoutEnabled: true})
	lock, err := redislock.NewProvider(client).NewLock(t.Context(), "job", redislock.DefaultLockOptions)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	isScript := redistest.Named("evalsha", "eval")
	proxy.DelayRequests(250*time.Millisecond, 1, isScript)
	before := proxy.Count(isScript)
	released := make(chan error, 1)
	go func() { released <- lock.Release(t.Context()) }()
	eventually(t, "the release is on its way", func() bool { return proxy.Count(isScript) > before })
	if err := redislock.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = client.Close()
	if err := <-released; err != nil {
		t.Fatalf("Release while shutting down: %v", err)
	}
	if n := direct.Exists(t.Context(), redislock.HashTag("job")+":owner").Val(); n != 0 {
		t.Fatal("Shutdown returned before the lock was free")
	}
}

// There is nothing to wait for, so the context does not matter: not by chance either.
func TestShutdownOfNothingUnderAnEndedContextSucceeds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 200 {
		succeeds(t, "Shutdown", redislock.Shutdown(ctx))
	}
}

func TestTheErrorOfShutdownMatchesTheContextsErrorAndItsCause(t *testing.T) {
	r := newFaultRig(t)
	lock := r.held(t, faultOptions(5*time.Second))
	cause := errors.New("a signal")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	wantIs(t, redislock.Shutdown(ctx), redislock.ErrRenewalServiceStopped, context.Canceled, cause)
	_ = lock.Release(t.Context())
}

func TestShutdownEndsAWaiter(t *testing.T) {
	r := newFaultRig(t)
	must(t, "SET", r.direct.Set(t.Context(), r.redisKey(":owner"), "another", 2*time.Second).Err())
	lock := r.lock(t, r.ours, faultOptions(5*time.Second))
	waited := async(func() error { return lock.AcquireWait(context.Background()) })
	becomes(t, time.Second, "the waiter has asked", func() bool { return r.proxy.Count(requestsOf(t, "acquire")) > 0 })
	awaitAsleep(t, 1)
	succeeds(t, "Shutdown", redislock.Shutdown(t.Context()))
	select {
	case err := <-waited:
		wantIs(t, err, redislock.ErrRenewalServiceStopped)
	case <-time.After(time.Second):
		t.Error("the waiter waits on, a second after Shutdown has returned")
		if err := <-waited; err == nil {
			_ = lock.Release(context.Background())
		}
	}
}

func TestShutdownLetsNoAcquireInFlightSucceedAfterIt(t *testing.T) {
	r := newFaultRig(t)
	lock, got := r.acquiring(t, 150*time.Millisecond)
	// One that succeeds is an active lock, for which Shutdown waits.
	ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
	defer cancel()
	err := redislock.Shutdown(ctx)
	if acquired := closes(t, "the end of Acquire", got); acquired != nil {
		succeeds(t, "Shutdown", err)
		return
	}
	if err == nil {
		t.Error("Shutdown found nothing active, and then a lock was acquired")
	}
	_ = lock.Release(t.Context())
}

// Who closes the client after it has to know that a call was cut off.
func TestShutdownWhoseTimeIsUpSaysThatCallsWereInFlight(t *testing.T) {
	r := newFaultRig(t)
	lock, got := r.acquiring(t, 400*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := redislock.Shutdown(ctx)
	wantIs(t, err, redislock.ErrRenewalServiceStopped, context.DeadlineExceeded)
	if err != nil && !strings.Contains(err.Error(), "1 acquires or releases in flight") {
		t.Errorf("the error does not say how many: %v", err)
	}
	_ = closes(t, "the end of Acquire", got)
	_ = lock.Release(t.Context())
}

func TestShutdownWaitsForOnLockReleased(t *testing.T) {
	r := newFaultRig(t)
	begun := make(chan struct{})
	var over atomic.Bool
	callBack(t, hooks{released: func() {
		close(begun)
		time.Sleep(400 * time.Millisecond)
		over.Store(true)
	}})
	lock := r.held(t, faultOptions(5*time.Second))
	released := async(func() error { return lock.Release(context.Background()) })
	closes(t, "OnLockReleased", begun)
	succeeds(t, "Shutdown", redislock.Shutdown(t.Context()))
	equal(t, "OnLockReleased had returned", over.Load(), true)
	succeeds(t, "Release", <-released)
}

func TestShutdownDoesNotWaitForThoseWhoAsk(t *testing.T) {
	r := newFaultRig(t)
	options := faultOptions(time.Minute)
	options.RenewalEnabled = false
	lock := r.held(t, options)
	isQuestion := requestsOf(t, "status")
	r.proxy.DelayReplies(20*time.Millisecond, 1_000_000, isQuestion)
	asking, stop := context.WithCancel(t.Context())
	var askers sync.WaitGroup
	for range 20 {
		askers.Go(func() {
			for asking.Err() == nil {
				_, _ = lock.IsLocked(context.Background())
			}
		})
	}
	becomes(t, 2*time.Second, "questions are in flight", func() bool { return r.proxy.Count(isQuestion) > 40 })
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := redislock.Shutdown(ctx)
	inTime := ctx.Err() == nil
	stop()
	askers.Wait()
	succeeds(t, "Shutdown", err)
	equal(t, "Shutdown returned before its time was up", inTime, true)
	_ = lock.Release(t.Context())
}

// A lease without renewal is not waited for. When it runs out after Shutdown, nothing
// is cleaned up behind it, however its acquire was answered.
func TestNothingIsSentForALeaseThatRunsOutAfterShutdown(t *testing.T) {
	r := newFaultRig(t)
	options := faultOptions(300 * time.Millisecond)
	options.RenewalEnabled = false
	r.proxy.DropReplies(1, requestsOf(t, "acquire"))
	lock := r.held(t, options)
	must(t, "Shutdown", redislock.Shutdown(t.Context()))
	sent := r.proxy.Count(nil)
	closes(t, "Done", lock.Done())
	stays(t, 300*time.Millisecond, "nothing is sent", func() bool { return r.proxy.Count(nil) == sent })
}
