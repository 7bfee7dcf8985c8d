package script_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lynx/lynx-redis-lock/internal/script"
)

// The ways a call is bounded, on a server that is silent.
var bounds = []struct {
	name string
	want error
	run  func(t *testing.T, r *script.Runner) script.Result
}{
	{"the caller's deadline", context.DeadlineExceeded, func(t *testing.T, r *script.Runner) script.Result {
		ctx, cancel := context.WithTimeout(t.Context(), bound)
		defer cancel()
		return r.Run(ctx, incr("counter", time.Minute))
	}},
	{"the caller's deadline without a timeout of the call", context.DeadlineExceeded, func(t *testing.T, r *script.Runner) script.Result {
		ctx, cancel := context.WithTimeout(t.Context(), bound)
		defer cancel()
		return r.Run(ctx, incr("counter", 0))
	}},
	{"the caller's cancel", context.Canceled, func(t *testing.T, r *script.Runner) script.Result {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		// Not at the end of the second read timeout, which ends the call as well.
		defer time.AfterFunc(bound*3/4, cancel).Stop()
		return r.Run(ctx, incr("counter", time.Minute))
	}},
	{"the call's timeout", context.DeadlineExceeded, func(t *testing.T, r *script.Runner) script.Result {
		return r.Run(t.Context(), incr("counter", bound))
	}},
	{"the call's timeout under a context nobody can end", context.DeadlineExceeded, func(_ *testing.T, r *script.Runner) script.Result {
		return r.Run(context.Background(), incr("counter", bound))
	}},
	{"the client's read timeout, twice", context.DeadlineExceeded, func(t *testing.T, r *script.Runner) script.Result {
		return r.Run(t.Context(), incr("counter", 0))
	}},
	{"the client's read timeout, twice, under a context nobody can end", context.DeadlineExceeded, func(_ *testing.T, r *script.Runner) script.Result {
		return r.Run(context.Background(), incr("counter", 0))
	}},
}

const bound = 400 * time.Millisecond

func TestACallIsOverInTimeOnASilentServer(t *testing.T) {
	t.Parallel()
	for _, enabled := range []bool{true, false} {
		for _, c := range bounds {
			t.Run(fmt.Sprint("ContextTimeoutEnabled ", enabled, "/", c.name), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, func(o *redis.Options) {
					o.ContextTimeoutEnabled, o.ReadTimeout = enabled, bound/2
				})
				r.connect(t)
				r.proxy.BlackHole(true)
				start := time.Now()
				res := c.run(t, r.runner)
				took := time.Since(start)
				r.proxy.BlackHole(false)
				if !errors.Is(res.Err, c.want) || !res.Unanswered || res.NotRun {
					t.Errorf("%+v, want an error that Is %v, and Unanswered", res, c.want)
				}
				if took < bound/2 || took > bound+300*time.Millisecond {
					t.Errorf("it took %s, want about %s", took, bound)
				}
			})
		}
	}
}

// Not even the client looks at a context whose deadline is after its own read timeout.
func TestALongReadTimeoutHoldsNoCallerBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *redis.Options) { o.ContextTimeoutEnabled, o.ReadTimeout = false, 3*time.Second })
	r.connect(t)
	r.proxy.BlackHole(true)
	start := time.Now()
	res := r.runner.Run(t.Context(), incr("counter", bound))
	if took := time.Since(start); took > bound+300*time.Millisecond || !errors.Is(res.Err, context.DeadlineExceeded) || !res.Unanswered {
		t.Fatalf("it took %s: %+v", took, res)
	}
	r.proxy.BlackHole(false)
	// The re-send, on a connection that was never up, may have been too late to be written.
	becomes(t, "the first send has run late", func() bool { return r.ran(t) > 0 })
}

func TestAnEndedContextSendsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	res := r.runner.Run(ctx, incr("counter", time.Second))
	if !errors.Is(res.Err, context.Canceled) || !res.NotRun || res.Unanswered || r.hook.sends() != 0 {
		t.Fatalf("%+v after %d sends", res, r.hook.sends())
	}
}

func TestRefusedConnectionsEndInTimeToo(t *testing.T) {
	t.Parallel()
	for _, enabled := range []bool{true, false} {
		for name, ctx := range map[string]context.Context{"Background": context.Background(), "one that can end": t.Context()} {
			t.Run(fmt.Sprint("ContextTimeoutEnabled ", enabled, "/", name), func(t *testing.T) {
				r := newRig(t, func(o *redis.Options) { o.ContextTimeoutEnabled = enabled })
				r.proxy.Refuse(true)
				start := time.Now()
				res := r.runner.Run(ctx, incr("counter", bound))
				if took := time.Since(start); took > bound+300*time.Millisecond || res.Err == nil {
					t.Fatalf("it took %s: %+v", took, res)
				}
				if res.Unanswered || !res.NotRun {
					t.Errorf("nothing can have run: %+v", res)
				}
			})
		}
	}
}

// Not parallel: it looks at all goroutines of the process.
func TestNoGoroutineIsLeftWhenTheClientHasLetGo(t *testing.T) {
	for _, enabled := range []bool{true, false} {
		r := newRig(t, func(o *redis.Options) { o.ContextTimeoutEnabled, o.ReadTimeout = enabled, time.Second })
		r.connect(t)
		r.proxy.BlackHole(true)
		for range 5 {
			if res := r.runner.Run(t.Context(), incr("counter", 50*time.Millisecond)); res.Err == nil {
				t.Fatalf("%+v", res)
			}
		}
		if !enabled && sendsUnderWay() == 0 {
			t.Error("no send was left behind: this test sees nothing")
		}
		// The network stays broken: they end by the client's own timeout.
		becomes(t, "every send has ended", func() bool { return sendsUnderWay() == 0 })
		r.proxy.BlackHole(false)
	}
}

func sendsUnderWay() int {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return bytes.Count(stacks, []byte("script.(*Runner).exchange("))
}
