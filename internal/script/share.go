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
// shared by all that is in it; a few calls are answered sooner on their own, unless
// Redis is so near that the system calls are most of the way.
const (
	shareFrom     = 8
	shareFromNear = 4
	near          = 150 * time.Microsecond
)

// A shared round trip has at most shareMost sends. It sets out when as many wait, and
// with fewer when not shareFlights others have set out within patience and are still on
// their way: neither a distant Redis nor connections that went silent hold anybody back
// for longer.
const (
	shareMost    = 128
	shareFlights = 2
	patience     = 10 * time.Millisecond
)

// errAlone: the send has to be, or to be repeated, on its own; nothing ran.
var errAlone = errors.New("not in a shared round trip")

// sharing are the sends that wait for a round trip to share. No send waits while
// there is a flight to take it at once.
type sharing struct {
	underWay atomic.Int64 // sends of any kind
	trip     trip

	mu     sync.Mutex // guards queues and what is in them
	queues map[*redis.Client]*queue
}

// trip is the shortest round trip of late, in ns; 0: not known. A shorter one counts at
// once, longer ones bit by bit: most of what a single one takes may be the machine's.
type trip struct{ atomic.Int64 }

func (t *trip) note(took time.Duration) {
	last := time.Duration(t.Load())
	if last > 0 && took > last {
		took = last + min(took-last, last)/64
	}
	t.Store(int64(took))
}

// from is shareFrom at this distance.
func (t *trip) from() int64 {
	if last := time.Duration(t.Load()); last > 0 && last < near {
		return shareFromNear
	}
	return shareFrom
}

// queue has the sends to one node. It is there as long as something is in it or in
// flight.
type queue struct {
	to      *redis.Client
	waiting []*sharedSend // some have been withdrawn
	flights []*flight     // on their way
}

// flight makes round trips, one after the other.
type flight struct{ began time.Time } // the one it is on; zero: none yet

type sharedSend struct {
	roomy
	limit time.Time
	done  chan struct{} // closed when the command has its result
}

func (s *sharedSend) withdrawn() bool { return s.own.Load() == withdrawn }

// sendShared is a send in a pipeline with others. Like any send it returns at the
// limit and when ctx ends, whatever becomes of the pipeline.
func (r *Runner) sendShared(ctx context.Context, call *Call, limit time.Time) (any, error) {
	to := r.shares(call)
	if to == nil {
		return nil, errAlone
	}
	s := &sharedSend{limit: limit, done: make(chan struct{})}
	s.fill(ctx, &s.own, verbSHA, call.Script.bySHA, call.Keys, call.Args)
	q := r.sharing.enqueue(to, s)
	for {
		now := time.Now()
		select {
		case <-s.done:
			return s.outcome()
		case <-ctx.Done():
			return nil, s.own.left(ctx.Err())
		case <-r.deadlines.end(now, min(limit.Sub(now), patience)):
			if !time.Now().Before(limit) {
				return nil, s.own.left(context.DeadlineExceeded)
			}
			r.sharing.hurry(q)
		}
	}
}

// shares is the client in whose pipelines the call can go; nil: it cannot, because it is
// large, or its node is not known.
func (r *Runner) shares(call *Call) *redis.Client {
	if r.pipelines == nil || call.parts != nil || len(call.Keys)+len(call.Args) > fewWords {
		return nil
	}
	return r.pipelines(call.Keys[0])
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

func (sh *sharing) enqueue(to *redis.Client, s *sharedSend) *queue {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	q := sh.queues[to]
	if q == nil {
		if sh.queues == nil {
			sh.queues = make(map[*redis.Client]*queue)
		}
		q = &queue{to: to}
		sh.queues[to] = q
	}
	q.waiting = append(q.waiting, s)
	sh.launch(q)
	return q
}

// hurry is called by who has waited for a while.
func (sh *sharing) hurry(q *queue) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.launch(q)
}

// launch starts a flight if it is time for one. Under mu.
func (sh *sharing) launch(q *queue) {
	if q.ready() {
		f := new(flight)
		q.flights = append(q.flights, f)
		go sh.fly(q, f)
	}
}

func (q *queue) ready() bool {
	now, boarding, young := time.Now(), 0, 0
	for _, f := range q.flights {
		switch {
		case f.began.IsZero():
			boarding++
		case now.Sub(f.began) < patience:
			young++
		}
	}
	n := len(q.waiting)
	return n > 0 && (boarding+young < shareFlights || n >= shareMost*(boarding+1))
}

// fly makes round trips for as long as somebody waits.
func (sh *sharing) fly(q *queue, f *flight) {
	for {
		runtime.Gosched() // who is about to send joins this one, at no delay
		batch := sh.board(q, f)
		if len(batch) == 0 {
			return
		}
		roundTrip(q.to, batch)
	}
}

// board takes those off the queue that go now; none: the flight has ended.
func (sh *sharing) board(q *queue, f *flight) []*sharedSend {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	q.waiting = slices.DeleteFunc(q.waiting, (*sharedSend).withdrawn)
	n := min(len(q.waiting), shareMost)
	if n == 0 {
		q.flights = slices.DeleteFunc(q.flights, func(other *flight) bool { return other == f })
		if len(q.flights) == 0 {
			delete(sh.queues, q.to)
		}
		return nil
	}
	batch := slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	f.began = time.Now()
	return batch
}

// roundTrip sends the batch in one pipeline. It belongs to no caller, and is bound by
// the last of their limits; the client's own timeouts are mostly shorter.
func roundTrip(client *redis.Client, batch []*sharedSend) {
	last := batch[0].limit
	for _, s := range batch {
		if s.limit.After(last) {
			last = s.limit
		}
	}
	ctx, cancel := context.WithDeadline(context.Background(), last)
	defer cancel()
	cmds := make([]*command, len(batch))
	for i, s := range batch {
		cmds[i] = &s.command
	}
	pipeline(ctx, client, cmds)
	for _, s := range batch {
		close(s.done)
	}
}
