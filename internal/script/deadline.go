package script

import (
	"context"
	"sync"
	"time"
)

// grain is how much later than a deadline the Done of its context may be closed.
const grain = 10 * time.Millisecond

// deadlines makes contexts that end soon, without a timer and a channel for each:
// those that end within the same grain share one. The client sets its deadlines on the
// connection by Deadline, which is exact; Done is for whoever waits for a connection.
// The grains are counted on the monotonic clock: steps of the other one must not
// close a context before its time.
type deadlines struct {
	epoch time.Time

	mu   sync.Mutex              // guards ends
	ends map[int64]chan struct{} // by how many grains after the epoch they end
}

// deadline is such a context. It is not cancelled with its parent, whose values it has.
type deadline struct {
	parent context.Context
	limit  time.Time
	done   <-chan struct{}
}

func (d *deadlines) at(parent context.Context, now, limit time.Time) deadline {
	return deadline{parent: parent, limit: limit, done: d.end(now, limit.Sub(now))}
}

// end is closed when so much time has passed from then, or up to a grain later.
func (d *deadlines) end(from time.Time, left time.Duration) <-chan struct{} {
	slot := int64((from.Sub(d.epoch)+left)/grain) + 1
	d.mu.Lock()
	defer d.mu.Unlock()
	done := d.ends[slot]
	if done == nil {
		if d.ends == nil {
			d.ends = make(map[int64]chan struct{})
		}
		done = make(chan struct{})
		d.ends[slot] = done
		time.AfterFunc(time.Duration(slot)*grain-time.Since(d.epoch), func() {
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
	select {
	case <-c.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
