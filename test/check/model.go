package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/go-lynx/lynx-redis-lock/test/history"
)

// end is when a hold's lease runs out by itself, or with a release that was not
// answered: it may free the lock at any moment from its call on, and does nothing when
// the lock is another's by then.
const end = "end"

// The lock of one key.
type state struct {
	owner string // the hold; "": free
	depth int
	token int64 // the last one given out
}

// model is what a lock may do.
//
// It is asked about holds only. A refused acquire says nothing about safety. One
// without an answer stays open for ever and may take the lock at any time or never;
// in every order that explains a history with it, it can be left out, since nothing
// else needs it. So it is left out from the start, and costs no search.
var model = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(s, input, _ any) (bool, any) { return step(s.(state), input.(history.Op)) },
	DescribeOperation: func(input, _ any) string {
		op := input.(history.Op)
		return fmt.Sprintf("%s %s %s (token %d, depth %d, held %v)", op.Hold, op.Do, op.Result, op.Token, op.Depth, op.Held)
	},
	DescribeState: func(s any) string {
		st := s.(state)
		return fmt.Sprintf("owner %q, depth %d, token %d", st.owner, st.depth, st.token)
	},
}

// Model is for the drawing of a Picture.
func Model() porcupine.Model { return model }

func step(s state, op history.Op) (bool, state) {
	own := s.owner == op.Hold
	switch op.Do {
	case history.Acquire:
		return s.owner == "" && op.Token > s.token, state{op.Hold, 1, op.Token}
	case history.Reenter:
		s.depth++
		return own, s
	case history.Renew, history.Inspect:
		return own, s
	case history.Release:
		s.depth--
		held := s.depth > 0
		if !held {
			s.owner = ""
		}
		return own && op.Held == held, s
	default: // end
		if own {
			s.owner = ""
		}
		return true, s
	}
}

// orders searches an order for the operations of each key, from one loss of data to
// the next. Only holds whose acquire lies wholly between the two are asked about: to
// leave a hold out makes no order impossible.
func (c *checker) orders() {
	ops := map[string][]history.Op{}
	for _, op := range c.h.Ops {
		ops[op.Hold] = append(ops[op.Hold], op)
	}
	begins := []int64{math.MinInt64}
	for _, e := range c.losses {
		begins = append(begins, e.End)
	}
	for _, key := range sorted(c.keys) {
		for i, begin := range begins {
			stop := int64(math.MaxInt64)
			if i < len(c.losses) {
				stop = c.losses[i].Start
			}
			if part := c.part(c.keys[key], ops, begin, stop); len(part) > 0 {
				c.order(key, i, part)
			}
		}
	}
}

