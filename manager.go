package redislock

import (
	"context"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lynx/lynx-redis-lock/internal/script"
	"github.com/go-lynx/lynx-redis-lock/internal/timeheap"
)

// manager keeps the holds of one client: it renews them, ends them at their
// deadline and cleans up behind calls with an unknown outcome. One client's
// manager never waits for another's.
//
// It has no goroutine while it has nothing to do: a timer looks after what is
// due, and workers live as long as there is something for them.
type manager struct {
	// Fixed after construction.
	client  redis.UniversalClient
	runner  *script.Runner
	cluster bool
	id      any // of the client: several providers may be over one

	calls  atomic.Int32 // acquires and releases in flight: a drain waits for them
	drains atomic.Int32 // under way: new acquisitions are refused
	untold atomic.Int64 // the timeheap.Moment at which a holder was last seen to change without a word to the next waiter

	// Guarded by mu. Under it: no Redis call, no callback, no waiting; hold.mu
	// and process.mu may be taken under it, never the other way round.
	mu       sync.Mutex
	holds    map[string]*hold // by owner value
	active   int              // of them under renewal
	waking   timeheap.Heap[*hold]
	ready    readyQueue
	workers  int
	hired    time.Time // when the last worker was, of those beyond the first
	limit    int       // the largest WorkerPoolSize asked for; 0: none yet
	cleanups cleanups
	inboxes  inboxes
	waiting  int           // waiters
	giveUp   chan struct{} // closed by a drain: those that wait do no longer
	timer    *time.Timer
	armed    time.Time // when timer fires; zero: it does not
	changed  chan struct{}
	ctx      context.Context // of the workers' calls; ended by a drain
	cancel   context.CancelFunc
}

// renewal is the manager's part of a hold; guarded by manager.mu.
type renewal struct {
	on       bool
	inFlight bool
	alone    bool    // a batch could not settle it
	kept     bool    // the hold is one of manager.holds
	failures int32   // tries in a row without an answer
	jitter   float32 // how much earlier than it must the next one comes, see lease.Spread
	opts     *LockOptions
	lane     *lane           // of the queue, while it is in there
	earliest timeheap.Moment // not before: the gap between two sends, or the backoff
	due      timeheap.Moment // when it should go out; while it is queued or in flight
	touched  timeheap.Moment // when the counter's TTL was last set
}

func newManager(client redis.UniversalClient) *manager {
	_, cluster := client.(script.Cluster)
	m := &manager{
		client: client, runner: script.NewRunner(client), cluster: cluster, id: client,
		giveUp: make(chan struct{}), holds: make(map[string]*hold),
	}
	if !reflect.TypeOf(client).Comparable() { // a wrapper that is no pointer
		m.id = m
	}
	m.timer = time.AfterFunc(time.Hour, m.tick)
	m.timer.Stop()
	m.ctx, m.cancel = context.WithCancel(context.Background())
	return m
}

// admits says whether new acquisitions are taken.
func (m *manager) admits() error {
	if m.drains.Load() > 0 || process.draining.Load() > 0 {
		return stopping()
	}
	return nil
}

// beginCall and endCall enclose an acquire or a release, so that a drain does not
// give the client up under it: a hold is not yet active, or no longer, while its
// call is in flight. Other calls do not count, they would keep a drain for ever.
func (m *manager) beginCall() {
	if m.calls.Add(1) == 1 {
		process.enlistAnyway(m)
	}
}

func (m *manager) endCall() {
	if m.calls.Add(-1) > 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settle()
}

// stopping is what acquires and waiters get while a drain is under way.
func stopping() error {
	return newError(ErrRenewalServiceStopped, nil, "no new lock while shutting down")
}

// add takes a new hold in, before any user code runs.
func (m *manager) add(h *hold) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.drains.Load() > 0 || !process.enlist(m) {
		return stopping()
	}
	m.holds[h.value], h.renewal.kept = h, true
	if h.lock.opts.RenewalEnabled {
		m.turnOn(h, h.lock.opts)
	}
	m.schedule(h)
	return nil
}

// renew starts the renewal of a held lock that was not renewed so far.
func (m *manager) renew(h *hold, opts *LockOptions) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.renewal.kept && !h.renewal.on {
		m.turnOn(h, opts)
		m.schedule(h)
	}
}

func (m *manager) turnOn(h *hold, opts *LockOptions) {
	h.renewal.on = true
	h.renewal.opts = opts
	h.renewal.jitter = rand.Float32() // taken together, but not due together
	m.limit = max(m.limit, opts.WorkerPoolSize)
	if m.cluster {
		m.ready.most = max(m.limit*3/4, 1)
	}
	m.active++
	recordActive(1)
}

func (m *manager) turnOff(h *hold) (was bool) {
	if !h.renewal.on {
		return false
	}
	h.renewal.on = false
	m.active--
	recordActive(-1)
	return true
}

// remove takes an ended hold out; was: it was under renewal.
func (m *manager) remove(h *hold) (was bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was = m.turnOff(h)
	if h.renewal.kept {
		delete(m.holds, h.value)
		h.renewal.kept = false
	}
	m.waking.Remove(&h.wake)
	m.ready.Remove(&h.ready)
	m.settle()
	return was
}

// find is the hold with that owner value; nil: not of this manager.
func (m *manager) find(value string) *hold {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.holds[value]
}

// reschedule looks at a hold again whose lease has changed.
func (m *manager) reschedule(h *hold) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.renewal.kept {
		m.schedule(h)
	}
}

// settle tells the drains that something ended, and strikes an idle manager off
// the process's list. Under mu.
func (m *manager) settle() {
	if len(m.holds) == 0 && m.workers == 0 && m.cleanups.idle() && m.waiting == 0 && m.inboxes.open == 0 {
		process.delist(m)
	}
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
}
