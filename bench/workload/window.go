package workload

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lynx/lynx-redis-lock/bench/contestant"
	"github.com/go-lynx/lynx-redis-lock/bench/measure"
)

// drainTime is how long waiters have to get the lock and give it back after the
// window's end, before their contexts end.
const drainTime = 50 * time.Millisecond

// yieldEvery is how often a holder that handed over looks whether another has come.
const yieldEvery = 200 * time.Microsecond

// window is one run of the workers of this process.
type window struct {
	spec    Spec
	forever bool // the workers' contexts need not end
	stopped atomic.Bool
	workers []*worker
}

type worker struct {
	*window
	id     int64 // from 1, unlike any other worker's in any process
	locker contestant.Locker
	shared *Shared

	waiting atomic.Int64 // since when, in ns; 0: not
	count   int64
	waits   []time.Duration
	handed  []time.Duration
	held    time.Duration
	err     error
}

// run lets all workers start at once, and stops them after the window. Around is
// called when they start and when time is up, before anybody is waited for.
func (w *window) run(around func()) Sample {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if w.forever {
		ctx = context.Background()
	}
	var done sync.WaitGroup
	begin := make(chan struct{})
	for _, worker := range w.workers {
		done.Go(func() {
			<-begin
			worker.err = worker.work(ctx)
		})
	}
	around()
	before := measure.Used() // after around, whose work is not the workers'
	start := time.Now()
	close(begin)
	time.Sleep(w.spec.Window)
	w.stopped.Store(true)
	s := Sample{Elapsed: time.Since(start)}
	used := measure.Used().Since(before)
	around()
	for _, worker := range w.workers {
		if since := worker.waiting.Load(); since != 0 {
			s.Unserved = max(s.Unserved, time.Duration(time.Now().UnixNano()-since))
		}
	}
	giveUp := time.AfterFunc(drainTime, cancel)
	done.Wait()
	giveUp.Stop()
	s.CPU, s.Mallocs, s.Bytes = used.CPU, used.Mallocs, used.Bytes
	w.collect(&s)
	return s
}

func (w *window) collect(s *Sample) {
	for _, worker := range w.workers {
		s.Counts = append(s.Counts, worker.count)
		s.Waits = append(s.Waits, worker.waits...)
		s.Handed = append(s.Handed, worker.handed...)
		s.Held += worker.held
		if worker.err != nil {
			s.Failures++
			if s.Failure == "" {
				s.Failure = worker.err.Error()
			}
		}
	}
}

// work takes and gives back until time is up. An error ends it, unless it comes from
// giving up a wait then.
func (w *worker) work(ctx context.Context) error {
	for !w.stopped.Load() {
		start := time.Now()
		w.waiting.Store(start.UnixNano())
		err := w.locker.Lock(ctx)
		w.waiting.Store(0)
		if err != nil {
			if w.stopped.Load() {
				return nil
			}
			return fmt.Errorf("lock: %w", err)
		}
		turn := w.hold(start)
		if err := w.locker.Unlock(context.Background()); err != nil {
			return fmt.Errorf("unlock: %w", err)
		}
		if w.spec.Free {
			w.waits = append(w.waits, time.Since(start))
		}
		w.yield(turn)
	}
	return nil
}

// hold is what is done between Lock and Unlock. What is acquired after the window's
// end is neither counted nor kept, so that the others can end as well; and not written
// down, since a context that has ended frees what some libraries hold.
func (w *worker) hold(start time.Time) (turn int64) {
	if w.stopped.Load() {
		return 0
	}
	turn, came := w.shared.enter(w.id)
	defer w.shared.leave()
	w.count++
	if came >= 0 {
		w.handed = append(w.handed, came)
	}
	if !w.spec.Free {
		w.waits = append(w.waits, time.Since(start))
	}
	if w.spec.Hold > 0 {
		slept := time.Now()
		time.Sleep(w.spec.Hold)
		w.held += time.Since(slept)
	}
	return turn
}

// yield waits until another has had the lock.
func (w *worker) yield(turn int64) {
	for w.spec.HandOver && w.shared.turns.Load() == turn && !w.stopped.Load() {
		time.Sleep(yieldEvery)
	}
}