func sorted(m map[string][]history.Belief) []string {
	var keys []string
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// part are the operations of the holds of one key that were taken between two moments.
func (c *checker) part(holds []history.Belief, ops map[string][]history.Op, begin, stop int64) (part []porcupine.Operation) {
	holds = slices.DeleteFunc(slices.Clone(holds), func(b history.Belief) bool { return b.Call <= begin || b.From >= stop })
	for i, b := range holds {
		free := next(holds, i, stop)
		for _, op := range ops[b.Hold] {
			if open(op, b) && op.Return < stop {
				part = append(part, operation(op))
			}
		}
		if last := ending(b, ops[b.Hold]); last.Call < stop {
			if last.Do == end { // see next
				last.Return = max(last.Call, free)
			}
			part = append(part, operation(last))
		}
	}
	return part
}

// next bounds the end of a hold from above. An acquire that began after this one had
// returned found the lock free, so the hold had ended when it returned. Without this
// every hold that ran out would stay open to the last operation, and be searched there.
func next(holds []history.Belief, i int, stop int64) int64 {
	free := stop
	for _, later := range holds[i+1:] {
		if later.Call > free {
			break
		}
		if later.Call > holds[i].From {
			free = min(free, later.From)
		}
	}
	return free
}

// open says whether an operation constrains the hold while it lasts.
func open(op history.Op, b history.Belief) bool {
	switch op.Do {
	case history.Acquire, history.Renew, history.Reenter:
		return op.Result == history.OK && op.Call < b.To
	case history.Inspect:
		return op.Result == history.OK && op.Held
	case history.Release: // a partial one counts when it is sent
		return op.Held && op.Result != history.Lost && op.Via != "repeat"
	default:
		return false
	}
}

// ending is what ended the hold: a release with its answer, one without, or time.
func ending(b history.Belief, ops []history.Op) history.Op {
	for _, op := range ops {
		if op.Do != history.Release || op.Held || op.Via == "repeat" || b.Why != history.Released {
			continue
		}
		if op.Result == history.OK {
			return op
		}
		return history.Op{Process: op.Process, Thread: op.Thread, Hold: b.Hold, Do: end, Call: op.Call}
	}
	thread := 0
	if len(ops) > 0 {
		thread = ops[0].Thread
	}
	return history.Op{Process: b.Process, Thread: thread, Hold: b.Hold, Do: end, Call: b.To}
}

func operation(op history.Op) porcupine.Operation {
	return porcupine.Operation{Input: op, Call: op.Call, Return: op.Return}
}

// order searches one part.
func (c *checker) order(key string, epoch int, part []porcupine.Operation) {
	c.report.Partitions++
	lanes := map[string]int{}
	for i := range part {
		op := part[i].Input.(history.Op)
		lane := fmt.Sprint(op.Process, "/", op.Thread)
		if _, known := lanes[lane]; !known {
			lanes[lane] = len(lanes)
		}
		part[i].ClientId = lanes[lane]
	}
	switch result := porcupine.CheckOperationsTimeout(model, part, c.limit); result {
	case porcupine.Ok:
		return
	case porcupine.Unknown:
		c.violated(Timeout, part[0].Call, "%s, part %d: %d operations", key, epoch, len(part))
		return
	}
	part = c.shortest(part)
	last := part[0]
	for _, o := range part {
		if o.Input.(history.Op).Do != end && o.Return > last.Return {
			last = o
		}
	}
	name := fmt.Sprintf("%s-%d", key, epoch)
	c.violated(Order, last.Return, "%s, part %d: not with %s", key, epoch, model.DescribeOperation(last.Input, nil))
	_, info := porcupine.CheckOperationsVerbose(model, part, c.limit)
	info.AddAnnotations(c.annotations(part[0].Call, last.Return))
	c.report.Illegal = append(c.report.Illegal, Picture{name, info})
}

// shortest is the history up to the moment at which it had no order any more.
func (c *checker) shortest(part []porcupine.Operation) []porcupine.Operation {
	slices.SortStableFunc(part, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	low, high := 0, len(part)-1
	for low < high {
		mid := (low + high) / 2
		if porcupine.CheckOperationsTimeout(model, until(part, part[mid].Return), c.limit) == porcupine.Illegal {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return until(part, part[low].Return)
}

// until is what had returned by then. A release under way may have freed the lock.
func until(part []porcupine.Operation, then int64) (some []porcupine.Operation) {
	for _, o := range part {
		op := o.Input.(history.Op)
		if o.Return > then && op.Do == history.Release && !op.Held {
			op.Do = end
			o.Input = op
		}
		if o.Return <= then || (op.Do == end && o.Call <= then) {
			some = append(some, o)
		}
	}
	return some
}

// annotations are the nemesis's events in the picture.
func (c *checker) annotations(from, to int64) (all []porcupine.Annotation) {
	for _, e := range c.h.Events {
		if e.End >= from && e.Start <= to {
			all = append(all, porcupine.Annotation{Tag: "nemesis", Start: e.Start, End: e.End, Description: e.Kind, Details: e.On + " " + e.Note})
		}
	}
	return all
}
