package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-lynx/lynx-redis-lock/test/history"
)

// tokens: a hold whose acquire began after another's had returned has the greater one.
func (c *checker) tokens() {
	for _, holds := range c.keys {
		var last *history.Belief // of those that had returned: the greatest
		byReturn := slices.Clone(holds)
		slices.SortStableFunc(byReturn, func(a, b history.Belief) int { return cmp.Compare(a.From, b.From) })
		seen := map[int64]history.Belief{}
		next, after := 0, -1
		for _, b := range holds { // by Call
			for ; next < len(byReturn) && byReturn[next].From < b.Call; next++ {
				if a := &byReturn[next]; last == nil || a.Token > last.Token {
					last = a
				}
			}
			bad := last
			if bad == nil || bad.Token < b.Token {
				if a, twice := seen[b.Token]; twice {
					bad = &a
				}
			}
			after = c.firstAfter(b, last, after)
			seen[b.Token] = b
			if bad == nil || bad.Token < b.Token {
				continue
			}
			e := c.lost(min(bad.Call, b.Call), max(bad.From, b.From))
			if e == nil {
				c.violated(Token, b.From, "%s: %s got %d after %s had %d", b.Key, b.Hold, b.Token, bad.Hold, bad.Token)
				continue
			}
			if b.Clock {
				c.at(*e).BackClock++
			} else {
				c.at(*e).BackCounter++
			}
			// What was lost says nothing about what comes now.
			last, seen = nil, map[int64]history.Belief{b.Token: b}
		}
	}
}

// firstAfter counts the first hold of a key after each event that loses data.
func (c *checker) firstAfter(b history.Belief, last *history.Belief, counted int) int {
	for i := len(c.losses) - 1; i > counted; i-- {
		if e := c.losses[i]; e.End < b.Call {
			if last != nil {
				c.at(e).Holds++
			}
			return i
		}
	}
	return counted
}

// register: in the order in which its writes were applied their tokens never fall,
// and while no data was lost it refuses nobody who is valid before and after.
func (c *checker) register() {
	last := map[string]history.Op{}
	writes := slices.DeleteFunc(slices.Clone(c.h.Ops), func(op history.Op) bool { return op.Do != history.Write })
	slices.SortStableFunc(writes, func(a, b history.Op) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, op := range writes {
		switch op.Result {
		case history.OK:
			if before := last[op.Key]; before.Token > op.Token {
				c.violated(Register, op.Return, "%s: %s wrote with %d after %s with %d", op.Key, op.Hold, op.Token, before.Hold, before.Token)
			}
			last[op.Key] = op
		case history.Refused:
			c.refused(op)
		}
	}
}

func (c *checker) refused(op history.Op) {
	b := c.holds[op.Hold]
	if op.Return > b.To {
		return // it had been overtaken meanwhile
	}
	for _, a := range c.keys[op.Key] {
		if a.Token != op.Highest {
			continue
		}
		e := c.lost(min(a.Call, b.Call), op.Return)
		if e == nil {
			c.violated(Fence, op.Return, "%s: %s with token %d, it had seen %d", op.Key, op.Hold, op.Token, op.Highest)
		} else {
			c.at(*e).Stale++
		}
		return
	}
}

// lateness is what timers and goroutines of a busy machine may take.
const lateness = time.Second

// told: nobody reads "valid" after the end of a belief, and Done closes soon after it,
// not counting the time for which the process was stopped.
func (c *checker) told() {
	for _, b := range c.h.Beliefs {
		if b.Seen > b.To {
			c.violated(ToldLate, b.Seen, "%s: %s was still valid %s after its end", b.Key, b.Hold, time.Duration(b.Seen-b.To))
		}
		stopped := int64(0)
		for _, e := range c.h.Events {
			if e.On == b.Process && e.Kind == Stop {
				stopped += max(0, min(e.End, b.Told)-max(e.Start, b.To))
			}
		}
		if late := time.Duration(b.Told - b.To - stopped); b.Told == 0 || late > lateness {
			c.violated(ToldLate, b.To+int64(lateness), "%s: Done of %s closed %s after its end (%d; 0: never)", b.Key, b.Hold, late, b.Told)
		}
	}
}

// Stop is the kind of event that stops a process for a while.
const Stop = "SIGSTOP of a client"
