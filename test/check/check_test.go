package check_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-lynx/lynx-redis-lock/test/check"
	"github.com/go-lynx/lynx-redis-lock/test/history"
)

const ms = int64(time.Millisecond)

// script makes a history by hand, in ms. One key, a lease of 100 ms.
type script struct{ history.History }

// hold is an acquire from call to call+1, with what was believed of it.
func (s *script) hold(name string, token, call, to int64, why string) *history.Belief {
	s.op(name, history.Acquire, call, history.OK).Token = token
	s.Beliefs = append(s.Beliefs, history.Belief{
		Process: "p", Key: "k", Hold: name, Token: token, Call: call * ms, From: (call + 1) * ms, To: to * ms, Why: why,
		Seen: call * ms, Told: to * ms, Lease: 100 * ms,
	})
	return &s.Beliefs[len(s.Beliefs)-1]
}

func (s *script) op(hold, do string, call int64, result string) *history.Op {
	s.Ops = append(s.Ops, history.Op{Process: "p", Key: "k", Hold: hold, Do: do, Result: result, Call: call * ms, Return: (call + 1) * ms})
	return &s.Ops[len(s.Ops)-1]
}

// released is a hold that lasts for 10 ms.
func (s *script) released(name string, token, call int64) *history.Belief {
	b := s.hold(name, token, call, call+10, history.Released)
	s.op(name, history.Release, call+10, history.OK)
	return b
}

func (s *script) event(kind string, start, end int64, loses string) {
	s.Events = append(s.Events, history.Event{Kind: kind, Start: start * ms, End: end * ms, Loses: loses, On: "p"})
}

func (s *script) report() *check.Report {
	s.Ended = []string{"p"}
	slices.SortFunc(s.Ops, func(a, b history.Op) int { return int(a.Call - b.Call) })
	slices.SortFunc(s.Beliefs, func(a, b history.Belief) int { return int(a.Call - b.Call) })
	return check.History(&s.History, 10*time.Second)
}

// TestAGoodHistoryHasNoViolation: each is what a lock that keeps its word can do.
func TestAGoodHistoryHasNoViolation(t *testing.T) {
	for name, write := range map[string]func(s *script){
		"holds in turn": func(s *script) {
			s.released("a", 1, 0)
			s.released("b", 2, 20)
		},
		"a waiter's acquire begins long before it is served": func(s *script) {
			s.released("a", 1, 0)
			s.released("b", 2, 20)
			s.Ops[2].Call, s.Beliefs[1].Call = 1*ms, 1*ms
		},
		"a lease that runs out": func(s *script) {
			s.hold("a", 1, 0, 100, history.Expired)
			s.released("b", 2, 101)
		},
		"a release without an answer, and one that ran before its answer": func(s *script) {
			s.hold("a", 1, 0, 10, history.Released)
			s.op("a", history.Release, 10, history.Unknown)
			s.released("b", 2, 50)
			s.Ops[len(s.Ops)-1].Return = 90 * ms
			s.released("c", 3, 70)
		},
		"an acquire without an answer that nobody can see": func(s *script) {
			s.op("", history.Acquire, 0, history.Unknown)
			s.released("b", 7, 20)
		},
		"levels": func(s *script) {
			s.hold("a", 1, 0, 30, history.Released)
			s.op("a", history.Reenter, 5, history.OK)
			s.op("a", history.Reenter, 8, history.Unknown) // the level does not count
			s.op("a", history.Inspect, 11, history.OK).Held = true
			s.op("a", history.Release, 14, history.OK).Held = true
			s.op("a", history.Release, 30, history.OK)
		},
		"an overlap after FLUSHALL, for less than a lease": func(s *script) {
			s.hold("a", 9, 0, 60, history.Gone)
			s.event("FLUSHALL", 10, 11, history.All)
			s.released("b", 1, 20)
		},
		"a waiter's acquire begins before FLUSHALL, and a clock step cuts its lease": func(s *script) {
			s.event("FLUSHALL", 20, 21, history.All)
			s.hold("a", 1, 10, 135, history.Expired).From = 40 * ms
			s.event("step", 50, 51, history.Some)
			s.released("b", 2, 120)
		},
		"an acquire that FLUSHALL may have come before or after": func(s *script) {
			s.released("a", 5, 0)
			s.event("FLUSHALL", 20, 21, history.All)
			s.hold("b", 5, 12, 40, history.Released).From = 30 * ms
			s.op("b", history.Release, 40, history.OK)
		},
		"FLUSHALL while a release was under way": func(s *script) {
			s.hold("a", 1, 0, 50, history.Gone).News = 70 * ms
			s.event("FLUSHALL", 60, 61, history.All)
		},
		"told late because the process was stopped": func(s *script) {
			s.hold("a", 1, 0, 100, history.Expired).Told = 5000 * ms
			s.event(check.Stop, 50, 4500, history.Keeps)
		},
		"a write that came after its hold": func(s *script) {
			s.hold("a", 1, 0, 100, history.Expired)
			s.op("b", history.Write, 103, history.OK).Token = 2
			s.op("a", history.Write, 106, history.Refused).Highest = 2
			s.released("b", 2, 101)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{}
			write(s)
			if r := s.report(); len(r.Violations) > 0 {
				t.Errorf("%+v", r.Violations)
			}
		})
	}
}

