package redislock

import (
	"time"

	"github.com/go-lynx/lynx-redis-lock/internal/lease"
	"github.com/go-lynx/lynx-redis-lock/internal/timeheap"
)

// schedule sets when a hold is looked at next. Under mu.
func (m *manager) schedule(h *hold) {
	m.place(h)
	m.arm()
}

// place puts a hold where its time is: when its renewal is due, and while that is
// waiting or in flight, or there is none, when its lease ends. Under mu.
func (m *manager) place(h *hold) {
	h.mu.Lock()
	until, ttl := h.until, h.believed(h.lease)
	h.mu.Unlock()
	at := until
	if r := &h.renewal; r.on && !r.inFlight && !h.ready.Queued() {
		due := r.earliest.Time() // the backoff
		if r.failures == 0 {
			must := lease.Due(until, ttl, r.opts.RenewalThreshold, renewalCall(r.opts))
			due = lease.Later(due, lease.Spread(must, until, ttl, float64(r.jitter)))
		}
		at = lease.Earlier(at, due)
	}
	m.waking.Set(&h.wake, at)
	m.ready.move(h, until)
}

// renewalCall bounds one try of an automatic renewal; the lease's end does, too.
func renewalCall(opts *LockOptions) time.Duration {
	if opts.RenewalConfig.CallTimeout > 0 {
		return opts.RenewalConfig.CallTimeout
	}
	return DefaultRenewalConfig.CallTimeout // only to be early enough
}

// arm sets the timer to what comes first. Under mu.
func (m *manager) arm() {
	next := m.cleanups.next()
	sooner := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if first := m.waking.Min(); first != nil {
		sooner(first.At())
	}
	if m.ready.waits() && m.workers < m.limit {
		sooner(m.hired.Add(hireGap))
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
	due := 0
	for first := m.waking.Min(); first != nil; first = m.waking.Min() {
		h := first.Value
		if first.At().After(now) && (due%gather == 0 || m.active < maxBatch || !h.mayJoin(first.At(), now)) {
			break // of a few locks, each may have its own time
		}
		if lease.Left(h.expiry(), now) <= 0 {
			m.waking.Remove(first)
			over = append(over, h)
			continue
		}
		if m.enqueue(h, first.At()) {
			due++
		}
		m.place(h)
	}
	m.hire(now, due)
	m.startCleaners(now)
	m.arm()
	m.mu.Unlock()
	for _, h := range over {
		_ = h.check(now) // ends it and tells, outside of mu
	}
}

// mayJoin says whether a renewal that is due at a moment to come may go out now, to
// fill a batch: a fiftieth of the lease early, and never in its first half, after a
// failure or soon after the last one. Under manager.mu.
func (h *hold) mayJoin(due, now time.Time) bool {
	r := &h.renewal
	if !r.on || r.inFlight || h.ready.Queued() || r.failures > 0 || now.Before(r.earliest.Time()) {
		return false
	}
	h.mu.Lock()
	until, ttl := h.until, h.believed(h.lease)
	h.mu.Unlock()
	return due.Sub(now) <= ttl/50 && !now.Before(lease.Half(until, ttl))
}

// enqueue lines a renewal up that is due. Under mu.
func (m *manager) enqueue(h *hold, due time.Time) bool {
	if !h.renewal.on || h.renewal.inFlight || h.ready.Queued() {
		return false
	}
	h.renewal.due = timeheap.MomentOf(due)
	m.ready.put(h, m.runner.Route(h.lock.tag))
	return true
}
