package redislock

import (
	"context"
	"sync/atomic"
	"time"
)

// offer is what a waiter leaves while it waits: a release may take the lock to it.
type offer struct {
	ctx     context.Context
	lock    *RedisLock
	manager *manager
	box     *mailbox // where it is told; nil: nowhere yet
	queued  bool     // its channel may be in the room
	answer  chan attempt
	decided atomic.Bool
}

// decide is true for the first: the release that begins the hold, or the waiter that leaves.
func (o *offer) decide() bool { return o.decided.CompareAndSwap(false, true) }

// declined has the waiter try for itself.
func (o *offer) declined(queued bool) attempt {
	err := newError(ErrLockAcquireConflict, nil, "lock %q went to others", o.lock.GetKey())
	return attempt{err: err, again: true, queued: queued}
}

// stand leaves the offer, unless it stands. held: up to when somebody in this process
// is thought to hold the lock.
func (w *waiter) stand(ctx context.Context) (held time.Time) {
	if w.offer != nil {
		held, _ = w.place.Outlook()
		return held
	}
	w.offer = &offer{
		ctx: ctx, lock: w.lock, manager: w.manager, box: w.box, queued: w.queued, answer: make(chan attempt, 1),
	}
	return w.place.Offer(w.offer)
}

// withdraw takes the offer back, if it stands. From a release that was quicker there is
// an answer.
func (w *waiter) withdraw(ctx context.Context) *attempt {
	o := w.offer
	if o == nil {
		return nil
	}
	w.offer = nil
	if w.place.Withdraw() {
		return nil
	}
	select {
	case answer := <-o.answer:
		return w.take(answer)
	case <-ctx.Done():
	}
	if o.decide() {
		return nil // whoever has it cleans up
	}
	return w.take(<-o.answer)
}

// take looks at the answer of a release that had the offer.
func (w *waiter) take(answer attempt) *attempt {
	w.offer = nil
	w.queued = answer.queued
	if answer.err == nil {
		w.lock.report(answer)
	} else if answer.queued && !w.told { // others go first
		w.rest = longestNap
	}
	return &answer
}
