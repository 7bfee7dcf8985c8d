package timeheap_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/go-lynx/lynx-redis-lock/internal/timeheap"
)

type item = timeheap.Item[int]

func TestAnEmptyHeapHasNoMin(t *testing.T) {
	t.Parallel()
	var h timeheap.Heap[int]
	var it item
	h.Remove(&it) // is in none
	if h.Min() != nil || h.Len() != 0 || it.Queued() {
		t.Fatalf("Min %v, Len %d, Queued %t", h.Min(), h.Len(), it.Queued())
	}
}

func TestAnItemKnowsItsTimeAndWhetherItIsIn(t *testing.T) {
	t.Parallel()
	var h timeheap.Heap[int]
	it, at := item{Value: 7}, time.Now()
	h.Set(&it, at)
	if !it.Queued() || !it.At().Equal(at) || h.Min() != &it || h.Min().Value != 7 {
		t.Fatalf("after Set: Queued %t, At %s", it.Queued(), it.At())
	}
	h.Set(&it, at.Add(time.Second))
	if h.Len() != 1 || !it.At().Equal(at.Add(time.Second)) {
		t.Fatalf("after a second Set: Len %d, At %s", h.Len(), it.At())
	}
	h.Remove(&it)
	h.Remove(&it)
	if it.Queued() || h.Len() != 0 || h.Min() != nil {
		t.Fatalf("after Remove: Queued %t, Len %d", it.Queued(), h.Len())
	}
	h.Set(&it, at)
	if h.Min() != &it {
		t.Fatal("it cannot come back")
	}
}

// Random operations, compared with a slice that is sorted anew each time.
func TestItAgreesWithASortedSlice(t *testing.T) {
	t.Parallel()
	start := time.Now()
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		var h timeheap.Heap[int]
		var model []*item
		items := make([]*item, 60)
		for i := range items {
			items[i] = &item{Value: i}
		}
		for step := range 2000 {
			it := items[random.IntN(len(items))]
			switch random.IntN(5) {
			case 0, 1, 2: // few different times, so that some are equal
				h.Set(it, start.Add(time.Duration(random.IntN(40))*time.Second))
				if !slices.Contains(model, it) {
					model = append(model, it)
				}
			case 3:
				h.Remove(it)
				model = slices.DeleteFunc(model, func(x *item) bool { return x == it })
			case 4:
				if first := h.Min(); first != nil {
					h.Remove(first)
					model = slices.DeleteFunc(model, func(x *item) bool { return x == first })
				}
			}
			slices.SortFunc(model, func(a, b *item) int { return a.At().Compare(b.At()) })
			if h.Len() != len(model) {
				t.Fatalf("seed %d, step %d: Len %d, want %d", seed, step, h.Len(), len(model))
			}
			for _, it := range items {
				if it.Queued() != slices.Contains(model, it) {
					t.Fatalf("seed %d, step %d: item %d says Queued %t", seed, step, it.Value, it.Queued())
				}
			}
			if first := h.Min(); len(model) > 0 && !first.At().Equal(model[0].At()) {
				t.Fatalf("seed %d, step %d: Min is at %s, want %s", seed, step, first.At(), model[0].At())
			}
		}
		for want := range slices.Values(model) { // it empties in order
			first := h.Min()
			if !first.At().Equal(want.At()) {
				t.Fatalf("seed %d: %s comes before %s", seed, first.At(), want.At())
			}
			h.Remove(first)
		}
	}
}

func TestAMomentIsItsTime(t *testing.T) {
	t.Parallel()
	now := time.Now()
	if got := timeheap.MomentOf(now).Time(); !got.Equal(now) {
		t.Errorf("%s became %s", now, got)
	}
	var none timeheap.Moment
	if !none.Time().IsZero() || timeheap.MomentOf(time.Time{}) != none {
		t.Error("the zero moment is not the zero time")
	}
}
