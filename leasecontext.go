package redislock

import (
	"context"
	"time"
)

// leaseContext is a context that ends with a hold. Err looks at the clock itself:
// a process that wakes after its deadline must not read "valid" until some timer
// has run.
type leaseContext struct {
	context.Context
	hold   *hold
	cancel context.CancelCauseFunc
}

// Err is nil only while the lease is trusted.
func (c *leaseContext) Err() error {
	if err := c.hold.check(time.Now()); err != nil {
		c.cancel(err)
	}
	return c.Context.Err()
}

// context derives a context that ends with the hold.
func (h *hold) context(parent context.Context) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancelCause(parent)
	c := &leaseContext{Context: inner, hold: h, cancel: cancel}
	h.mu.Lock()
	if h.phase == held {
		part := h.seldomPart()
		if part.contexts == nil {
			part.contexts = make(map[*leaseContext]struct{}, 1)
		}
		part.contexts[c] = struct{}{}
		h.mu.Unlock()
	} else {
		cause := h.errLocked()
		h.mu.Unlock()
		cancel(cause)
	}
	return c, func() {
		h.mu.Lock()
		if h.seldom != nil {
			delete(h.seldom.contexts, c)
		}
		h.mu.Unlock()
		cancel(context.Canceled)
	}
}
