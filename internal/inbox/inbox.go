// Package inbox keeps one subscription to one channel: it says when it can hear,
// goes on after a broken connection, and then says that messages may be missing.
package inbox

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	longQuiet   = 10 * time.Second // without a word the connection is asked (PING), and given up after another
	firstPause  = 20 * time.Millisecond
	longestRest = time.Second // between two tries to connect
)

// Subscriber is what any go-redis client can do.
type Subscriber interface {
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// Handlers are called one at a time, from the inbox's goroutine.
type Handlers struct {
	Message func(payload string)
	Missed  func() // it can hear again: what was said meanwhile is lost
	Ended   func() // the last one
}

// Inbox is a subscription with a connection and a goroutine of its own.
type Inbox struct {
	// Fixed after construction.
	client   Subscriber
	channel  string
	handlers Handlers
	quiet    time.Duration
	ctx      context.Context
	cancel   context.CancelFunc
	ready    chan struct{} // closed when it has heard Redis for the first time

	mu     sync.Mutex // guards the rest
	heard  bool       // ready is closed
	denied error      // Redis will not have this subscription
}

// Open subscribes, in the background.
func Open(client Subscriber, channel string, handlers Handlers) *Inbox {
	return open(client, channel, handlers, longQuiet)
}

func open(client Subscriber, channel string, handlers Handlers, quiet time.Duration) *Inbox {
	b := &Inbox{client: client, channel: channel, handlers: handlers, quiet: quiet, ready: make(chan struct{})}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	go b.run() // ends with Close, or when Redis refuses
	return b
}

// Channel is where it listens.
func (b *Inbox) Channel() string { return b.channel }

// Ready waits until the subscription has been confirmed or refused once, at most for
// patience. It says whether a message would be heard, and why never.
func (b *Inbox) Ready(ctx context.Context, patience time.Duration) (bool, error) {
	if ready, refused := b.state(); ready || refused != nil || patience <= 0 {
		return ready, refused
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-b.ready:
	case <-late.C:
	case <-ctx.Done():
	}
	return b.state()
}

func (b *Inbox) state() (ready bool, refused error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.heard && b.denied == nil, b.denied
}

// Close ends the subscription. It does not wait for Ended.
func (b *Inbox) Close() { b.cancel() }

func (b *Inbox) run() {
	defer b.handlers.Ended()
	for b.ctx.Err() == nil {
		switch err := b.listen(); {
		case redis.HasErrorPrefix(err, "NOPERM"):
			b.answered(err)
			return
		case errors.Is(err, redis.ErrClosed) && b.ctx.Err() == nil:
			b.answered(err) // the client itself
			return
		}
	}
}

// listen is the life of one subscription, which go-redis renews on a new connection
// when the old one breaks. It returns when Redis refuses, and when a connection has
// been silent for too long.
func (b *Inbox) listen() error {
	ps := b.client.Subscribe(b.ctx)
	closing := context.AfterFunc(b.ctx, func() { _ = ps.Close() }) // ends a read under way
	defer func() {
		if closing() {
			_ = ps.Close()
		}
	}()
	_ = ps.Subscribe(b.ctx, b.channel) // Receive does it again when it failed
	asked, rest := false, firstPause
	for {
		got, err := ps.ReceiveTimeout(b.ctx, b.quiet)
		switch {
		case err == nil:
			asked, rest = false, firstPause
			b.take(got)
		case asked && redis.HasErrorPrefix(err, "NOPERM"): // to be asked; but it lives
			asked = false
		case redis.HasErrorPrefix(err, "NOPERM"), errors.Is(err, redis.ErrClosed), b.ctx.Err() != nil:
			return err
		case !isTimeout(err):
			b.pause(rest)
			asked, rest = false, min(2*rest, longestRest)
		case asked:
			return err
		default:
			asked = true
			_ = ps.Ping(b.ctx) // a failure shows in Receive
		}
	}
}

func isTimeout(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}

func (b *Inbox) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-b.ctx.Done():
	}
}

func (b *Inbox) take(got any) {
	switch got := got.(type) {
	case *redis.Subscription:
		if b.answered(nil) {
			b.handlers.Missed()
		}
	case *redis.Message:
		b.handlers.Message(got.Payload)
		runtime.Gosched() // whoever was told goes first, not the next read
	}
}

// answered notes that Redis has confirmed or refused; again: not for the first time.
func (b *Inbox) answered(denied error) (again bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	again, b.heard = b.heard, true
	b.denied = denied
	if !again {
		close(b.ready)
	}
	return again
}
