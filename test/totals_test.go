package test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-lynx/lynx-redis-lock/test/check"
)

func summary(r *check.Report) string {
	return fmt.Sprintf("%d operations, %d holds, %d parts searched, %d violations", r.Ops, r.Holds, r.Partitions, len(r.Violations))
}

// totals are the figures of all rounds.
type totals struct {
	ops, holds, parts int
	results, events   map[string]int
	losses            map[string]*check.Losses
	violations        map[string]int
}

func newTotals() *totals {
	return &totals{results: map[string]int{}, events: map[string]int{}, losses: map[string]*check.Losses{}, violations: map[string]int{}}
}

func (a *totals) add(r *check.Report) {
	a.ops += r.Ops
	a.holds += r.Holds
	a.parts += r.Partitions
	for k, n := range r.Results {
		a.results[k] += n
	}
	for k, n := range r.Events {
		a.events[k] += n
	}
	for k, l := range r.Losses {
		sum := a.losses[k]
		if sum == nil {
			sum = &check.Losses{}
			a.losses[k] = sum
		}
		sum.Events += l.Events
		sum.Overlaps += l.Overlaps
		sum.Longest = max(sum.Longest, l.Longest)
		sum.Holds += l.Holds
		sum.BackCounter += l.BackCounter
		sum.BackClock += l.BackClock
		sum.Stale += l.Stale
	}
	for _, v := range r.Violations {
		a.violations[v.Kind]++
	}
}

// String is the summary of a run.
func (a *totals) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d operations, %d holds, %d parts searched\n", a.ops, a.holds, a.parts)
	for _, k := range slices.Sorted(maps.Keys(a.results)) {
		fmt.Fprintf(&b, "  %-20s %8d\n", k, a.results[k])
	}
	fmt.Fprintln(&b, "nemesis:")
	for _, k := range slices.Sorted(maps.Keys(a.events)) {
		fmt.Fprintf(&b, "  %-42s %5d\n", k, a.events[k])
	}
	fmt.Fprintln(&b, "where data may have been lost: events, overlaps (the longest), holds that came first after one, of them with an old token by TokenCounter and TokenClock, writes of valid holders refused:")
	for _, k := range slices.Sorted(maps.Keys(a.losses)) {
		l := a.losses[k]
		fmt.Fprintf(&b, "  %-42s %5d  %4d (%s)  %4d  %4d %4d  %5d\n", k, l.Events, l.Overlaps, l.Longest.Round(1e6), l.Holds, l.BackCounter, l.BackClock, l.Stale)
	}
	fmt.Fprintln(&b, "while data was kept:")
	for _, k := range check.Kinds {
		fmt.Fprintf(&b, "  %-75s %d\n", k, a.violations[k])
	}
	return b.String()
}
