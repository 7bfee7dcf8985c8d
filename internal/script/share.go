package script

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// shareFrom is how many sends are under way before further ones share a round trip.
// What many calls cost is system calls, on both sides, and those of one write are
// shared by all that is in it; a few calls are answered sooner on their own.
const shareFrom = 16

// A shared round trip has at most shareMost sends, and shareFlights are on their way
// at a time, unless all of them have been for longer than patience: one connection
// that went silent must not keep the others waiting.
const (
	shareMost    = 128
	shareFlights = 2
	patience     = 50 * time.Millisecond
)

// errAlone: the send has to be, or to be repeated, on its own; nothing ran.
var errAlone = errors.New("not in a shared round trip")

// sharing are the sends that wait for a round trip to share. No send waits while
// there is a flight to take it at once.
type sharing struct {
	underWay atomic.Int64 // sends of any kind

	mu     sync.Mutex // guards queues and what is in them
	queues map[Route]*queue
}

// queue has the sends to one node. It is there as long as something is in it or in
// flight.
type queue struct {
	waiting []*sharedSend
	left    int       // how many of waiting have been withdrawn
	flights int       // round trips on their way
	moved   time.Time // when the last of them began
}

type sharedSend struct {
	command
	limit time.Time
	done  chan struct{} // closed when the command has its result
}

func (s *sharedSend) withdrawn() bool { return s.own.Load() == withdrawn }

// sendShared is a send in a pipeline with others. Like any send it returns at the
// limit and when ctx ends, whatever becomes of the pipeline.
func (r *Runner) sendShared(ctx context.Context, call *Call, limit time.Time) (any, error) {
	route, ok := r.shares(call)
	if !ok {
		return nil, errAlone
	}
	s := &sharedSend{limit: limit, done: make(chan struct{})}
	s.fill(ctx, &s.own, verbSHA, call.Script.bySHA, call.Keys, call.Args)
	r.enqueue(route, s)
	for {
		select {
		case <-s.done:
			return s.outcome()
		case <-ctx.Done():
			return nil, r.leave(route, s, ctx.Err())
		case <-r.deadlines.end(min(time.Until(limit), patience)):
			if !time.Now().Before(limit) {
				return nil, r.leave(route, s, context.DeadlineExceeded)
			}
			r.hurry(route)
		}
	}
}

// shares says whether the call can go in a pipeline, and where that goes: it is small,
// and its node is known. On a Cluster the pipeline goes to the node's own client, as
// that of a batch does.
func (r *Runner) shares(call *Call) (Route, bool) {
	if call.parts != nil || len(call.Keys)+len(call.Args) > fewWords {
		return Route{}, false
	}
	route := r.Route(call.Keys[0])
	return route, r.cluster == nil || route.node != nil
}

// outcome is the command's. A script that is not known there, and a slot that is
// elsewhere, are for a send alone, which brings the source and follows redirects.
func (s *sharedSend) outcome() (any, error) {
	err := s.Err()
	if noScript(err) || redirect(err) {
		return nil, errAlone
	}
	if err != nil && !isReply(err) {
		return nil, s.own.left(err)
	}
	return s.Result()
}

func (r *Runner) enqueue(route Route, s *sharedSend) {
	r.sharing.mu.Lock()
	defer r.sharing.mu.Unlock()
	q := r.sharing.queues[route]
	if q == nil {
		if r.sharing.queues == nil {
			r.sharing.queues = make(map[Route]*queue)
		}
		q = new(queue)
		r.sharing.queues[route] = q
	}
	q.waiting = append(q.waiting, s)
	r.launch(route, q)
}

// hurry is called by who has waited for a while.
func (r *Runner) hurry(route Route) {
	r.sharing.mu.Lock()
	defer r.sharing.mu.Unlock()
	if q := r.sharing.queues[route]; q != nil {
		r.launch(route, q)
	}
}

// launch starts a flight where there is one to spare.
func (r *Runner) launch(route Route, q *queue) {
	if len(q.waiting) == 0 || (q.flights >= shareFlights && time.Since(q.moved) < patience) {
		return
	}
	q.flights++
	q.moved = time.Now()
	go r.fly(route, q)
}

// leave withdraws a send if it can, and gives the error of who does not wait for it.
// A queue that does not move must not grow by those who have left it.
func (r *Runner) leave(route Route, s *sharedSend, why error) error {
	why = s.own.left(why)
	if !s.withdrawn() {
		return why
	}
	r.sharing.mu.Lock()
	defer r.sharing.mu.Unlock()
	if q := r.sharing.queues[route]; q != nil {
		if q.left++; 2*q.left > len(q.waiting) {
			q.waiting, q.left = slices.DeleteFunc(q.waiting, (*sharedSend).withdrawn), 0
		}
	}
	return why
}

// fly makes round trips for as long as somebody waits. One that was late ends when
// another has taken its place.
func (r *Runner) fly(route Route, q *queue) {
	for late := false; ; {
		runtime.Gosched() // who is about to send joins this one, at no delay
		batch := r.board(route, q, late)
		if len(batch) == 0 {
			return
		}
		began := time.Now()
		r.roundTrip(route, batch)
		late = time.Since(began) >= patience
	}
}

// board takes those off the queue that go now; none: the flight has ended.
func (r *Runner) board(route Route, q *queue, late bool) []*sharedSend {
	r.sharing.mu.Lock()
	defer r.sharing.mu.Unlock()
	if n := min(len(q.waiting), shareMost); n > 0 && !(late && q.flights > shareFlights) {
		batch := slices.Clone(q.waiting[:n])
		q.waiting = slices.Delete(q.waiting, 0, n)
		q.left = min(q.left, len(q.waiting))
		q.moved = time.Now()
		return batch
	}
	if q.flights--; q.flights == 0 && len(q.waiting) == 0 {
		delete(r.sharing.queues, route)
	}
	return nil
}

// roundTrip sends the batch in one pipeline. It belongs to no caller, and is bound by
// the last of their limits; the client's own timeouts are mostly shorter.
func (r *Runner) roundTrip(route Route, batch []*sharedSend) {
	last := batch[0].limit
	for _, s := range batch {
		if s.limit.After(last) {
			last = s.limit
		}
	}
	ctx, cancel := context.WithDeadline(context.Background(), last)
	defer cancel()
	pipe := r.pipelineTo(route)
	for _, s := range batch {
		_ = pipe.Process(ctx, &s.command)
	}
	_, err := pipe.Exec(ctx)
	for _, s := range batch {
		s.missed(err)
		close(s.done)
	}
}

func (r *Runner) pipelineTo(route Route) redis.Pipeliner {
	if route.node != nil {
		return route.node.Pipeline()
	}
	return r.client.Pipeline()
}
