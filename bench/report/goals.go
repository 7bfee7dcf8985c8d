package report

import (
	"fmt"
	"math"
	"time"

	"github.com/go-lynx/lynx-redis-lock/bench/contestant"
	"github.com/go-lynx/lynx-redis-lock/bench/measure"
	"github.com/go-lynx/lynx-redis-lock/bench/workload"
)

// Goal is one line of a table of goals.
type Goal struct {
	What, Want, Got string
	Met             bool
	Missing         bool // it was not measured
}

// GoalTable lists goals, each with its figure.
func GoalTable(goals []Goal) *Table {
	t := &Table{Head: []string{"what", "goal", "reached", ""}}
	for _, g := range goals {
		verdict := "**missed**"
		switch {
		case g.Missing:
			verdict = "not measured"
		case g.Met:
			verdict = "met"
		}
		t.Add(g.What, g.Want, g.Got, verdict)
	}
	return t
}

// Goals are those of a lock's speed.
func (r *Speed) Goals() *Table {
	var goals []Goal
	for _, part := range []func() []Goal{r.freeGoals, r.manyFreeGoals, r.handOverGoals, r.waiterGoals, r.hotGoals, r.processGoals, r.memoryGoals} {
		goals = append(goals, part()...)
	}
	return GoalTable(goals)
}

// find is the series of a situation; an empty one when it was not run.
func (r *Speed) find(like workload.Spec) *Series {
	for _, s := range r.Series {
		if s.Spec.Name() == like.Name() {
			return s
		}
	}
	return &Series{Spec: like}
}

// atMost and atLeast judge a figure; what is not a number was not measured.
func atMost(what string, limit, got float64, text string) Goal {
	return Goal{What: what, Want: "≤ " + Number(limit), Got: text, Met: got <= limit, Missing: math.IsNaN(got)}
}

func atLeast(what string, limit, got float64, text string) Goal {
	return Goal{What: what, Want: "≥ " + Number(limit), Got: text, Met: got >= limit, Missing: math.IsNaN(got)}
}

func spreadOf(ratios []float64) string { return Spread(measure.Median(ratios), measure.Least(ratios)) }

// freeGoals: times are the inverse of rates, so the ratio stands upside down.
func (r *Speed) freeGoals() []Goal {
	s := r.find(workload.Spec{Workers: 1, Free: true})
	floor := s.ratios(contestant.TwoEvalSha, contestant.OursAcquire, rate)
	bsm := s.ratios(contestant.Bsm, contestant.OursAcquire, rate)
	wire, allocations := s.each(contestant.OursAcquire, onWire), s.each(contestant.OursAcquire, mallocs)
	goals := []Goal{
		atMost("free lock, 1 goroutine: time ÷ two EVALSHA (goal 1.10)", 1.20, measure.Median(floor), spreadOf(floor)),
		atMost("… time ÷ bsm 0.10.0", 1, measure.Median(bsm), spreadOf(bsm)),
		{What: "… commands on the wire", Want: "2", Got: Number(wire), Met: math.Abs(wire-2) < 0.01, Missing: math.IsNaN(wire)},
		atMost("allocations of the pair (goal 30)", 34, allocations, Number(allocations)),
	}
	return goals
}

func (r *Speed) manyFreeGoals() (goals []Goal) {
	for _, n := range []int{64, 512} {
		s := r.find(workload.Spec{Workers: n, Free: true})
		floor := s.ratios(contestant.OursAcquire, contestant.TwoEvalSha, rate)
		peer := s.ratios(contestant.OursAcquire, contestant.Rueidis, rate)
		goals = append(goals,
			atLeast(fmt.Sprintf("free locks, %d goroutines: rate ÷ two EVALSHA", n), 1.5, measure.Median(floor), spreadOf(floor)),
			atLeast("… rate ÷ rueidislock", 1, measure.Median(peer), spreadOf(peer)))
	}
	return goals
}

