// Package check judges a history: whether a lock that keeps its word can have
// produced it. It never looks at the lock itself.
//
// Where Redis lost what it had answered, two holders at once are no fault of the lock.
// Such overlaps are measured, and must end within one lease.
package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/go-lynx/lynx-redis-lock/test/history"
)

// Kinds of violation.
const (
	Overlap   = "two holders at once"
	Order     = "no order of the operations explains the history"
	Timeout   = "the search for an order did not end"
	Token     = "a token did not increase"
	Register  = "the fenced register went back"
	Fence     = "the fenced register refused a valid holder"
	Vanished  = "a valid hold was gone from Redis"
	Outlived  = "a hold was trusted for longer than a lease after its key was lost"
	ToldLate  = "a loss was told too late"
	Leftover  = "a lock was owned long after the end"
	Truncated = "the history has no end"
)

// Kinds are all of them, in the order of a summary.
var Kinds = []string{Overlap, Order, Timeout, Token, Register, Fence, Vanished, Outlived, ToldLate, Leftover, Truncated}

// Violation is something that must not be.
type Violation struct {
	Kind string
	At   int64 // when it showed
	Text string
}

// Losses is what was seen around one kind of event that loses data.
type Losses struct {
	Events      int
	Overlaps    int
	Longest     time.Duration
	Holds       int // first holds of a key after an event, after earlier ones
	BackCounter int // of them, TokenCounter: with a token that had been given out before
	BackClock   int // the same for TokenClock
	Stale       int // writes of valid holders that the register refused for it
}

// Report is what came out.
type Report struct {
	Ops, Holds int
	Results    map[string]int
	Events     map[string]int
	Losses     map[string]*Losses
	Partitions int
	Violations []Violation // in order
	Before     int         // operations that had returned before the first of them
	Illegal    []Picture
}

// Picture is a part of the history that has no order, for porcupine's drawing.
type Picture struct {
	Name string
	Info porcupine.LinearizationInfo
}

// History checks all of it. limit bounds the search for each part of it.
func History(h *history.History, limit time.Duration) *Report {
	c := &checker{h: h, limit: limit, outlivers: map[string]bool{}, report: &Report{
		Ops: len(h.Ops), Holds: len(h.Beliefs), Results: map[string]int{}, Events: map[string]int{}, Losses: map[string]*Losses{},
	}}
	c.prepare()
	c.overlaps()
	c.tokens()
	c.register()
	c.told()
	c.owned()
	c.orders()
	slices.SortStableFunc(c.report.Violations, func(a, b Violation) int { return cmp.Compare(a.At, b.At) })
	for _, op := range h.Ops {
		if len(c.report.Violations) > 0 && op.Return <= c.report.Violations[0].At {
			c.report.Before++
		}
	}
	return c.report
}

type checker struct {
	h      *history.History
	limit  time.Duration
	report *Report
	keys   map[string][]history.Belief // by key, in the order of their calls
	holds  map[string]history.Belief   // by hold
	losses []history.Event             // those that lose data, in order

	outlivers map[string]bool // reported already
}

func (c *checker) prepare() {
	c.keys, c.holds = map[string][]history.Belief{}, map[string]history.Belief{}
	for _, b := range c.h.Beliefs {
		c.keys[b.Key] = append(c.keys[b.Key], b)
		c.holds[b.Hold] = b
	}
	for _, e := range c.h.Events {
		c.report.Events[e.Kind]++
		if e.Loses != history.Keeps {
			c.losses = append(c.losses, e)
			c.at(e).Events++
		}
	}
	for _, op := range c.h.Ops {
		if op.Via != "repeat" {
			c.report.Results[op.Do+" "+op.Result]++
		}
		if op.Do == history.Acquire && op.Result == history.OK && c.holds[op.Hold].Hold == "" {
			c.violated(Truncated, op.Return, "hold %s of %s began and never ended", op.Hold, op.Key)
		}
	}
}

func (c *checker) at(e history.Event) *Losses {
	if c.report.Losses[e.Kind] == nil {
		c.report.Losses[e.Kind] = &Losses{}
	}
	return c.report.Losses[e.Kind]
}

func (c *checker) violated(kind string, at int64, format string, args ...any) {
	c.report.Violations = append(c.report.Violations, Violation{kind, at, fmt.Sprintf(format, args...)})
}

