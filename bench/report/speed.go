package report

import (
	"fmt"
	"strings"

	"github.com/go-lynx/lynx-redis-lock/bench/contestant"
	"github.com/go-lynx/lynx-redis-lock/bench/measure"
	"github.com/go-lynx/lynx-redis-lock/bench/workload"
)

// Speed is one run of the whole benchmark.
type Speed struct {
	Series  []*Series
	Weights []workload.Weight
}

// Markdown is the run as tables, the goals first.
func (r *Speed) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### Goals\n\n%s\n%s", goalNote, r.Goals().String())
	for _, s := range r.Series {
		fmt.Fprintf(&b, "\n### %s\n\n%s of %v.\n\n%s\n%s", capital(s.Spec.Name()), plural(s.Spec.Rounds, "round"), s.Spec.Window, s.outcome(), s.cost())
	}
	if len(r.Weights) > 0 {
		fmt.Fprintf(&b, "\n### Memory of a held lock, bytes\n\n%s", r.weights())
	}
	return b.String()
}

const goalNote = `Ratios are taken within each round; a goal is judged by their median.
`

// Legend explains the columns, once.
const Legend = `How to read the tables: ratios are those of acquisitions a second, taken within each round, as "median (least)" of the rounds; "best peer" is the fastest
other library of that round. "to another" counts acquisitions by another worker than the last holder. The wait is that from the call to the lock, on free locks acquire and release together;
p50 and p99 are of the waits of all rounds, the longest includes those that the window's end cut off. Jain and starved workers are medians over the rounds. Commands, allocations
and processor time are per acquisition (with its release and all tries that failed); the client's include the benchmark's own loop, the server's are from getrusage by INFO cpu.
"double" counts the times that two workers were inside at once. The commands are split with the help of MONITOR in a window before.
`

// outcome is what the workers got.
func (s *Series) outcome() *Table {
	t := &Table{Head: []string{
		"contestant", "per second",
	}}
	for _, floor := range s.floors() {
		t.Head = append(t.Head, "× "+floor)
	}
	t.Head = append(t.Head, "× best peer")
	many := !s.Spec.Free
	if many {
		t.Head = append(t.Head, "to another/s", "hand-over p50, p99 ms")
	}
	t.Head = append(t.Head, "wait p50 ms", "p99", "longest", "Jain", "starved")
	if s.Spec.Processes > 1 {
		t.Head = append(t.Head, "Jain of processes")
	}
	t.Head = append(t.Head, "double", "failed")
	for _, c := range s.Contestants {
		t.Add(s.outcomeOf(c, many)...)
	}
	return t
}

func (s *Series) outcomeOf(c contestant.Contestant, many bool) []string {
	name := c.Name
	row := []string{name, Number(s.median(name, rate))}
	for _, floor := range s.floors() {
		row = append(row, spreadOf(s.ratios(name, floor, rate)))
	}
	row = append(row, spreadOf(s.toBestPeer(name, rate)))
	if many {
		h := s.pooled(name, handed)
		row = append(row, Number(s.median(name, toAnother)),
			Millis(measure.Percentile(h, 50))+", "+Millis(measure.Percentile(h, 99)))
	}
	w := s.pooled(name, waits)
	row = append(row, Millis(measure.Percentile(w, 50)), Millis(measure.Percentile(w, 99)), Millis(s.longestWait(name)),
		Number(s.median(name, jain)), Number(s.median(name, starved)))
	if s.Spec.Processes > 1 {
		row = append(row, Number(s.median(name, jainOfProcesses(s.Spec.Workers))))
	}
	double := fmt.Sprint(s.sum(name, overlaps))
	if c.NoLock {
		double = "no lock"
	}
	return append(row, double, fmt.Sprint(s.sum(name, failures)))
}

// floors are those that others are compared with here.
func (s *Series) floors() (names []string) {
	for _, name := range []string{contestant.TwoEvalSha, contestant.SetNX} {
		if len(s.Samples[name]) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// cost is what an acquisition took.
func (s *Series) cost() *Table {
	t := &Table{Head: []string{
		"contestant", "commands on the wire", "in scripts", "allocations", "bytes", "client CPU µs", "Redis CPU µs",
	}}
	for _, c := range s.Contestants {
		row := []string{c.Name}
		for _, value := range []func(*workload.Sample) float64{onWire, inScript, mallocs, allocated, clientMicros, serverMicros} {
			row = append(row, Number(s.each(c.Name, value)))
		}
		t.Add(row...)
	}
	return t
}

func (r *Speed) weights() *Table {
	t := &Table{Head: []string{
		"contestant", "process: heap", "process: stacks", "Redis (MEMORY USAGE)", "keys", "Redis, after the release", "keys",
	}}
	for _, w := range r.Weights {
		t.Add(w.Name, Number(w.Heap), Number(w.Stack), Number(w.Redis), Number(w.Keys), Number(w.LeftOf), Number(w.LeftN))
	}
	return t
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
