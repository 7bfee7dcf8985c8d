package redislock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/go-lynx/lynx-redis-lock/internal/timeheap"
)

// registry lists the managers that have something to do, for what concerns the
// whole process: Shutdown, GetStats, UnlockByValue.
type registry struct {
	draining atomic.Int32

	mu       sync.Mutex // guards managers; nothing else is locked under it
	managers map[*manager]struct{}
}

var process = registry{managers: make(map[*manager]struct{})}

// enlist is false while Shutdown runs: it would not see the manager any more.
func (r *registry) enlist(m *manager) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining.Load() > 0 {
		return false
	}
	r.managers[m] = struct{}{}
	return true
}

func (r *registry) enlistAnyway(m *manager) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.managers[m] = struct{}{}
}

// delist strikes off a manager without calls in flight. A call that begins at this
// moment enlists it again.
func (r *registry) delist(m *manager) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.calls.Load() == 0 {
		delete(r.managers, m)
	}
}

func (r *registry) list() []*manager {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]*manager, 0, len(r.managers))
	for m := range r.managers {
		list = append(list, m)
	}
	return list
}

// find is the hold of this process with that owner value.
func (r *registry) find(value string) *hold {
	for _, m := range r.list() {
		if h := m.find(value); h != nil {
			return h
		}
	}
	return nil
}

// load is how many renewals wait for a worker, and the largest worker limit.
func (r *registry) load() (waiting, limit int) {
	limit = defaultPoolSize
	for _, m := range r.list() {
		m.mu.Lock()
		waiting += m.ready.Len()
		limit = max(limit, m.limit)
		m.mu.Unlock()
	}
	return waiting, limit
}

// Shutdown waits until no lock is active (held and renewed) or ctx ends, and then
// stops every goroutine of the package. Meanwhile holders keep their leases and
// may reenter, renew and release; new acquisitions and waiters get
// ErrRenewalServiceStopped. No key of a hold is deleted in Redis.
//
// When ctx ends first, the error says how many locks are still active, and how many
// acquires and releases in flight, and matches ctx's error; these locks are not renewed
// any more and end at their own deadline. After Shutdown the package can be used again.
// Do not call it from a callback: it waits for those in flight to return.
func Shutdown(ctx context.Context) error {
	if ctx == nil {
		return newError(ErrInvalidOptions, nil, "Shutdown with a nil context")
	}
	process.mu.Lock()
	process.draining.Add(1)
	process.mu.Unlock()
	defer process.draining.Add(-1)

	var drains sync.WaitGroup
	var active, calls atomic.Int64
	for _, m := range process.list() {
		drains.Go(func() {
			left := m.drain(ctx)
			active.Add(int64(left.active))
			calls.Add(int64(left.calls))
		})
	}
	drains.Wait()
	return drained(ctx, leftOver{int(active.Load()), int(calls.Load())})
}

// leftOver is what a drain's time was not enough for.
type leftOver struct {
	active int // holds under renewal
	calls  int // acquires and releases in flight
}

// drained waits for the callbacks that are under way and words the result.
func drained(ctx context.Context, left leftOver) error {
	timeIsUp := func(what string) error {
		return newError(ErrRenewalServiceStopped, errors.Join(ctx.Err(), context.Cause(ctx)),
			"%d locks were still active when the time was up%s", left.active, what)
	}
	if left.calls > 0 {
		return timeIsUp(fmt.Sprintf(", and %d acquires or releases in flight", left.calls))
	}
	if left.active > 0 {
		return timeIsUp("")
	}
	done := dispatch.done()
	select {
	case <-done:
		return nil
	default:
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return timeIsUp(", but callbacks still ran")
	}
}

// drain waits until none of the manager's holds is under renewal and no call is in
// flight, gives its cleanups one call's time, and stops its workers. It returns what there
// still was of the first two when ctx ended.
func (m *manager) drain(ctx context.Context) leftOver {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drains.Add(1)
	close(m.giveUp)
	m.giveUp = make(chan struct{})
	m.closeInboxes()
	var left leftOver
	m.await(ctx, func() bool {
		left = leftOver{m.active, int(m.calls.Load())}
		return left == leftOver{}
	})
	if left.active == 0 {
		call, cancel := context.WithTimeout(ctx, cleanupCaller)
		m.await(call, func() bool { return m.cleanups.idle() && m.workers == 0 })
		cancel()
	}
	m.stop()
	if ctx.Err() == nil {
		// The cancelled calls return at once; nothing touches the client after.
		m.await(ctx, func() bool { return m.workers == 0 && m.cleanups.running == 0 && m.waiting == 0 && m.inboxes.open == 0 })
	}
	m.drains.Add(-1)
	return left
}

// stop ends renewals and cleanups; the holds that are left run out. Under mu.
func (m *manager) stop() {
	m.cancel()
	m.cleanups.waiting = timeheap.Heap[*cleanup]{}
	for _, h := range m.holds {
		h.owesNothing()
		m.turnOff(h)
		m.ready.Remove(&h.ready)
		m.schedule(h)
	}
	m.settle()
}

// await waits for the condition or ctx. mu is held before, after and for the condition.
func (m *manager) await(ctx context.Context, condition func() bool) {
	for !condition() && ctx.Err() == nil {
		if m.changed == nil {
			m.changed = make(chan struct{})
		}
		changed := m.changed
		m.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		m.mu.Lock()
	}
}
