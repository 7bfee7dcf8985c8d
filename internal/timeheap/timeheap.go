// Package timeheap is a priority queue by time whose items know their place, so
// that one can be moved or removed among many in O(log n).
package timeheap

import (
	"container/heap"
	"time"
)

// Item is an element; it is in at most one heap at a time. Its zero value is in none.
type Item[T any] struct {
	Value T
	at    time.Time
	place int // index + 1; 0: in no heap
}

// Queued says whether the item is in a heap.
func (it *Item[T]) Queued() bool { return it.place > 0 }

// At is the item's time.
func (it *Item[T]) At() time.Time { return it.at }

// Heap is ordered by time, earliest first. Its zero value is empty.
type Heap[T any] struct{ items items[T] }

// Len is the number of items.
func (h *Heap[T]) Len() int { return len(h.items) }

// Set puts the item in, or moves it, to the given time.
func (h *Heap[T]) Set(it *Item[T], at time.Time) {
	it.at = at
	if it.Queued() {
		heap.Fix(&h.items, it.place-1)
		return
	}
	heap.Push(&h.items, it)
}

// Remove takes the item out if it is in.
func (h *Heap[T]) Remove(it *Item[T]) {
	if it.Queued() {
		heap.Remove(&h.items, it.place-1)
	}
}

// Min is the earliest item; nil when there is none.
func (h *Heap[T]) Min() *Item[T] {
	if len(h.items) == 0 {
		return nil
	}
	return h.items[0]
}

// items implements heap.Interface.
type items[T any] []*Item[T]

func (s items[T]) Len() int           { return len(s) }
func (s items[T]) Less(i, j int) bool { return s[i].at.Before(s[j].at) }

func (s items[T]) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].place, s[j].place = i+1, j+1
}

func (s *items[T]) Push(x any) {
	it := x.(*Item[T])
	*s = append(*s, it)
	it.place = len(*s)
}

func (s *items[T]) Pop() any {
	last := len(*s) - 1
	it := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	it.place = 0
	return it
}
