package redislock

import (
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// LockCallback is told what happens to every lock of the process. A slow
// callback delays nothing but the caller (acquire, release) or later callbacks
// (renewal, loss), never a renewal; a panic is logged and changes no result.
//
// Shutdown waits for callbacks, so none may call it.
//
// OnLockAcquired and OnLockReleased run in the goroutine that made the call.
// OnLockAcquired is called for every level, OnLockReleased for the last one
// only. OnLockRenewed and OnLockRenewalFailed run on one other goroutine, in
// order per lock.
type LockCallback interface {
	// OnLockAcquired: duration is the lease.
	OnLockAcquired(key string, duration time.Duration)
	// OnLockReleased: duration is the time held, from the first acquisition on.
	OnLockReleased(key string, duration time.Duration)
	// OnLockRenewed: duration is the new lease; for automatic and manual renewals.
	OnLockRenewed(key string, duration time.Duration)
	// OnLockRenewalFailed: once for every loss (error Is ErrLockLost as well as
	// ErrLockRenewalFailed), whether or not the lock was renewed, and once for every manual Renew that failed.
	OnLockRenewalFailed(key string, error error)
	// OnLockAcquireFailed: once for every failed attempt, so several times in one
	// call that retries.
	OnLockAcquireFailed(key string, error error)
}

// NoOpCallback does nothing; embed it to implement only some of the methods.
type NoOpCallback struct{}

// OnLockAcquired does nothing.
func (NoOpCallback) OnLockAcquired(string, time.Duration) {}

// OnLockReleased does nothing.
func (NoOpCallback) OnLockReleased(string, time.Duration) {}

// OnLockRenewed does nothing.
func (NoOpCallback) OnLockRenewed(string, time.Duration) {}

// OnLockRenewalFailed does nothing.
func (NoOpCallback) OnLockRenewalFailed(string, error) {}

// OnLockAcquireFailed does nothing.
func (NoOpCallback) OnLockAcquireFailed(string, error) {}

// installed is the process's callback; the API forces a package variable.
var installed atomic.Pointer[LockCallback]

// SetCallback installs the callback of the whole process; nil: none.
func SetCallback(callback LockCallback) {
	if callback == nil {
		installed.Store(nil)
		return
	}
	installed.Store(&callback)
}

// notify runs call on the installed callback in the caller's goroutine, which
// holds no mutex and no gate.
func notify(call func(LockCallback)) {
	callback := installed.Load()
	if callback == nil {
		return
	}
	dispatch.begin()
	defer dispatch.end()
	defer func() {
		if p := recover(); p != nil {
			logError("redislock: a lock callback panicked: %v\n%s", p, debug.Stack())
		}
	}()
	call(*callback)
}

// maxEvents bounds the memory a callback that hangs can cost. Beyond it a
// renewal goes untold, with a log line; a loss never does.
const maxEvents = 10_000

// dispatcher runs renewal and loss callbacks in order, in a goroutine that
// exists only while there are some.
type dispatcher struct {
	mu      sync.Mutex // guards the rest; no callback runs under it
	queue   []func(LockCallback)
	running bool
	calls   int           // callbacks in flight, of the callers' goroutines too
	idle    chan struct{} // closed when nothing is queued or in flight; nil: nobody waits
	dropped bool
}

var dispatch dispatcher

// renewed queues OnLockRenewed.
func (d *dispatcher) renewed(key string, lease time.Duration) {
	d.add(func(c LockCallback) { c.OnLockRenewed(key, lease) }, true)
}

// failed queues OnLockRenewalFailed.
func (d *dispatcher) failed(key string, err error) {
	d.add(func(c LockCallback) { c.OnLockRenewalFailed(key, err) }, false)
}

func (d *dispatcher) add(call func(LockCallback), mayDrop bool) {
	if installed.Load() == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if mayDrop && len(d.queue) >= maxEvents {
		if !d.dropped {
			d.dropped = true
			logWarn("redislock: %d callbacks are waiting for a slow one: renewals go untold until it returns", len(d.queue))
		}
		return
	}
	d.queue = append(d.queue, call)
	if !d.running {
		d.running = true
		go d.run() // ends when the queue is empty; Shutdown waits for it
	}
}

func (d *dispatcher) run() {
	over := false
	defer func() {
		if !over { // a callback has ended its goroutine (runtime.Goexit)
			go d.run()
		}
	}()
	for {
		d.mu.Lock()
		if len(d.queue) == 0 {
			over = true
			d.running, d.dropped = false, false
			d.settle()
			d.mu.Unlock()
			return
		}
		call := d.queue[0]
		d.queue[0] = nil
		d.queue = d.queue[1:]
		d.mu.Unlock()
		notify(call)
	}
}

// begin and end enclose every callback.
func (d *dispatcher) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
}

func (d *dispatcher) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls--
	d.settle()
}

// settle tells those who wait that nothing is queued or in flight. Under mu.
func (d *dispatcher) settle() {
	if d.idle != nil && !d.running && d.calls == 0 {
		close(d.idle)
		d.idle = nil
	}
}

// done is closed once every callback has returned, those queued too.
func (d *dispatcher) done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.running && d.calls == 0 {
		return closedChan
	}
	if d.idle == nil {
		d.idle = make(chan struct{})
	}
	return d.idle
}

var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
