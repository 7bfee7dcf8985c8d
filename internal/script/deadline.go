package script

import (
	"context"
	"sync"
	"time"
)

// grain is how much later than a deadline the Done of its context may be closed.
const grain = 10 * time.Millisecond

// deadlines makes contexts that end at a moment, without a timer and a channel for
// each: those that end within the same grain share one. The client sets its deadlines
// on the connection by Deadline, which is exact; Done is for whoever waits for a
// connection.
type deadlines struct {
	mu   sync.Mutex // guards ends
	ends map[int64]chan struct{}
}

// deadline is such a context. It is not cancelled with its parent, whose values it has.
type deadline struct {
	parent context.Context
	limit  time.Time
	done   <-chan struct{}
}

func (d *deadlines) at(parent context.Context, limit time.Time) deadline {
	return deadline{parent: parent, limit: limit, done: d.end(limit)}
}

func (d *deadlines) end(limit time.Time) <-chan struct{} {
	slot := limit.UnixNano()/int64(grain) + 1
	d.mu.Lock()
	defer d.mu.Unlock()
	done := d.ends[slot]
	if done == nil {
		if d.ends == nil {
			d.ends = make(map[int64]chan struct{})
		}
		done = make(chan struct{})
		d.ends[slot] = done
		time.AfterFunc(time.Until(limit)+grain, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			delete(d.ends, slot)
			close(done)
		})
	}
	return done
}

func (c *deadline) Deadline() (time.Time, bool) { return c.limit, true }
func (c *deadline) Done() <-chan struct{}       { return c.done }
func (c *deadline) Value(key any) any           { return c.parent.Value(key) }

func (c *deadline) Err() error {
	if !time.Now().Before(c.limit) {
		return context.DeadlineExceeded
	}
	return nil
}