// lost is an event between two moments that may have lost data; nil: it was kept.
func (c *checker) lost(from, to int64) *history.Event {
	return c.worst(from, to, func(*history.Event) bool { return true })
}

// worst is, of the events between two moments that can be blamed, the one that loses
// most, and of several the last.
func (c *checker) worst(from, to int64, blame func(*history.Event) bool) (worst *history.Event) {
	for i := range c.losses {
		e := &c.losses[i]
		if e.Start <= to && e.End >= from && blame(e) && (worst == nil || much[e.Loses] >= much[worst.Loses]) {
			worst = e
		}
	}
	return worst
}

var much = map[string]int{history.Last: 1, history.Some: 2, history.All: 3}

// overlaps: whoever acquires must find every earlier belief ended. What an event lost
// between the two acquisitions excuses it, for one lease.
func (c *checker) overlaps() {
	for key, holds := range c.keys {
		byFrom := slices.Clone(holds)
		slices.SortStableFunc(byFrom, func(a, b history.Belief) int { return cmp.Compare(a.From, b.From) })
		var open []history.Belief
		for _, b := range byFrom {
			open = slices.DeleteFunc(open, func(a history.Belief) bool { return a.To <= b.From })
			for _, a := range open {
				c.overlap(key, a, b)
			}
			open = append(open, b)
		}
		for _, b := range holds {
			c.vanished(b)
		}
	}
}

func (c *checker) overlap(key string, a, b history.Belief) {
	took := time.Duration(min(a.To, b.To) - b.From)
	if took <= 0 {
		return
	}
	e := c.lost(min(a.Call, b.Call), b.From)
	if e == nil {
		c.violated(Overlap, b.From, "%s: %s (token %d, until %d) and %s (token %d, from %d) for %s",
			key, a.Hold, a.Token, a.To, b.Hold, b.Token, b.From, took)
		return
	}
	// An acquire that waited may have begun before an event that took nothing from it.
	if recent := c.worst(min(a.Call, b.Call), b.From, func(e *history.Event) bool { return a.To <= e.End+a.Lease }); recent != nil {
		e = recent
	}
	l := c.at(*e)
	l.Overlaps++
	l.Longest = max(l.Longest, took)
	c.outlived(a, e)
}

// outlived: a key that an event has lost is not renewed any more, so its holder's
// trust ends with the lease it had then.
func (c *checker) outlived(a history.Belief, e *history.Event) {
	if a.To > e.End+a.Lease && !c.outlivers[a.Hold] {
		c.outlivers[a.Hold] = true
		c.violated(Outlived, e.End+a.Lease, "%s: %s was trusted %s after %s had ended, with a lease of %s",
			a.Key, a.Hold, time.Duration(a.To-e.End), e.Kind, time.Duration(a.Lease))
	}
}

// vanished: a hold that was told of its loss before its own deadline, and one that
// has outlived the loss of everything.
func (c *checker) vanished(b history.Belief) {
	if b.Why == history.Gone && c.lost(b.Call, max(b.To, b.News)) == nil {
		c.violated(Vanished, b.To, "%s: %s (token %d) was told that it is gone", b.Key, b.Hold, b.Token)
	}
	for i := range c.losses {
		if e := &c.losses[i]; e.Loses == history.All && b.From < e.Start && b.To > e.End {
			c.outlived(b, e)
		}
	}
}

// owned: nothing may be owned when all leases must have run out, and every process
// must have come to its end.
func (c *checker) owned() {
	end := int64(0)
	for _, op := range c.h.Ops {
		end = max(end, op.Return)
	}
	for _, key := range c.h.Owned {
		c.violated(Leftover, end, "%s", key)
	}
	for _, op := range c.h.Ops {
		if !slices.Contains(c.h.Ended, op.Process) {
			c.violated(Truncated, end, "of %s", op.Process)
			return
		}
	}
	for _, op := range c.h.Ops {
		if op.Do == history.Inspect && op.Result == history.Lost && op.Held && c.lost(c.holds[op.Hold].Call, op.Return) == nil {
			c.violated(Vanished, op.Return, "%s: Redis has %q as the owner while %s is held", op.Key, op.Value, op.Hold)
		}
	}
}
