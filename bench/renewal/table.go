package renewal

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/go-lynx/lynx-redis-lock/bench/measure"
	"github.com/go-lynx/lynx-redis-lock/bench/report"
)

// Run is all that was measured on one topology. What was not is empty.
type Run struct {
	Topology string
	Rounds   []Round
	// RoundFailure is why there are not more of them.
	RoundFailure string
	Keepers      []Held // of the same number of locks, in turns
	Many         *Held
	Slow         *Held // over a longer way
	Idle         *Idle
}

// Markdown is the run as tables, the goals first.
func (r *Run) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s", r.Topology, report.GoalTable(r.goals()))
	if len(r.Rounds) > 0 {
		fmt.Fprintf(&b, "\nOne renewal of %d locks, all due at once, beside one EVALSHA each from %d goroutines:\n\n%s",
			r.Rounds[0].Locks, singleWorkers, roundTable(r.Rounds))
	}
	if r.RoundFailure != "" {
		fmt.Fprintf(&b, "\nA round could not be measured: %s.\n", r.RoundFailure)
	}
	fmt.Fprintf(&b, "\nLocks kept; processor time in %% of a core, Redis's of all its processes:\n\n%s", heldTable(r.held()))
	return b.String()
}

func (r *Run) held() []Held {
	all := r.Keepers
	for _, h := range []*Held{r.Many, r.Slow} {
		if h != nil {
			all = append(all[:len(all):len(all)], *h)
		}
	}
	if r.Idle != nil {
		all = append(all[:len(all):len(all)], r.Idle.Held)
	}
	return all
}

func roundTable(rounds []Round) *report.Table {
	t := &report.Table{Head: []string{"round", "ours ms", "single ms", "ratio", "ours: Redis CPU µs a lock", "single", "ours: process CPU µs a lock", "single"}}
	for i, r := range rounds {
		each := func(d time.Duration) string { return report.Number(float64(d.Microseconds()) / float64(r.Locks)) }
		t.Add(fmt.Sprint(i+1), report.Millis(r.Ours), report.Millis(r.Single), report.Number(over(r.Ours, r.Single)),
			each(r.OursRedisCPU), each(r.SingleRedisCPU), each(r.OursCPU), each(r.SingleCPU))
	}
	return t
}

func heldTable(held []Held) *report.Table {
	t := &report.Table{Head: []string{
		"keeper", "locks", "TTL", "held", "lost", "process CPU", "Redis CPU", "commands/s", "bytes a lock", "goroutines", "lateness p99 ≤",
	}}
	for _, h := range held {
		t.Add(h.Name, fmt.Sprint(h.Locks), h.TTL.String(), h.Time.String(), h.lost(), percent(h.CPU), percent(h.RedisCPU),
			report.Number(h.Commands), report.Number(h.Bytes), fmt.Sprint(h.Goroutines), h.lateness())
	}
	return t
}

func (h *Held) lost() string {
	if h.Failure != "" {
		return h.Failure
	}
	return fmt.Sprint(h.Lost)
}

func percent(share float64) string { return report.Number(100*share) + " %" }

func (h *Held) lateness() string {
	switch {
	case h.Name != Ours:
		return ""
	case !h.LatenessMeasured:
		return "no samples of " + latenessMetric
	case h.LatenessP99 == math.MaxInt64:
		return "above every bucket"
	default:
		return h.LatenessP99.String()
	}
}

func over(a, b time.Duration) float64 { return float64(a) / float64(b) }

func (r *Run) goals() []report.Goal {
	var goals []report.Goal
	for _, part := range []func() []report.Goal{r.roundGoals, r.keeperGoals, r.manyGoals, r.idleGoals} {
		goals = append(goals, part()...)
	}
	return goals
}

func (r *Run) roundGoals() []report.Goal {
	if len(r.Rounds) == 0 {
		return nil
	}
	var wall, redis []float64
	for _, one := range r.Rounds {
		wall = append(wall, over(one.Ours, one.Single))
		redis = append(redis, over(one.OursRedisCPU, one.SingleRedisCPU))
	}
	n := r.Rounds[0].Locks
	return []report.Goal{
		limit(fmt.Sprintf("%d locks, one renewal round ÷ one EVALSHA each with 50 workers: wall time", n), 0.2, wall...),
		limit("… Redis CPU a lock", 1.0/3, redis...),
	}
}

func (r *Run) keeperGoals() []report.Goal {
	by := map[string]Held{}
	for _, h := range r.Keepers {
		by[h.Name] = h
	}
	ours, found := by[Ours]
	if !found {
		return nil
	}
	return []report.Goal{
		none(ours),
		limit("… process CPU ÷ rueidislock's", 0.5, ours.CPU/by[Rueidis].CPU),
		limit("… process CPU ÷ the bare pipeline's", 2, ours.CPU/by[Pipeline].CPU),
		limit("… Redis CPU ÷ rueidislock's", 1, ours.RedisCPU/by[Rueidis].RedisCPU),
	}
}

func (r *Run) manyGoals() (goals []report.Goal) {
	if r.Many != nil {
		goals = append(goals, none(*r.Many), report.Goal{
			What: "… lateness p99", Want: "< 500ms", Got: r.Many.lateness(),
			Met: r.Many.LatenessMeasured && r.Many.LatenessP99 < 500*time.Millisecond, Missing: !r.Many.LatenessMeasured,
		})
	}
	if r.Slow != nil {
		g := none(*r.Slow)
		g.What += fmt.Sprintf(", +%v round trip", SlowTrip)
		goals = append(goals, g)
	}
	return goals
}

func (r *Run) idleGoals() []report.Goal {
	if r.Idle == nil {
		return nil
	}
	return []report.Goal{
		limit(fmt.Sprintf("%d locks, TTL %v, none due: %% of a core", r.Idle.Locks, r.Idle.TTL), 1, 100*r.Idle.CPU),
		limit("memory of a held, renewed lock in the process, bytes", 500, r.Idle.Bytes),
		limit(fmt.Sprintf("adding and removing one lock among %d ÷ among %d", r.Idle.Many, r.Idle.Few), 2, r.Idle.AddRemove...),
	}
}

// limit is a goal whose figure, the median of values, may be so much at most.
func limit(what string, most float64, values ...float64) report.Goal {
	got := measure.Median(values)
	text := report.Number(got)
	if len(values) > 1 {
		text = report.Spread(got, measure.Least(values))
	}
	return report.Goal{What: what, Want: "≤ " + report.Number(most), Got: text, Met: got <= most, Missing: math.IsNaN(got)}
}

// none is the goal that no lock is lost.
func none(h Held) report.Goal {
	return report.Goal{
		What: fmt.Sprintf("%d locks held %v, TTL %v: lost", h.Locks, h.Time, h.TTL), Want: "0", Got: h.lost(), Met: h.Lost == 0 && h.Failure == "",
	}
}
