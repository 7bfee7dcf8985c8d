// Package timeheap is a priority queue by time whose items know their place, so
// that one can be moved or removed among many in O(log n).
package timeheap

import "time"

// Moment is a time by the monotonic clock, a third as large as a time.Time. Its
// zero value is the zero time.
type Moment int64

var start = time.Now()

// MomentOf is the moment of t.
func MomentOf(t time.Time) Moment {
	if t.IsZero() {
		return 0
	}
	return Moment(t.Sub(start))
}

// Time is the moment as a time. Its wall clock does not know of steps since the
// process began.
func (m Moment) Time() time.Time {
	if m == 0 {
		return time.Time{}
	}
	return start.Add(time.Duration(m))
}

// Item is an element; it is in at most one heap at a time. Its zero value is in none.
type Item[T any] struct {
	Value T
	at    Moment
	place int // index + 1; 0: in no heap
}

// Queued says whether the item is in a heap.
func (it *Item[T]) Queued() bool { return it.place > 0 }

// At is the item's time, see Moment.Time.
func (it *Item[T]) At() time.Time { return it.at.Time() }

// Heap is ordered by time, earliest first. Its zero value is empty.
type Heap[T any] struct{ entries []entry[T] }

// entry repeats the item's time: looking it up in each item that is passed on the
// way costs a cache miss.
type entry[T any] struct {
	at Moment
	it *Item[T]
}

// Len is the number of items.
func (h *Heap[T]) Len() int { return len(h.entries) }

// Min is the earliest item; nil when there is none.
func (h *Heap[T]) Min() *Item[T] {
	if len(h.entries) == 0 {
		return nil
	}
	return h.entries[0].it
}

// Set puts the item in, or moves it, to the given time.
func (h *Heap[T]) Set(it *Item[T], at time.Time) {
	it.at = MomentOf(at)
	i := it.place - 1
	if i < 0 {
		i = len(h.entries)
		h.entries = append(h.entries, entry[T]{})
	}
	h.sift(i, entry[T]{it.at, it})
}

// Remove takes the item out if it is in.
func (h *Heap[T]) Remove(it *Item[T]) {
	if !it.Queued() {
		return
	}
	i, last := it.place-1, len(h.entries)-1
	moved := h.entries[last]
	h.entries[last] = entry[T]{}
	h.entries = h.entries[:last]
	it.place = 0
	if i < last {
		h.sift(i, moved)
	}
}

// fanout is how many children an entry has: four lie side by side in memory, and
// halve the way down.
const fanout = 4

// sift fills the hole at i with e, or moves the hole up or down to where e belongs.
func (h *Heap[T]) sift(i int, e entry[T]) {
	for i > 0 {
		parent := (i - 1) / fanout
		if h.entries[parent].at <= e.at {
			break
		}
		h.put(i, h.entries[parent])
		i = parent
	}
	for {
		least := i
		at := e.at
		first := fanout*i + 1
		for child := first; child < min(first+fanout, len(h.entries)); child++ {
			if h.entries[child].at < at {
				least, at = child, h.entries[child].at
			}
		}
		if least == i {
			h.put(i, e)
			return
		}
		h.put(i, h.entries[least])
		i = least
	}
}

func (h *Heap[T]) put(i int, e entry[T]) {
	h.entries[i] = e
	e.it.place = i + 1
}
