// Package waitq lets the waiters of one process for one name go one at a time, in
// the order in which they came. The first of a line can be told that it is worth
// trying. Each can offer to be served: the offer is taken when it is the first.
package waitq

import (
	"container/list"
	"sync"
	"time"
)

// Queues are the lines of waiters, one a name. An offer is a V. The zero value is ready.
type Queues[K comparable, V any] struct {
	mu    sync.Mutex // guards the rest and all lines; nothing blocks under it
	lines map[K]*line
}

type line struct {
	list  list.List     // of *Place
	told  chan struct{} // of one: whoever is first takes it
	until time.Time     // somebody in this process holds the lock up to then
	away  time.Time     // up to then the lock is left to others
	used  time.Duration // for how long this process has held it since it was
}

// Place is one waiter's place in a line.
type Place[K comparable, V any] struct {
	queues   *Queues[K, V]
	name     K
	line     *line
	turn     chan struct{}
	element  *list.Element
	offer    V
	offering bool
}

// Join takes the last place in the line of that name. Every Join needs one Leave.
func (q *Queues[K, V]) Join(name K) *Place[K, V] {
	p := &Place[K, V]{queues: q, name: name, turn: make(chan struct{})}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lines == nil {
		q.lines = make(map[K]*line)
	}
	p.line = q.lines[name]
	if p.line == nil {
		p.line = &line{told: make(chan struct{}, 1)}
		q.lines[name] = p.line
		close(p.turn)
	}
	p.element = p.line.list.PushBack(p)
	return p
}

// Len is how many lines there are.
func (q *Queues[K, V]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.lines)
}

// Tell wakes the first of the line, now or when it sleeps next. It is false when
// nobody waits.
func (q *Queues[K, V]) Tell(name K) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[name]
	if l != nil {
		l.tell()
	}
	return l != nil
}

// TellAll is Tell for every name that matches.
func (q *Queues[K, V]) TellAll(match func(name K) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for name, l := range q.lines {
		if match(name) {
			l.tell()
		}
	}
}

func (l *line) tell() {
	select {
	case l.told <- struct{}{}:
	default: // it has not yet looked at the last one
	}
}

// Held tells the line that somebody in this process holds the lock up to then.
func (q *Queues[K, V]) Held(name K, until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.lines[name]; l != nil {
		l.until = until
	}
}

// Freed tells the line that nobody in this process holds the lock any more.
func (q *Queues[K, V]) Freed(name K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.lines[name]; l != nil {
		l.until = time.Time{}
		l.tell()
	}
}

// Use adds to the time for which this process has held the lock since it last left it
// to others, while there was a line.
func (q *Queues[K, V]) Use(name K, d time.Duration) (sum time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[name]
	if l == nil {
		return 0
	}
	l.used += d
	return l.used
}

// Take is for the holder in this process, before it frees the lock. It takes the
// offer of the first of the line, and whoever has that must answer it. Without one,
// the line learns that nobody in this process holds the lock any more.
func (q *Queues[K, V]) Take(name K) (offer V, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[name]
	if l == nil {
		return offer, false
	}
	l.until = time.Time{}
	return l.list.Front().Value.(*Place[K, V]).withdraw()
}

func (p *Place[K, V]) withdraw() (offer V, ok bool) {
	var none V
	offer, ok = p.offer, p.offering
	p.offer, p.offering = none, false
	return offer, ok
}

// KeepAway has the line leave the lock to others until then, and wakes its first.
func (q *Queues[K, V]) KeepAway(name K, until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.lines[name]; l != nil {
		l.until, l.away, l.used = time.Time{}, until, 0
		l.tell()
	}
}

// Turn is closed when the waiter is the first of its line.
func (p *Place[K, V]) Turn() <-chan struct{} { return p.turn }

// Told has an element when somebody has told the line. Only the first may look.
func (p *Place[K, V]) Told() <-chan struct{} { return p.line.told }

// Outlook is up to when somebody in this process is thought to hold the lock, and
// up to when it is left to others.
func (p *Place[K, V]) Outlook() (held, away time.Time) {
	p.queues.mu.Lock()
	defer p.queues.mu.Unlock()
	return p.line.until, p.line.away
}

// Offer is for one that is about to sleep. held: as in Outlook.
func (p *Place[K, V]) Offer(v V) (held time.Time) {
	p.queues.mu.Lock()
	defer p.queues.mu.Unlock()
	p.offer, p.offering = v, true
	return p.line.until
}

// Withdraw takes the offer back. It is false when the offer was taken: the answer comes.
func (p *Place[K, V]) Withdraw() bool {
	p.queues.mu.Lock()
	defer p.queues.mu.Unlock()
	_, mine := p.withdraw()
	return mine
}

// Leave gives the place up, wherever it is in the line, and lets the next one go
// when it was the first. served: it has the lock. Otherwise it is true when the line was
// told and is empty: nobody will look.
func (p *Place[K, V]) Leave(served bool) (unheard bool) {
	q, l := p.queues, p.line
	q.mu.Lock()
	defer q.mu.Unlock()
	first := l.list.Front() == p.element
	l.list.Remove(p.element)
	switch {
	case l.list.Len() == 0:
		delete(q.lines, p.name)
		return len(l.told) > 0 && !served
	case first:
		close(l.list.Front().Value.(*Place[K, V]).turn)
	}
	return false
}
