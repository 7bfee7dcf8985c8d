package redislock

import (
	"time"

	"github.com/go-lynx/lynx-redis-lock/internal/script"
	"github.com/go-lynx/lynx-redis-lock/internal/timeheap"
)

// maxBatch is how many renewals go out in one round trip: enough that what a round
// trip costs hardly shows, and few enough (some 0.2 ms of the server's time) that
// nobody's release has to wait for long behind them.
const maxBatch = 100

// gather is how many renewals one awakening lines up, when so many are due together or
// nearly so: waking up, and the runtime around it, costs some 0.3 ms of processor time.
const gather = 8 * maxBatch

// laneKey is what renewals have in common that may go out together.
type laneKey struct {
	route script.Route
	call  time.Duration // RenewalConfig.CallTimeout: nobody's call is cut short by another's
	alone bool
}

// lane is the renewals of one key, the lease that ends first comes first.
type lane struct {
	key      laneKey
	holds    timeheap.Heap[*hold]
	place    timeheap.Item[*lane]
	inFlight int       // batches
	silent   bool      // the last batch got no answer
	since    time.Time // when that was
}

// silence is how long an empty lane is remembered as silent: more than any backoff.
const silence = time.Minute

// readyQueue is the renewals that are due and wait for a worker; guarded by
// manager.mu. The lane of the most urgent one comes first.
type readyQueue struct {
	lanes map[laneKey]*lane
	order timeheap.Heap[*lane] // those from which a batch may be taken
	n     int
	// most is how many batches of one lane may be in flight; 0: any number. On a
	// Cluster the leases of a silent node are the most urgent ones and would take
	// every worker.
	most int
}

// Len is the number of renewals.
func (q *readyQueue) Len() int { return q.n }

// put lines a renewal up that is not in the queue.
func (q *readyQueue) put(h *hold, route script.Route) {
	key := laneKey{route: route, call: h.renewal.opts.RenewalConfig.CallTimeout}
	if h.renewal.alone {
		key = laneKey{alone: true}
	}
	l := q.lanes[key]
	if l == nil {
		q.forget()
		l = &lane{key: key}
		l.place.Value = l
		if q.lanes == nil {
			q.lanes = make(map[laneKey]*lane)
		}
		q.lanes[key] = l
	}
	h.renewal.lane = l
	l.holds.Set(&h.ready, h.expiry())
	q.n++
	q.settle(l)
}

// move notes a new end of the lease of a hold that may be in the queue.
func (q *readyQueue) move(h *hold, until time.Time) {
	if h.ready.Queued() {
		h.renewal.lane.holds.Set(&h.ready, until)
		q.settle(h.renewal.lane)
	}
}

// Remove takes a hold out if it is in.
func (q *readyQueue) Remove(it *timeheap.Item[*hold]) {
	if !it.Queued() {
		return
	}
	l := it.Value.renewal.lane
	it.Value.renewal.lane = nil
	l.holds.Remove(it)
	q.n--
	q.settle(l)
}

// forget drops the lanes of nodes that have been silent for long, and are perhaps gone.
func (q *readyQueue) forget() {
	for key, l := range q.lanes {
		if l.holds.Min() == nil && l.inFlight == 0 && time.Since(l.since) > silence {
			delete(q.lanes, key)
		}
	}
}

// settle puts a lane where its first hold belongs.
func (q *readyQueue) settle(l *lane) {
	first := l.holds.Min()
	if first != nil && q.open(l) {
		q.order.Set(&l.place, first.At())
		return
	}
	q.order.Remove(&l.place)
	if first == nil && l.inFlight == 0 && !l.silent {
		delete(q.lanes, l.key)
	}
}

// open says whether one more batch of the lane may go out. Of a silent one it is one
// at a time, until there is an answer.
func (q *readyQueue) open(l *lane) bool {
	return q.most == 0 || (l.inFlight < q.most && (l.inFlight == 0 || !l.silent))
}

// waits says whether there is a batch to take.
func (q *readyQueue) waits() bool { return q.order.Min() != nil }

// done notes that a batch of the lane is over.
func (q *readyQueue) done(l *lane, answered bool) {
	l.inFlight--
	l.silent = !answered && q.most > 0 && !l.key.alone // those are of any node
	l.since = time.Now()
	q.settle(l)
}

// take takes the next batch out: the most urgent renewal, and what may go with it.
// The time of the call they share is bounded by the end of the first one's lease; a
// hold that would have more than twice of that waits for a batch of its like.
func (q *readyQueue) take(now time.Time) (l *lane, batch []*hold) {
	if !q.waits() {
		return nil, nil
	}
	l = q.order.Min().Value
	l.inFlight++ // first, or the lane would be given up with its last hold
	limit := maxBatch
	if l.key.alone {
		limit = 1
	}
	shortest := l.callTime(l.holds.Min().At(), now)
	for len(batch) < limit {
		it := l.holds.Min()
		if it == nil || (len(batch) > 0 && l.callTime(it.At(), now) > 2*shortest) {
			break
		}
		batch = append(batch, it.Value)
		q.Remove(it)
	}
	return l, batch
}

// callTime is what a hold whose lease ends at until has for its call.
func (l *lane) callTime(until, now time.Time) time.Duration {
	left := until.Sub(now)
	if l.key.call > 0 {
		left = min(left, l.key.call)
	}
	return left
}
