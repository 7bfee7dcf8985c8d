package redislock

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/go-lynx/lynx-redis-lock/internal/lease"
	"github.com/go-lynx/lynx-redis-lock/internal/script"
	"github.com/go-lynx/lynx-redis-lock/internal/timeheap"
)

// Workers beyond the first ones are hired one by one, while renewals still wait: a
// Redis that answers has then taken a batch, and one that is slow only because it is
// busy is not helped by more of them at once, nor are the calls beside them.
const (
	firstWorkers = 4
	hireGap      = 2 * time.Millisecond
)

// hire starts workers for what is ready. due: so many have just become so; those that
// find every worker busy are counted. Under mu.
func (m *manager) hire(now time.Time, due int) {
	for m.ready.waits() && m.workers < m.limit {
		if m.workers >= firstWorkers {
			if now.Before(m.hired.Add(hireGap)) {
				return // arm sees to it
			}
			m.hired = now
		}
		m.workers++
		go m.work(m.workContext(), m.takeBatch(now)) // ends when nothing is ready; a drain cancels its call
	}
	if waiting := min(due, m.ready.Len()); waiting > 0 {
		recordSkipped(waiting)
	}
}

// workContext is the context of the workers' calls, a new one after a drain. Under mu.
func (m *manager) workContext() context.Context {
	if m.ctx.Err() != nil {
		m.ctx, m.cancel = context.WithCancel(context.Background())
	}
	return m.ctx
}

// ask is one try of the automatic renewal of one hold.
type ask struct {
	hold     *hold
	lane     *lane
	opts     *LockOptions
	failures int       // tries without an answer before it
	due      time.Time // when it should have gone out
	again    bool      // it has, with a batch

	// Of the hold, when it is sent.
	until         time.Time
	ttl, believed time.Duration
	era           uint32

	// What it leaves for the schedule.
	next    renewTry
	touched bool // the counter's TTL is to be lengthened
}

// renewTry is what one try of an automatic renewal leaves for the schedule.
type renewTry struct {
	failures int
	earliest time.Time
	alone    bool    // to be asked for again at once, and alone
	jitter   float32 // of the next one
}

// takeBatch takes the most urgent renewals. Under mu.
func (m *manager) takeBatch(now time.Time) []ask {
	l, holds := m.ready.take(now)
	batch := make([]ask, len(holds))
	for i, h := range holds {
		r := &h.renewal
		r.inFlight = true
		batch[i] = ask{hold: h, lane: l, opts: r.opts, failures: int(r.failures), due: r.due.Time(), again: r.alone}
	}
	return batch
}

func (m *manager) work(ctx context.Context, batch []ask) {
	for len(batch) > 0 {
		m.renewAll(ctx, batch)
		m.mu.Lock()
		m.noteTries(batch)
		m.mu.Unlock()
		m.touchAll(ctx, batch)

		m.mu.Lock()
		ctx = m.workContext()
		batch = m.takeBatch(time.Now())
		if len(batch) == 0 {
			m.workers--
			m.settle()
		}
		m.mu.Unlock()
	}
}

// noteTries puts the holds of an answered batch where their next renewals are due.
// Under mu.
func (m *manager) noteTries(batch []ask) {
	now := time.Now()
	m.ready.done(batch[0].lane, !slices.ContainsFunc(batch, func(a ask) bool { return a.next.failures > a.failures }))
	for i := range batch {
		a := &batch[i]
		h, r := a.hold, &a.hold.renewal
		r.inFlight = false
		r.failures, r.earliest, r.alone, r.jitter = int32(a.next.failures), timeheap.MomentOf(a.next.earliest), a.next.alone, a.next.jitter
		a.touched = a.touched && r.kept && h.lock.opts.FenceKey == "" && now.Sub(r.touched.Time()) >= h.lock.opts.TokenTTL/8
		if !r.kept {
			continue
		}
		if r.alone && r.on {
			m.ready.put(h, script.Route{})
		}
		m.place(h)
	}
	m.hire(now, 0)
	m.arm()
}

// renewAll is one try for each of a batch.
func (m *manager) renewAll(ctx context.Context, batch []ask) {
	sent := time.Now()
	asked := make([]*ask, 0, len(batch))
	for i := range batch {
		if batch[i].begin(sent) {
			asked = append(asked, &batch[i])
		}
	}
	switch len(asked) {
	case 0:
	case 1:
		m.renewOne(ctx, asked[0], sent)
	default:
		m.renewMany(ctx, asked, sent)
	}
}

// begin looks at the hold at the moment of the send; false: it has ended.
func (a *ask) begin(sent time.Time) bool {
	h := a.hold
	if h.check(sent) != nil {
		return false
	}
	h.mu.Lock()
	a.until, a.ttl, a.believed, a.era = h.until, h.lease, h.believed(h.lease), h.era
	h.mu.Unlock()
	late := max(sent.Sub(a.due), 0)
	if !a.again {
		recordLateness(late)
	}
	if late > lease.MinGap(a.believed) { // whatever held it up may have held up others
		a.next.jitter = rand.Float32()
	}
	return true
}

