// Package waitq lets the waiters of one process for one name go one at a time, in
// the order in which they came.
package waitq

import (
	"container/list"
	"sync"
)

// Queues are the lines of waiters, one a name. The zero value is ready.
type Queues[K comparable] struct {
	mu    sync.Mutex // guards lines; nothing blocks under it
	lines map[K]*list.List
}

// Place is one waiter's place in a line.
type Place[K comparable] struct {
	queues  *Queues[K]
	name    K
	turn    chan struct{}
	element *list.Element
}

// Join takes the last place in the line of that name. Every Join needs one Leave.
func (q *Queues[K]) Join(name K) *Place[K] {
	p := &Place[K]{queues: q, name: name, turn: make(chan struct{})}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lines == nil {
		q.lines = make(map[K]*list.List)
	}
	line := q.lines[name]
	if line == nil {
		line = list.New()
		q.lines[name] = line
		close(p.turn)
	}
	p.element = line.PushBack(p)
	return p
}

// Turn is closed when the waiter is the first of its line.
func (p *Place[K]) Turn() <-chan struct{} { return p.turn }

// Leave gives the place up, wherever it is in the line, and lets the next one go
// when it was the first.
func (p *Place[K]) Leave() {
	q := p.queues
	q.mu.Lock()
	defer q.mu.Unlock()
	line := q.lines[p.name]
	first := line.Front() == p.element
	line.Remove(p.element)
	switch {
	case line.Len() == 0:
		delete(q.lines, p.name)
	case first:
		close(line.Front().Value.(*Place[K]).turn)
	}
}
