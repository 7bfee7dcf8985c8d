package redislock

import (
	"context"
	"time"

	"github.com/go-lynx/lynx-redis-lock/internal/script"
)

// Bounds of the hand-overs in one process without a break, so that others get their
// turn: processes that have announced themselves after the first two, and after the
// third, which counts the time that this process has held it, whoever merely polls and
// then they.
const (
	runLength = 32
	runTime   = 50 * time.Millisecond
	longUse   = time.Second
	// keptAway is how long all who wait leave the lock to the pollers then. One that tries
	// every 100 ms, give or take half, comes by in that time with even odds; a longer
	// break every second would show in the waits of everybody else.
	keptAway = 60 * time.Millisecond
)

// run is a row of hand-overs without a break; its zero value is none.
type run struct {
	length int
	since  time.Time // the first of them
}

// after is the run with one more hand-over, at sent.
func (r run) after(sent time.Time) run {
	if r.length == 0 {
		r.since = sent
	}
	r.length++
	return r
}

// ledBy is the run that led to the hold.
func (h *hold) ledBy() run {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seldom == nil {
		return run{}
	}
	return h.seldom.run
}

func (h *hold) noteRun(led run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seldomPart().run = led
}

// successor is the waiter of this process that gets the lock of a hold which is
// about to be released, with the gate of its instance; nil: nobody does. quiet: whoever
// polls goes before all who wait.
func (m *manager) successor(h *hold, led run) (next *offer, quiet bool) {
	line, now := m.line(h.lock.GetKey()), time.Now()
	// A line that was empty meanwhile has forgotten its use, a run knows its own.
	if waiters.Use(line, now.Sub(h.acquired)) >= longUse || (led.length > 0 && now.Sub(led.since) >= longUse) {
		waiters.KeepAway(line, now.Add(keptAway))
		return nil, true
	}
	o, ok := waiters.Take(line)
	if !ok {
		return nil, false
	}
	if o.manager == m && m.admits() == nil && o.lock.tryEnter() {
		if o.lock.settled() {
			return o, false
		}
		o.lock.leave()
	}
	o.answer <- o.declined(false)
	return nil, false
}

// handOver releases a hold by making a new one of the waiter's, in one step.
// led: the run that led to the hold.
func (rl *RedisLock) handOver(ctx context.Context, h *hold, o *offer, led run) script.Result {
	m, next, value, sent := h.manager, o.lock, newValue(), time.Now()
	defer next.leave()
	var answer attempt
	queued := false
	defer func() { // whatever a hook of the client does
		if !answer.handed {
			answer = o.declined(queued)
		}
		o.answer <- answer
	}()
	led = led.after(sent)
	res := m.runner.Run(ctx, rl.handOverCall(ctx, h, o, value, led))
	switch {
	case res.Err == nil && res.Reply.Code == script.Done && o.decide():
		if tried := next.start(o.ctx, m, value, sent, res); tried.err == nil {
			tried.handed, tried.took = true, time.Since(sent)
			next.current().noteRun(led)
			waiters.Use(m.line(rl.GetKey()), tried.took) // on the way it was nobody else's
			answer = tried
		}
	case res.Unanswered || (res.Err == nil && res.Reply.Code == script.Done):
		m.clean(next, value, res.Unanswered, next.opts.Expiration)
	default:
		queued = res.Err == nil && res.Reply.Code == script.Freed && res.Reply.N == 1
	}
	return res
}

func (rl *RedisLock) handOverCall(ctx context.Context, h *hold, o *offer, value string, led run) script.Call {
	keep, mode := o.lock.counterArgs()
	channel, how := "", ""
	switch {
	case led.length > runLength || time.Since(led.since) >= runTime:
		if how = "yield"; !h.manager.moved(ctx, o.box, rl.GetKey()) {
			channel = o.box.hears(ctx)
		}
	case o.queued && o.box != nil:
		how, channel = "queued", o.box.Channel()
	}
	return script.Call{
		Script:  handoverScript,
		Keys:    []string{rl.ownerKey(), rl.roomKey(), rl.countKey(), o.lock.markKey(value), o.lock.counterKey()},
		Bare:    1,
		Args:    []string{h.value, value, millis(o.lock.opts.Expiration), keep, mode, channel, how},
		Timeout: rl.opts.ScriptCallTimeout,
	}
}