func (m *manager) renewOne(ctx context.Context, a *ask, sent time.Time) {
	bounded, cancel := context.WithDeadline(ctx, a.until)
	defer cancel()
	res := m.runner.Run(bounded, a.hold.renewCall(a.ttl, "lengthen", a.opts.RenewalConfig.CallTimeout))
	a.settle(ctx, res, sent, time.Now())
}

// renewMany is one call for all: within the time of the hold whose lease ends first.
func (m *manager) renewMany(ctx context.Context, asked []*ask, sent time.Time) {
	parts := make([]script.Part, len(asked))
	args := make([]string, 0, 3*len(asked))
	first := asked[0].until
	var ttl time.Duration
	var least string // mostly the same for all
	for i, a := range asked {
		if a.ttl != ttl {
			ttl, least = a.ttl, millis(a.ttl)
		}
		keys, n := a.hold.keys(), "1"
		if len(keys) > 1 {
			n = "2"
		}
		args = append(args, a.hold.value, least, n)
		parts[i] = script.Part{Keys: keys, Args: args[3*i : 3*i+3 : 3*i+3]}
		first = lease.Earlier(first, a.until)
	}
	bounded, cancel := context.WithDeadline(ctx, first)
	defer cancel()
	codes, res := m.runner.RunBatch(bounded, script.Batch{
		Script: renewManyScript, Parts: parts, Timeout: asked[0].opts.RenewalConfig.CallTimeout,
	})
	now := time.Now()
	for i, a := range asked {
		switch {
		case codes == nil:
			a.settle(ctx, res, sent, now)
		case codes[i] == script.Alone:
			a.next = renewTry{failures: a.failures, earliest: now, alone: true, jitter: a.next.jitter}
		default:
			a.settle(ctx, script.Result{Reply: script.Reply{Code: codes[i]}}, sent, now)
		}
	}
}

// settle draws the consequences of one answer, or of none.
func (a *ask) settle(ctx context.Context, res script.Result, sent, now time.Time) {
	h := a.hold
	switch {
	case ctx.Err() != nil && res.Err != nil:
		a.next = renewTry{failures: a.failures, earliest: now} // a drain has ended the renewals
	case res.Err != nil:
		recordRenew(resultError, now.Sub(sent))
		a.next = renewTry{}
		if h.check(now) == nil {
			cfg := a.opts.RenewalConfig
			pause := lease.Backoff(a.failures, cfg.MaxRetries, cfg.BaseDelay, cfg.MaxDelay, lease.Left(a.until, now))
			a.next = renewTry{failures: a.failures + 1, earliest: now.Add(pause)}
		}
	case res.Reply.Code != script.Done:
		if h.lose(held, reasonOf(res.Reply), now) { // else the hold has ended meanwhile
			recordRenew(resultOf(res.Reply), now.Sub(sent))
		}
		a.next = renewTry{}
	default:
		h.lengthen(sent, a.ttl, a.era)
		if a.touched = h.check(now) == nil; a.touched {
			recordRenew(resultSuccess, now.Sub(sent))
			dispatch.renewed(h.lock.GetKey(), a.ttl)
		}
		if a.failures > 0 { // those that failed together succeed together
			a.next.jitter = rand.Float32()
		}
		a.next = renewTry{earliest: sent.Add(lease.MinGap(a.believed)), jitter: a.next.jitter}
	}
}

// touchAll lengthens the counters' TTLs of those that have not been for an eighth of
// TokenTTL, which is what every call that sets it adds. A failure costs nothing now:
// the next renewal tries again. It takes a quarter of a lease at most, which leaves
// the next renewals their time.
func (m *manager) touchAll(ctx context.Context, batch []ask) {
	var touched []*ask
	var parts []script.Part
	limit := time.Duration(0)
	for i := range batch {
		a := &batch[i]
		if !a.touched {
			continue
		}
		own := min(a.ttl/4, renewalCall(a.opts))
		if limit == 0 || own < limit {
			limit = own
		}
		touched = append(touched, a)
		parts = append(parts, script.Part{
			Keys: []string{a.hold.lock.counterKey()},
			Args: []string{strconv.FormatInt(a.hold.lock.counterTTL(a.ttl), 10)},
		})
	}
	switch len(touched) {
	case 0:
		return
	case 1:
		touched[0].hold.touch(ctx, touched[0].ttl, limit)
		return
	}
	sent := time.Now()
	codes, _ := m.runner.RunBatch(ctx, script.Batch{Script: touchManyScript, Parts: parts, Timeout: limit})
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, code := range codes {
		if code != script.Alone {
			touched[i].hold.renewal.touched = timeheap.MomentOf(sent)
		}
	}
}
