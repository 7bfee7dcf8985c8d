package redislock

import (
	"context"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lynx/lynx-redis-lock/internal/lease"
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

	// Guarded by mu. Under it: no Redis call, no callback, no waiting; hold.mu
	// and process.mu may be taken under it, never the other way round.
	mu       sync.Mutex
	holds    map[string]*hold // by owner value
	active   int              // of them under renewal
	waking   timeheap.Heap[*hold]
	ready    timeheap.Heap[*hold] // renewals that are due, the most urgent first
	workers  int
	limit    int // the largest WorkerPoolSize asked for
	cleanups cleanups
	inboxes  inboxes
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
	opts     *LockOptions
	failures int       // tries in a row without an answer
	earliest time.Time // not before: the gap between two sends, or the backoff
	touched  time.Time // when the counter's TTL was last set
}

func newManager(client redis.UniversalClient) *manager {
	_, cluster := client.(script.Cluster)
	m := &manager{
		client: client, runner: script.NewRunner(client), cluster: cluster, id: client,
		holds: make(map[string]*hold), limit: defaultPoolSize,
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
	m.holds[h.value] = h
	if h.lock.opts.RenewalEnabled {
		m.turnOn(h, &h.lock.opts)
	}
	m.schedule(h)
	return nil
}

// renew starts the renewal of a held lock that was not renewed so far.
func (m *manager) renew(h *hold, opts *LockOptions) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.holds[h.value] == h && !h.renewal.on {
		m.turnOn(h, opts)
		m.schedule(h)
	}
}

func (m *manager) turnOn(h *hold, opts *LockOptions) {
	h.renewal.on = true
	h.renewal.opts = opts
	m.limit = max(m.limit, opts.WorkerPoolSize)
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
	if m.holds[h.value] == h {
		delete(m.holds, h.value)
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
	if m.holds[h.value] == h {
		m.schedule(h)
	}
}

// schedule sets when a hold is looked at next: when its renewal is due, and while
// that is waiting or in flight, or there is none, when its lease ends. Under mu.
func (m *manager) schedule(h *hold) {
	h.mu.Lock()
	until, ttl := h.until, h.believed(h.lease)
	h.mu.Unlock()
	at := until
	if r := &h.renewal; r.on && !r.inFlight && !h.ready.Queued() {
		due := r.earliest // the backoff
		if r.failures == 0 {
			cfg := r.opts
			due = lease.Later(due, lease.Due(until, ttl, cfg.RenewalThreshold, h.renewalCall(cfg)))
		}
		at = lease.Earlier(at, due)
	}
	m.waking.Set(&h.wake, at)
	if h.ready.Queued() {
		m.ready.Set(&h.ready, until)
	}
	m.arm()
}

// renewalCall bounds one try of an automatic renewal; the lease's end does, too.
func (h *hold) renewalCall(opts *LockOptions) time.Duration {
	if opts.RenewalConfig.CallTimeout > 0 {
		return opts.RenewalConfig.CallTimeout
	}
	return DefaultRenewalConfig.CallTimeout // only to be early enough
}

// arm sets the timer to what comes first. Under mu.
func (m *manager) arm() {
	next := m.cleanups.next()
	if first := m.waking.Min(); first != nil && (next.IsZero() || first.At().Before(next)) {
		next = first.At()
	}
	if next.IsZero() || (!m.armed.IsZero() && !next.Before(m.armed)) {
		return // the timer may come early and then finds nothing to do
	}
	m.armed = next
	m.timer.Reset(time.Until(next))
}

// tick does what is due. It runs in the timer's goroutine.
func (m *manager) tick() {
	now := time.Now()
	var over []*hold
	m.mu.Lock()
	m.armed = time.Time{}
	for first := m.waking.Min(); first != nil && !first.At().After(now); first = m.waking.Min() {
		h := first.Value
		if lease.Left(h.expiry(), now) <= 0 {
			m.waking.Remove(first)
			over = append(over, h)
			continue
		}
		m.enqueue(h)
		m.schedule(h)
	}
	m.startCleaners(now)
	m.arm()
	m.mu.Unlock()
	for _, h := range over {
		_ = h.check(now) // ends it and tells, outside of mu
	}
}

// enqueue hands a renewal that is due to a worker. Under mu.
func (m *manager) enqueue(h *hold) {
	if !h.renewal.on || h.renewal.inFlight || h.ready.Queued() {
		return
	}
	m.ready.Set(&h.ready, h.expiry())
	if m.workers >= m.limit {
		recordSkipped()
		return
	}
	m.workers++
	go m.work() // ends when nothing is ready; a drain cancels its call
}

// workContext is the context of the workers' calls, a new one after a drain. Under mu.
func (m *manager) workContext() context.Context {
	if m.ctx.Err() != nil {
		m.ctx, m.cancel = context.WithCancel(context.Background())
	}
	return m.ctx
}

func (m *manager) work() {
	for {
		m.mu.Lock()
		first := m.ready.Min()
		if first == nil {
			m.workers--
			m.settle()
			m.mu.Unlock()
			return
		}
		h := first.Value
		m.ready.Remove(first)
		h.renewal.inFlight = true
		ctx, opts, failures := m.workContext(), h.renewal.opts, h.renewal.failures
		m.mu.Unlock()

		try := h.autoRenew(ctx, opts, failures)

		m.mu.Lock()
		h.renewal.inFlight = false
		h.renewal.failures, h.renewal.earliest = try.failures, try.earliest
		if m.holds[h.value] == h {
			m.schedule(h)
		}
		m.mu.Unlock()
	}
}

// settle tells the drains that something ended, and strikes an idle manager off
// the process's list. Under mu.
func (m *manager) settle() {
	if len(m.holds) == 0 && m.workers == 0 && m.cleanups.idle() && m.inboxes.open == 0 {
		process.delist(m)
	}
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
}
