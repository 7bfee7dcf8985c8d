package redislock_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// wire is a go-redis hook that writes down what a client sends and can refuse it.
// What is to happen to requests and replies that were written, its conns do.
type wire struct {
	mu      sync.Mutex // guards the rest; nothing is sent under it
	calls   []*sent
	fault   fault
	stalled bool
	held    []*conn // have written a request that is held back
	lose    int     // replies
	delay   time.Duration
}

// sent is one command on its way.
type sent struct {
	name       string
	begin, end time.Time // end: zero while it is under way
}

// fault stands between a command and its connection; send lets it pass.
type fault func(ctx context.Context, send func(context.Context) error) error

// handshake is what go-redis says by itself on a new connection; it is let through.
var handshake = []string{"hello", "client", "auth", "select", "readonly", "cluster", "command"}

func (w *wire) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w *wire) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if slices.Contains(handshake, cmd.Name()) {
			return next(ctx, cmd)
		}
		err := w.pass(ctx, func(ctx context.Context) error { return next(ctx, cmd) }, cmd.Name())
		if err != nil {
			cmd.SetErr(err)
		}
		return err
	}
}

func (w *wire) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		names := make([]string, len(cmds))
		for i, cmd := range cmds {
			names[i] = cmd.Name()
			if slices.Contains(handshake, names[i]) {
				return next(ctx, cmds)
			}
		}
		err := w.pass(ctx, func(ctx context.Context) error { return next(ctx, cmds) }, names...)
		for _, cmd := range cmds {
			if err != nil && cmd.Err() == nil {
				cmd.SetErr(err)
			}
		}
		return err
	}
}

func (w *wire) pass(ctx context.Context, send func(context.Context) error, names ...string) error {
	w.mu.Lock()
	from := len(w.calls)
	for _, name := range names {
		w.calls = append(w.calls, &sent{name: name, begin: time.Now()})
	}
	calls, f := w.calls[from:], w.fault
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, call := range calls {
			call.end = time.Now()
		}
	}()
	if f == nil {
		return send(ctx)
	}
	return f(ctx, send)
}

// names are the commands sent so far.
func (w *wire) names() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := make([]string, len(w.calls))
	for i, call := range w.calls {
		names[i] = call.name
	}
	return names
}

// scripts is how many script calls were sent so far.
func (w *wire) scripts() int {
	n := 0
	for _, name := range w.names() {
		if name == "evalsha" || name == "eval" {
			n++
		}
	}
	return n
}

// reset forgets what was sent.
func (w *wire) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = nil
}

// pauses are the times between the end of a command and the begin of the next.
func (w *wire) pauses() (pauses []time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := 1; i < len(w.calls); i++ {
		pauses = append(pauses, w.calls[i].begin.Sub(w.calls[i-1].end))
	}
	return pauses
}

func (w *wire) break_(f fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = f
}

// refuse answers like a port nobody listens on: nothing is sent.
func (w *wire) refuse() {
	w.break_(func(context.Context, func(context.Context) error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	})
}

// heal ends refuse, loseReplies and delayReplies.
func (w *wire) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault, w.lose, w.delay = nil, 0, 0
}

// loseReplies lets the next n script calls run and breaks the connection instead
// of giving their replies.
func (w *wire) loseReplies(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lose = n
}

// delayReplies lets script calls run at once and their replies wait.
func (w *wire) delayReplies(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delay = d
}

// wireContract is what an uncontended lock costs. It is serial because the
// server's own count is of the whole server.
var wireContract = []behaviour{
	{"an_uncontended_acquire_and_a_release_are_one_EVALSHA_each", func(t *testing.T, b *bed) {
		lock := b.held(t) // the scripts are loaded and a connection is open
		must(t, "Release", lock.Release(t.Context()))
		for _, call := range []struct {
			name string
			run  func(context.Context) error
		}{{"Acquire", lock.Acquire}, {"Release", lock.Release}} {
			b.wire.reset()
			before := b.served(t)
			must(t, call.name, call.run(t.Context()))
			after := b.served(t)
			if names := b.wire.names(); !slices.Equal(names, []string{"evalsha"}) {
				t.Errorf("%s sent %v, want one EVALSHA", call.name, names)
			}
			equal(t, "script calls the server has seen in "+call.name, after-before, 1)
		}
	}},
	{"a_Lock_call_is_two_EVALSHA", func(t *testing.T, b *bed) {
		run := func() error {
			return b.locks.LockWithOptions(t.Context(), b.key, options(renewed), func() error { return nil })
		}
		must(t, "LockWithOptions", run())
		b.wire.reset()
		must(t, "LockWithOptions", run())
		if names := b.wire.names(); !slices.Equal(names, []string{"evalsha", "evalsha"}) {
			t.Errorf("sent %v, want two EVALSHA", names)
		}
	}},
	{"NOSCRIPT_is_unseen_by_the_caller", func(t *testing.T, b *bed) {
		lock := b.held(t)
		for _, call := range []struct {
			name string
			run  func(context.Context) error
		}{
			{"a reentry", lock.Acquire},
			{"Renew", func(ctx context.Context) error { return lock.Renew(ctx, time.Minute) }},
			{"a partial release", lock.Release},
			{"IsLocked", func(ctx context.Context) error { _, err := lock.IsLocked(ctx); return err }},
			{"Release", lock.Release},
			{"Acquire", lock.Acquire},
			{"UnlockByValue", func(ctx context.Context) error { return b.locks.UnlockByValue(ctx, b.key, lock.GetValue()) }},
		} {
			must(t, "SCRIPT FLUSH", b.control.ScriptFlush(t.Context()).Err())
			must(t, call.name+" after SCRIPT FLUSH", call.run(t.Context()))
		}
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
	}},
}
