package report_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-lynx/lynx-redis-lock/bench/contestant"
	"github.com/go-lynx/lynx-redis-lock/bench/report"
	"github.com/go-lynx/lynx-redis-lock/bench/workload"
)

func TestATableIsMarkdown(t *testing.T) {
	table := report.Table{Head: []string{"a", "b"}}
	table.Add("1", "2")
	if got, want := table.String(), "| a | b |\n| --- | --- |\n| 1 | 2 |\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestNumbersHaveThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0.00", 1.234: "1.23", 12.34: "12.3", 55.55: "55.5", 123.4: "123", 1234.4: "1,234", 1234567: "1,234,567", -1234: "-1,234", -123456: "-123,456",
	} {
		if got := report.Number(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
	if report.Number(math.NaN()) != "–" || report.Number(math.Inf(1)) != "–" {
		t.Error("what is not there is a dash")
	}
	if got := report.Millis(1500 * time.Microsecond); got != "1.50" {
		t.Errorf("1.5 ms is %q", got)
	}
}

func TestASectionReplacesItselfAndLeavesTheRest(t *testing.T) {
	document := report.Section("# Title\n", "one", "first\n")
	document = report.Section(document, "two", "second")
	document = report.Section(document, "one", "changed")
	want := "# Title\n\n<!-- begin one -->\nchanged\n<!-- end one -->\n\n<!-- begin two -->\nsecond\n<!-- end two -->\n"
	if document != want {
		t.Errorf("got\n%s\nwant\n%s", document, want)
	}
}

// samples are one-second windows with these many acquisitions of one worker.
func samples(counts ...int64) []workload.Sample {
	var all []workload.Sample
	for _, n := range counts {
		all = append(all, workload.Sample{
			Elapsed: time.Second, Counts: []int64{n}, Waits: []time.Duration{time.Millisecond}, OnWire: float64(2 * n), Mallocs: uint64(40 * n),
		})
	}
	return all
}

func run(ours ...int64) *report.Speed {
	return &report.Speed{
		Series: []*report.Series{{
			Spec: workload.Spec{Workers: 1, Free: true, Rounds: len(ours), Window: time.Second},
			Contestants: []contestant.Contestant{
				{Name: contestant.TwoEvalSha, Kind: contestant.Floor},
				{Name: contestant.Bsm, Kind: contestant.Peer},
				{Name: contestant.Rueidis, Kind: contestant.Peer},
				{Name: contestant.OursAcquire},
			},
			Samples: map[string][]workload.Sample{
				contestant.TwoEvalSha: samples(1100, 220, 330), contestant.Bsm: samples(900, 200, 300),
				contestant.Rueidis: samples(1000, 100, 100), contestant.OursAcquire: samples(ours...),
			},
		}},
		Weights: []workload.Weight{{Name: contestant.OursAcquire, Redis: 251}},
	}
}

// The rounds are as different as a noisy machine makes them: only within a round does
// a ratio mean something.
func TestRatiosAreTakenWithinARound(t *testing.T) {
	text := run(1000, 200, 300).Markdown()
	if want := "| ours, Acquire | 300 | 0.91 (0.91) | 1.00 (1.00) |"; !strings.Contains(text, want) {
		t.Errorf("no %q in\n%s", want, text)
	}
}

func TestGoalsAreMetMissedOrNotMeasured(t *testing.T) {
	for _, c := range []struct {
		ours []int64
		want []string
	}{
		{[]int64{1000, 200, 300}, []string{
			"two EVALSHA (goal 1.10) | ≤ 1.20 | 1.10 (1.10) | met |",
			"bsm 0.10.0 | ≤ 1.00 | 1.00 (0.90) | met |",
			"on the wire | 2 | 2.00 | met |",
			"(goal 30) | ≤ 34.0 | 40.0 | **missed** |",
			"64 goroutines: rate ÷ two EVALSHA | ≥ 1.50 | – | not measured |",
			"hold 0s: Jain of the 32 workers | ≥ 0.95 | NaN | not measured |",
			"bytes | ≤ 250 | 251 | **missed** |",
		}},
		{[]int64{500, 100, 150}, []string{
			"two EVALSHA (goal 1.10) | ≤ 1.20 | 2.20 (2.20) | **missed** |",
			"bsm 0.10.0 | ≤ 1.00 | 2.00 (1.80) | **missed** |",
		}},
	} {
		text := run(c.ours...).Goals().String()
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
	}
}
