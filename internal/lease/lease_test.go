package lease_test

import (
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/go-lynx/lynx-redis-lock/internal/lease"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

// later is t after the monotonic clock has advanced by mono and the wall clock by
// wall. Only a machine that was suspended, or whose clock was set, makes such a
// time; package time has no way to, so the second word of a Time, which is its
// monotonic reading, is written directly. The checks notice if that ever changes.
func later(t *testing.T, from time.Time, mono, wall time.Duration) time.Time {
	t.Helper()
	now := from.Add(wall)
	words := (*[2]int64)(unsafe.Pointer(&now)) //nolint:gosec // see above
	words[1] += int64(mono - wall)
	if d := now.Sub(from); d != mono {
		t.Fatalf("the monotonic clock advanced by %s, want %s", d, mono)
	}
	if d := now.Round(0).Sub(from.Round(0)); d != wall {
		t.Fatalf("the wall clock advanced by %s, want %s", d, wall)
	}
	return now
}

func TestTheMarginIsAHundredthAndTwoMilliseconds(t *testing.T) {
	t.Parallel()
	sent := time.Now()
	for _, c := range []struct{ ttl, margin time.Duration }{
		{10 * ms, 2*ms + 100*time.Microsecond},
		{300 * ms, 5 * ms},
		{sec, 12 * ms},
		{30 * sec, 302 * ms},
		{time.Hour, 36*sec + 2*ms},
	} {
		if got := lease.Margin(c.ttl); got != c.margin {
			t.Errorf("the margin of %s is %s, want %s", c.ttl, got, c.margin)
		}
		if got := lease.Until(sent, c.ttl).Sub(sent); got != c.ttl-c.margin {
			t.Errorf("a lease of %s is trusted for %s, want %s", c.ttl, got, c.ttl-c.margin)
		}
	}
}

func TestTheClockThatSawMoreTimePassDecides(t *testing.T) {
	t.Parallel()
	sent := time.Now()
	until := lease.Until(sent, 10*sec) // 9.898 s
	for _, c := range []struct {
		name       string
		mono, wall time.Duration
		left       time.Duration
	}{
		{"both clocks agree", 4 * sec, 4 * sec, 5898 * ms},
		{"at the end", 9898 * ms, 9898 * ms, 0},
		{"after the end", 11 * sec, 11 * sec, -1102 * ms},
		{"the machine was suspended within the lease", sec, 4 * sec, 5898 * ms},
		{"the machine was suspended beyond the lease", sec, 60 * sec, -50102 * ms},
		{"the wall clock was set back", 4 * sec, -3600 * sec, 5898 * ms},
		{"the wall clock was set back after the end", 11 * sec, 0, -1102 * ms},
		{"the wall clock was set forward", sec, 3600 * sec, 9898*ms - 3600*sec},
	} {
		if got := lease.Left(until, later(t, sent, c.mono, c.wall)); got != c.left {
			t.Errorf("%s: %s is left, want %s", c.name, got, c.left)
		}
	}
}

func TestLaterAndEarlierGoByTheMonotonicClock(t *testing.T) {
	t.Parallel()
	now := time.Now()
	first := later(t, now, sec, 5*sec) // the wall clock was set back in between
	second := later(t, now, 2*sec, 3*sec)
	if lease.Later(first, second) != second || lease.Later(second, first) != second || lease.Later(first, first) != first {
		t.Error("Later is not the later by the monotonic clock")
	}
	if lease.Earlier(first, second) != first || lease.Earlier(second, first) != first || lease.Earlier(second, second) != second {
		t.Error("Earlier is not the earlier by the monotonic clock")
	}
}

func TestARenewalIsDueEarlyEnoughAndNotInTheFirstHalf(t *testing.T) {
	t.Parallel()
	sent := time.Now()
	for _, c := range []struct {
		name      string
		ttl       time.Duration
		threshold float64
		call      time.Duration
		after     time.Duration // the send
	}{
		{"the default", 30 * sec, 0.3, 600 * ms, 21 * sec},
		{"half of the lease", 30 * sec, 0.5, 600 * ms, 15 * sec},
		{"a threshold of 1 waits for half of the lease", 30 * sec, 1, 600 * ms, 15 * sec},
		{"a threshold near 0 leaves the time of a call", 30 * sec, 0.0001, 600 * ms, 30*sec - 302*ms - 600*ms},
		{"a threshold near 0 and a call that takes no time", 30 * sec, 0.0001, 0, 30*sec - 302*ms},
		{"a call longer than the lease", 2 * sec, 0.3, 10 * sec, sec},
		{"a second", sec, 0.3, 600 * ms, 500 * ms},
		{"300 ms", 300 * ms, 0.3, 600 * ms, 150 * ms},
		{"the shortest lease", 10 * ms, 0.3, 600 * ms, 5 * ms},
		{"the shortest lease, a quick call", 10 * ms, 0.0001, ms, 10*ms - 2100*time.Microsecond - ms},
	} {
		until := lease.Until(sent, c.ttl)
		if got := lease.Due(until, c.ttl, c.threshold, c.call).Sub(sent); got != c.after {
			t.Errorf("%s: due %s after the send, want %s", c.name, got, c.after)
		}
	}
}

// Whatever the options: never in the first half, never after the trust has ended,
// and the next one at least MinGap later.
func TestTheScheduleKeepsBothEndsSafe(t *testing.T) {
	t.Parallel()
	sent := time.Now()
	for ttl := 10 * ms; ttl < time.Hour; ttl = ttl*7/5 + ms {
		for _, threshold := range []float64{0.0001, 0.01, 0.3, 0.5, 0.9, 1} {
			for _, call := range []time.Duration{0, ms, 100 * ms, 600 * ms, time.Minute} {
				until := lease.Until(sent, ttl)
				due := lease.Due(until, ttl, threshold, call)
				what := fmt.Sprintf("ttl %s, threshold %v, call %s: due after %s", ttl, threshold, call, due.Sub(sent))
				if due.Sub(sent) < ttl/2 {
					t.Error(what, "which is in the first half")
				}
				if due.After(until) {
					t.Error(what, "which is after the end")
				}
				if room := until.Sub(due); room < min(call, ttl/2-lease.Margin(ttl)) {
					t.Error(what, "which leaves no time for a call:", room)
				}
				if lease.MinGap(ttl) > due.Sub(sent) {
					t.Error(what, "which is before the least gap", lease.MinGap(ttl))
				}
			}
		}
	}
	if gap := lease.MinGap(20 * sec); gap != sec {
		t.Errorf("the least gap of 20 s is %s, want a twentieth", gap)
	}
}

func TestTheBackoffDoublesUpToItsBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		attempt, doublings         int
		base, ceiling, left, pause time.Duration
	}{
		{0, 4, 100 * ms, 800 * ms, 30 * sec, 100 * ms},
		{1, 4, 100 * ms, 800 * ms, 30 * sec, 200 * ms},
		{3, 4, 100 * ms, 800 * ms, 30 * sec, 800 * ms},
		{4, 4, 100 * ms, 800 * ms, 30 * sec, 800 * ms},        // the ceiling
		{9, 2, 100 * ms, 800 * ms, 30 * sec, 400 * ms},        // the doublings
		{9, 0, 100 * ms, 800 * ms, 30 * sec, 100 * ms},        // none
		{3, 4, 100 * ms, 800 * ms, 600 * ms, 200 * ms},        // a third of what is left
		{0, 4, 100 * ms, 800 * ms, 30 * ms, 10 * ms},          // the same
		{0, 4, 100 * ms, 800 * ms, 0, ms},                     // never without a pause
		{0, 4, 100 * ms, 800 * ms, -sec, ms},                  // the same
		{0, 4, 0, 800 * ms, 30 * sec, ms},                     // the same
		{0, 4, sec, 800 * ms, 30 * sec, 800 * ms},             // a base above the ceiling
		{1 << 40, 1 << 40, ms, time.Hour, 1 << 62, time.Hour}, // no overflow
	} {
		if got := lease.Backoff(c.attempt, c.doublings, c.base, c.ceiling, c.left); got != c.pause {
			t.Errorf("Backoff(%d, %d, %s, %s, %s) is %s, want %s", c.attempt, c.doublings, c.base, c.ceiling, c.left, got, c.pause)
		}
	}
}

func TestLeasesAreSpreadEarlierAndNeverIntoTheFirstHalf(t *testing.T) {
	t.Parallel()
	until := time.Now()
	for _, c := range []struct {
		threshold float64
		share     float64
		earlier   time.Duration // of a lease of 10 s
	}{
		{0.3, 0, 0},
		{0.3, 0.5, 500 * ms},
		{0.3, 1, sec},      // a tenth
		{0.45, 1, sec / 2}, // there is no more before the half
		{0.5, 1, 0},
		{1, 1, 0},
	} {
		due := lease.Due(until, 10*sec, c.threshold, 0)
		spread := lease.Spread(due, until, 10*sec, c.share)
		if got := due.Sub(spread); got != c.earlier {
			t.Errorf("threshold %v, share %v: %s earlier, want %s", c.threshold, c.share, got, c.earlier)
		}
		if half := lease.Half(until, 10*sec); spread.Before(half) {
			t.Errorf("threshold %v, share %v: %s before the half", c.threshold, c.share, half.Sub(spread))
		}
	}
}