func (r *Speed) handOverGoals() (goals []Goal) {
	s := r.find(workload.HandOver(2, 1, 0, 0))
	ours, theirs := s.pooled(contestant.OursWait, handed), s.pooled(contestant.Rueidis, handed)
	for _, p := range []float64{50, 99} {
		a, b := measure.Percentile(ours, p), measure.Percentile(theirs, p)
		goals = append(goals, atMost(fmt.Sprintf("hand-over to another process, hold 5 ms: p%v ÷ rueidislock's", p), 1.2,
			quotient(a, b), fmt.Sprintf("%s (%s ms, %s ms)", Number(quotient(a, b)), Millis(a), Millis(b))))
	}
	const published = 101 * time.Millisecond
	p50 := measure.Percentile(ours, 50)
	share := quotient(published, p50)
	return append(goals, atLeast("… p50, in parts of the published version's 101 ms", 300, share, fmt.Sprintf("1/%s (%s ms)", Number(share), Millis(p50))))
}

func (r *Speed) waiterGoals() (goals []Goal) {
	for _, n := range []int{64, 256} {
		spec := workload.HandOver(1, n, 0, 0)
		s, name := r.find(spec), contestant.OursWait
		fair, left := s.median(name, jain), s.median(name, starved)
		took := measure.Percentile(s.pooled(name, handed), 50)
		p99 := max(measure.Percentile(s.pooled(name, waits), 99), s.longestCutOff(name))
		var hold, ideal time.Duration
		if len(s.Samples[name]) > 0 {
			hold = time.Duration(s.each(name, held))
			ideal = time.Duration(n) * (hold + took)
		}
		goals = append(goals,
			atLeast(fmt.Sprintf("hand-over, %d waiters in one process: Jain", n), 0.99, fair, fmt.Sprintf("%.3f", fair)),
			atMost("… starved", 0, left, Number(left)),
			atMost("… wait p99 (or the longest without an end) ÷ (waiters × (hold + hand-over))", 1.2, quotient(p99, ideal),
				fmt.Sprintf("%s (%s ms, a hold of %v took %s ms)", Number(quotient(p99, ideal)), Millis(p99), spec.Hold, Millis(hold))))
	}
	return goals
}

func (r *Speed) hotGoals() []Goal {
	s, name := r.find(workload.Spec{Workers: 64}), contestant.OursWait
	wire := s.each(name, onWire)
	another := s.toBestPeer(name, toAnother)
	return []Goal{
		atMost("64 waiters in one process, hold 0: commands on the wire (goal 1.1)", 2, wire, Number(wire)),
		atLeast("… acquisitions/s to another ÷ the best peer's", 3, measure.Median(another), spreadOf(another)),
	}
}

func (r *Speed) processGoals() (goals []Goal) {
	for _, hold := range []time.Duration{0, time.Millisecond} {
		s, name := r.find(workload.Spec{Processes: 4, Workers: 8, Hold: hold}), contestant.OursWait
		workers, processes := s.median(name, jain), s.median(name, jainOfProcesses(8))
		peer, best := s.bestFairPeer(0.9)
		got := s.median(name, rate) / best
		text := fmt.Sprintf("%s (%s/s, %s/s of %s)", Number(got), Number(s.median(name, rate)), Number(best), peer)
		if peer == "" && len(s.Samples) > 0 {
			got, text = math.Inf(1), fmt.Sprintf("no peer's Jain is ≥ 0.9; %s/s", Number(s.median(name, rate)))
		}
		goals = append(goals,
			atLeast(fmt.Sprintf("4 processes × 8 goroutines, hold %v: Jain of the 32 workers", hold), 0.95, workers, fmt.Sprintf("%.3f", workers)),
			atLeast("… Jain of the 4 processes", 0.95, processes, fmt.Sprintf("%.3f", processes)),
			atLeast("… acquisitions/s ÷ the best peer's whose Jain is ≥ 0.9", 1, got, text))
	}
	return goals
}

// bestFairPeer is the fastest peer whose median Jain is at least fair; "": none is.
func (s *Series) bestFairPeer(fair float64) (name string, best float64) {
	best = math.NaN()
	for _, c := range s.Contestants {
		if v := s.median(c.Name, rate); c.Kind == contestant.Peer && s.median(c.Name, jain) >= fair && !(v <= best) {
			name, best = c.Name, v
		}
	}
	return name, best
}

func (r *Speed) memoryGoals() []Goal {
	bytes := math.NaN()
	for _, w := range r.Weights {
		if w.Name == contestant.OursAcquire {
			bytes = w.Redis
		}
	}
	return []Goal{atMost("Redis memory of a held lock, 20-byte key, bytes", 250, bytes, Number(bytes))}
}

func quotient(a, b time.Duration) float64 {
	if b == 0 {
		return math.NaN()
	}
	return float64(a) / float64(b)
}
