package measure_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/go-lynx/lynx-redis-lock/bench/measure"
)

func TestPercentilesAreOfTheNearestRank(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for _, c := range []struct {
		sorted []time.Duration
		p      float64
		want   time.Duration
	}{
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred, 100, 100},
		{hundred, 0, 1},
		{hundred[:1], 99, 1},
		{hundred[:3], 50, 2},
		{nil, 50, 0},
	} {
		if got := measure.Percentile(c.sorted, c.p); got != c.want {
			t.Errorf("p%v of %d values is %d, want %d", c.p, len(c.sorted), got, c.want)
		}
	}
}

func TestMedianAndLeastLeaveTheirInputAlone(t *testing.T) {
	values := []float64{9, 1, 5, 3}
	if got := measure.Median(values); got != 4 {
		t.Errorf("median of four: %v, want 4", got)
	}
	if got := measure.Median(values[:3]); got != 5 {
		t.Errorf("median of three: %v, want 5", got)
	}
	if got := measure.Least(values); got != 1 {
		t.Errorf("least: %v, want 1", got)
	}
	if !slices.Equal(values, []float64{9, 1, 5, 3}) {
		t.Errorf("the input was sorted: %v", values)
	}
	if !math.IsNaN(measure.Median(nil)) || !math.IsNaN(measure.Least(nil)) {
		t.Error("of nothing there is neither a median nor a least")
	}
}

func TestJainIsOneForEqualSharesAndOneNthForOneWinner(t *testing.T) {
	for _, c := range []struct {
		counts []int64
		want   float64
	}{
		{[]int64{7, 7, 7, 7}, 1},
		{[]int64{8, 0, 0, 0}, 0.25},
		{[]int64{1, 2, 3}, 36.0 / 42},
	} {
		if got := measure.Jain(c.counts); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("Jain of %v is %v, want %v", c.counts, got, c.want)
		}
	}
	if !math.IsNaN(measure.Jain([]int64{0, 0})) {
		t.Error("a fairness of nothing")
	}
}

func TestStarvedAndGroups(t *testing.T) {
	counts := []int64{0, 3, 0, 1, 2, 2}
	if got := measure.Starved(counts); got != 2 {
		t.Errorf("%d starved, want 2", got)
	}
	if got := measure.InGroups(counts, 2); !slices.Equal(got, []int64{3, 1, 4}) {
		t.Errorf("in pairs: %v", got)
	}
}
