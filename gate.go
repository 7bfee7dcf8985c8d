package redislock

import "sync"

// gate lets one at a time through, in order. It is a channel of one, but for the 96
// bytes of one that hardly any lock ever waits at. All its methods take the mutex
// that guards it.
type gate struct {
	taken   bool
	waiting int32
	turn    chan struct{} // a place for one turn, which is somebody's who waits; made by the first who does
}

// enter takes the gate; a channel: it is taken, and one value from there is the
// caller's turn.
func (g *gate) enter(mu *sync.Mutex) <-chan struct{} {
	mu.Lock()
	defer mu.Unlock()
	if !g.taken {
		g.taken = true
		return nil
	}
	if g.turn == nil {
		g.turn = make(chan struct{}, 1)
	}
	g.waiting++
	return g.turn
}

// tryEnter takes the gate when it is free.
func (g *gate) tryEnter(mu *sync.Mutex) bool {
	mu.Lock()
	defer mu.Unlock()
	free := !g.taken
	g.taken = true
	return free
}

// quit is for one that waits no longer. A turn that has been given meanwhile, to
// nobody in particular, is passed on.
func (g *gate) quit(mu *sync.Mutex) {
	mu.Lock()
	select {
	case <-g.turn:
		mu.Unlock()
		g.leave(mu)
	default:
		g.waiting--
		mu.Unlock()
	}
}

// leave lets the next one through.
func (g *gate) leave(mu *sync.Mutex) {
	mu.Lock()
	defer mu.Unlock()
	if g.waiting == 0 {
		g.taken = false
		return
	}
	g.waiting--
	g.turn <- struct{}{} // has room: the one who has the gate is the one who leaves
}
