package redislock_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// hooks is a callback of functions; nil ones do nothing.
type hooks struct {
	redislock.NoOpCallback
	acquired, released, renewed func()
	failed                      func(error)
}

func (h hooks) OnLockAcquired(string, time.Duration) { call(h.acquired) }
func (h hooks) OnLockReleased(string, time.Duration) { call(h.released) }
func (h hooks) OnLockRenewed(string, time.Duration)  { call(h.renewed) }

func (h hooks) OnLockRenewalFailed(_ string, err error) {
	if h.failed != nil {
		h.failed(err)
	}
}

func call(f func()) {
	if f != nil {
		f()
	}
}

// callBack sets the process's callback until the end of the test.
func callBack(t *testing.T, h hooks) {
	t.Helper()
	redislock.SetCallback(h)
	t.Cleanup(func() { redislock.SetCallback(nil) })
}

// A callback that calls t.FailNow ends its goroutine.
func TestACallbackThatEndsItsGoroutineLeavesNoLockBehind(t *testing.T) {
	r := newFaultRig(t)
	callBack(t, hooks{acquired: runtime.Goexit})
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = r.ours.LockWithOptions(context.Background(), r.key, faultOptions(500*time.Millisecond), func() error { return nil })
	}()
	closes(t, "the end of the goroutine", over)
	r.ownerIsGone(t, time.Second)
}

func TestCallbacksGoOnAfterOneThatEndsItsGoroutine(t *testing.T) {
	r := newFaultRig(t)
	var calls atomic.Int32
	callBack(t, hooks{renewed: func() {
		calls.Add(1)
		runtime.Goexit()
	}})
	lock := r.held(t, faultOptions(300*time.Millisecond))
	becomes(t, 2*time.Second, "a second OnLockRenewed", func() bool { return calls.Load() > 1 })
	succeeds(t, "Release", lock.Release(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	succeeds(t, "Shutdown", redislock.Shutdown(ctx))
}

func TestOnLockReleasedIsCalledForAReleaseThatTheNextAcquireSettles(t *testing.T) {
	r := newFaultRig(t)
	var released atomic.Int32
	callBack(t, hooks{released: func() { released.Add(1) }})
	lock := r.held(t, faultOptions(5*time.Second))
	r.proxy.DropReplies(2, requestsOf(t, "release"))
	if err := lock.Release(t.Context()); err == nil {
		t.Fatal("a Release without an answer succeeded")
	}
	succeeds(t, "Acquire", lock.Acquire(t.Context()))
	equal(t, "OnLockReleased calls", released.Load(), 1)
	succeeds(t, "Release", lock.Release(t.Context()))
}

func TestAReleaseThatAClosedClientNeverSentIsNotReported(t *testing.T) {
	client := redistest.Start(t).Client(t)
	var released atomic.Int64
	callBack(t, hooks{released: func() { released.Add(1) }})
	lock := lockOf(t, redislock.NewProvider(client), rigKey())
	must(t, "Acquire", lock.Acquire(t.Context()))
	must(t, "Close", client.Close())
	wantIs(t, lock.Release(t.Context()), redislock.ErrRedisClientNotFound)
	for range 3 {
		wantIs(t, lock.Acquire(t.Context()), redislock.ErrRedisClientNotFound)
	}
	equal(t, "calls of OnLockReleased", released.Load(), 0)
}