// TestABadHistoryIsFound: each breaks one promise, and that is what is reported.
func TestABadHistoryIsFound(t *testing.T) {
	for _, c := range []struct {
		name  string
		write func(s *script)
		want  []string
	}{
		{"two holders", func(s *script) {
			s.hold("a", 1, 0, 50, history.Expired)
			s.released("b", 2, 20)
		}, []string{check.Overlap, check.Order}},
		{"a holder whose lease was believed a little too long", func(s *script) {
			s.hold("a", 1, 0, 103, history.Expired)
			s.released("b", 2, 101)
		}, []string{check.Overlap, check.Order}},
		{"an equal token", func(s *script) {
			s.released("a", 3, 0)
			s.released("b", 3, 20)
		}, []string{check.Token, check.Order}},
		{"a smaller token later on", func(s *script) {
			s.released("a", 3, 0)
			s.released("b", 4, 20)
			s.released("c", 2, 40)
		}, []string{check.Token, check.Order}},
		{"an equal token after FLUSHALL", func(s *script) {
			s.released("z", 9, 0)
			s.event("FLUSHALL", 20, 21, history.All)
			s.released("a", 1, 30)
			s.released("b", 1, 50)
		}, []string{check.Token, check.Order}},
		{"a level too many after the last release", func(s *script) {
			s.hold("a", 1, 0, 40, history.Released)
			s.op("a", history.Reenter, 5, history.OK)
			s.op("a", history.Release, 10, history.OK).Held = true
			s.op("a", history.Release, 20, history.OK).Held = true
			s.op("a", history.Release, 40, history.OK)
		}, []string{check.Order}},
		{"a level too few", func(s *script) {
			s.hold("a", 1, 0, 10, history.Released)
			s.op("a", history.Reenter, 5, history.OK)
			s.op("a", history.Release, 10, history.OK)
		}, []string{check.Order}},
		{"the register goes back", func(s *script) {
			op := s.op("a", history.Write, 5, history.OK)
			op.Token, op.Seq = 2, 1
			op = s.op("a", history.Write, 15, history.OK)
			op.Token, op.Seq = 1, 2
		}, []string{check.Register}},
		{"a valid holder is refused by the register", func(s *script) {
			s.released("a", 9, 0)
			s.op("b", history.Write, 25, history.Refused).Highest = 9
			s.released("b", 2, 20)
		}, []string{check.Fence, check.Token, check.Order}},
		{"gone before its deadline", func(s *script) {
			s.hold("a", 1, 0, 50, history.Gone)
		}, []string{check.Vanished}},
		{"another's value in the owner key", func(s *script) {
			s.hold("a", 1, 0, 50, history.Expired)
			s.op("a", history.Inspect, 20, history.Lost).Held = true
		}, []string{check.Vanished}},
		{"trusted for longer than a lease after FLUSHALL", func(s *script) {
			s.hold("a", 1, 0, 250, history.Expired)
			s.event("FLUSHALL", 10, 11, history.All)
		}, []string{check.Outlived}},
		{"read as valid after its end", func(s *script) {
			s.hold("a", 1, 0, 100, history.Expired).Seen = 101 * ms
		}, []string{check.ToldLate}},
		{"told two seconds late", func(s *script) {
			s.hold("a", 1, 0, 100, history.Expired).Told = 2100 * ms
		}, []string{check.ToldLate}},
		{"never told", func(s *script) {
			s.hold("a", 1, 0, 100, history.Expired).Told = 0
		}, []string{check.ToldLate}},
		{"owned after the end", func(s *script) {
			s.released("a", 1, 0)
			s.Owned = []string{"k"}
		}, []string{check.Leftover}},
		{"a hold without an end", func(s *script) {
			s.op("a", history.Acquire, 0, history.OK)
		}, []string{check.Truncated}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &script{}
			c.write(s)
			var got []string
			for _, v := range s.report().Violations {
				if !slices.Contains(got, v.Kind) {
					got = append(got, v.Kind)
				}
			}
			slices.Sort(got)
			slices.Sort(c.want)
			if !slices.Equal(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}

// TestLossesAreMeasured: what is excused is counted.
func TestLossesAreMeasured(t *testing.T) {
	s := &script{}
	s.hold("a", 9, 0, 60, history.Gone)
	s.event("FLUSHALL", 10, 11, history.All)
	s.released("b", 1, 20)
	op := s.op("a", history.Write, 5, history.OK)
	op.Token, op.Seq = 9, 1
	s.op("b", history.Write, 25, history.Refused).Highest = 9
	r := s.report()
	want := check.Losses{Events: 1, Overlaps: 1, Longest: 9 * time.Millisecond, Holds: 1, BackCounter: 1, Stale: 1}
	if got := r.Losses["FLUSHALL"]; got == nil || *got != want {
		t.Errorf("measured %+v, want %+v", got, want)
	}
}

// TestALongHistoryIsSearchedInTime: 4,000 holds of 12 threads, a fifth of which run out.
func TestALongHistoryIsSearchedInTime(t *testing.T) {
	s := &script{}
	for i := range int64(4000) {
		name, call := fmt.Sprint(i), i*20
		if i%5 == 0 {
			s.hold(name, i+1, call, call+12, history.Expired)
		} else {
			s.released(name, i+1, call)
		}
		s.Ops[len(s.Ops)-1].Thread = int(i % 12)
	}
	start := time.Now()
	if r := s.report(); len(r.Violations) > 0 {
		t.Errorf("%+v", r.Violations[0])
	}
	t.Logf("searched in %s", time.Since(start))
}

// TestASearchThatDoesNotEndIsAViolation: what was not checked has not passed.
func TestASearchThatDoesNotEndIsAViolation(t *testing.T) {
	s := &script{}
	for i := range int64(2000) {
		s.released(fmt.Sprint(i), i+1, i*20)
	}
	s.Ended = []string{"p"}
	if r := check.History(&s.History, time.Nanosecond); len(r.Violations) != 1 || r.Violations[0].Kind != check.Timeout {
		t.Errorf("%+v", r.Violations)
	}
}
