package script_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
	"github.com/go-lynx/lynx-redis-lock/internal/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var incrScript = script.New("incr", "return {1, redis.call('INCR', KEYS[1])}")

// incr is a call whose every run can be counted.
func incr(key string, timeout time.Duration) script.Call {
	return script.Call{Script: incrScript, Keys: []string{key}, Timeout: timeout}
}

// hook counts what a client sends, and answers itself while it has something to answer.
type hook struct {
	mu      sync.Mutex // guards the rest
	at      []time.Time
	names   []string
	answers []error // for the next sends, nil: the reply {1, 7}
	always  error   // for all sends after these
}

func (h *hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err, own := h.note(cmd)
		switch {
		case !own:
			return next(ctx, cmd)
		case err != nil:
			cmd.SetErr(err)
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				_ = cmd.Args() // it was written, and then the connection broke
			}
		default:
			cmd.(interface{ SetVal(any) }).SetVal([]any{int64(1), int64(7)})
		}
		return err
	}
}

func (h *hook) note(cmd redis.Cmder) (err error, own bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if name := cmd.Name(); name != "evalsha" && name != "eval" {
		return nil, false // what a new connection says
	}
	h.at, h.names = append(h.at, time.Now()), append(h.names, cmd.Name())
	if len(h.answers) > 0 {
		err, h.answers = h.answers[0], h.answers[1:]
		return err, true
	}
	return h.always, h.always != nil
}

func (h *hook) sends() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.at)
}

func (h *hook) sent() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.names)
}

// between is the time from the first to the second send.
func (h *hook) between() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at[1].Sub(h.at[0])
}

func oneTry(o *redis.Options) { o.MaxRetries = -1 }

// becomes waits for a condition.
func becomes(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in 10 s: %s", what)
		}
	}
}

// rig is a runner whose network can be broken.
type rig struct {
	proxy  *redistest.Proxy
	direct *redis.Client
	client *redis.Client
	hook   *hook
	runner *script.Runner
}

func newRig(t *testing.T, mods ...func(*redis.Options)) *rig {
	t.Helper()
	s := redistest.Start(t)
	r := &rig{proxy: redistest.StartProxy(t, s.Addr()), direct: s.Client(t), hook: &hook{}}
	options := &redis.Options{Addr: r.proxy.Addr(), ContextTimeoutEnabled: true}
	for _, mod := range mods {
		mod(options)
	}
	r.client = redis.NewClient(options)
	t.Cleanup(func() { _ = r.client.Close() })
	r.client.AddHook(r.hook)
	r.runner = script.NewRunner(r.client)
	if err := script.Load(t.Context(), r.direct, incrScript); err != nil {
		t.Fatal(err)
	}
	return r
}

// connect leaves one connection in the pool that is ready for a command.
func (r *rig) connect(t *testing.T) {
	t.Helper()
	if res := r.runner.Run(t.Context(), incr("other", time.Minute)); res.Err != nil {
		t.Fatal(res.Err)
	}
}

var scripts = redistest.Named("evalsha", "eval")

// ran is how often the call has run on the server.
func (r *rig) ran(t *testing.T) int {
	t.Helper()
	n, err := r.direct.Get(t.Context(), "counter").Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	return n
}

func (r *rig) want(t *testing.T, sends, runs int) {
	t.Helper()
	if got := r.proxy.Count(scripts); got != sends {
		t.Errorf("%d sends reached the server, want %d", got, sends)
	}
	if got := r.ran(t); got != runs {
		t.Errorf("the script ran %d times, want %d", got, runs)
	}
}

func TestAResultSaysWhatIsKnown(t *testing.T) {
	t.Parallel()
	refused := error(&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED})
	loading := error(replyError("LOADING Redis is loading the dataset in memory"))
	wrongType := error(replyError("WRONGTYPE Operation against a key"))
	noScript := error(replyError("NOSCRIPT No matching script."))
	valkey := error(replyError("NOSCRIPT No matching script. Please use EVAL."))
	handshake := error(&net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}) // before the command was written
	nonLocal := error(replyError("ERR Script attempted to access a non local key in a cluster node"))
	for _, c := range []struct {
		name    string
		answers []error
		always  error
		once    bool
		err     error // the result's error Is this; nil: it is answered
		resent  bool
		unans   bool
		notRun  bool
		sends   int // 0: many
	}{
		{name: "answered at once", answers: []error{nil}, sends: 1},
		{name: "an error that is an answer", answers: []error{wrongType}, err: wrongType, sends: 1},
		{name: "lost, then answered", answers: []error{io.EOF, nil}, resent: true, unans: true, sends: 2},
		{name: "lost, then an error that is an answer", answers: []error{io.EOF, wrongType}, err: wrongType, resent: true, unans: true, sends: 2},
		{name: "lost twice", answers: []error{io.EOF, io.ErrUnexpectedEOF}, err: io.ErrUnexpectedEOF, resent: true, unans: true, sends: 2},
		{name: "a script stopped half-way is re-sent", answers: []error{nonLocal, nil}, resent: true, unans: true, sends: 2},
		{name: "refused, then answered", answers: []error{refused, refused, nil}, sends: 3},
		{name: "loading, then answered", answers: []error{loading, loading, nil}, sends: 3},
		{name: "refused, lost, refused, answered", answers: []error{refused, io.EOF, refused, nil}, resent: true, unans: true, sends: 4},
		{name: "refused, lost, lost", answers: []error{refused, io.EOF, io.EOF}, err: io.EOF, resent: true, unans: true, sends: 3},
		{name: "the handshake breaks, then answered", answers: []error{handshake, nil}, sends: 2},
		{name: "the handshake breaks until the end", always: handshake, err: syscall.EPIPE, notRun: true},
		{name: "loading, then no connection until the end", answers: []error{loading}, always: context.DeadlineExceeded, err: loading, notRun: true},
		{name: "refused until the end", always: refused, err: syscall.ECONNREFUSED, notRun: true},
		{name: "loading until the end", always: loading, err: loading, notRun: true},
		{name: "lost, then refused until the end", answers: []error{io.EOF}, always: refused, err: syscall.ECONNREFUSED, resent: true, unans: true},
		{name: "a closed client", always: redis.ErrClosed, err: redis.ErrClosed, notRun: true, sends: 1},
		{name: "lost, then a closed client", answers: []error{io.EOF}, always: redis.ErrClosed, err: redis.ErrClosed, resent: true, unans: true, sends: 2},
		{name: "once, lost", answers: []error{io.EOF}, once: true, err: io.EOF, unans: true, sends: 1},
		{name: "once, refused, then lost", answers: []error{refused, io.EOF}, once: true, err: io.EOF, unans: true, sends: 2},
		{name: "once, loading, then answered", answers: []error{loading, nil}, once: true, sends: 2},
		{name: "not cached", answers: []error{noScript, nil}, sends: 2},
		{name: "not cached by Valkey", answers: []error{valkey, nil}, sends: 2},
		{name: "not cached, the source is lost", answers: []error{noScript, io.EOF, nil}, resent: true, unans: true, sends: 3},
		{name: "once, not cached, the source is lost", answers: []error{noScript, io.EOF}, once: true, err: io.EOF, unans: true, sends: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // never dialled
			defer func() { _ = client.Close() }()
			h := &hook{answers: c.answers, always: c.always}
			client.AddHook(h)
			call := incr("counter", 600*time.Millisecond)
			call.Once = c.once
			res := script.NewRunner(client).Run(t.Context(), call)
			switch {
			case c.err != nil && !errors.Is(res.Err, c.err):
				t.Errorf("the error is %v, want %v", res.Err, c.err)
			case c.err == nil && (res.Err != nil || res.Reply != script.Reply{Code: 1, N: 7}):
				t.Errorf("the reply is %v (error %v)", res.Reply, res.Err)
			}
			if res.Resent != c.resent || res.Unanswered != c.unans || res.NotRun != c.notRun {
				t.Errorf("Resent %t, Unanswered %t, NotRun %t, want %t, %t, %t",
					res.Resent, res.Unanswered, res.NotRun, c.resent, c.unans, c.notRun)
			}
			if n := h.sends(); n != c.sends && (c.sends > 0 || n < 3 || n > 100) {
				t.Errorf("%d sends, want %d", n, c.sends)
			}
		})
	}
}

// AsyncAutoPipeline's Process returns before the answer is there.
func TestAFlushedScriptIsSentWithItsSourceThroughAPipeline(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	pipeline, err := r.direct.AsyncAutoPipeline()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pipeline.Close() }()
	if err := r.direct.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	res := script.NewRunner(pipeline).Run(t.Context(), incr("counter", 5*time.Second))
	if res.Err != nil || res.Reply.N != 1 {
		t.Errorf("the reply is %v (error %v)", res.Reply, res.Err)
	}
}

func TestAFlushedScriptIsSentWithItsSource(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for want := int64(1); want <= 3; want++ {
		if err := r.direct.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time it is cached
			res := r.runner.Run(t.Context(), incr(fmt.Sprint("counter-", want), 5*time.Second))
			if res.Err != nil || res.Resent || res.Unanswered || res.NotRun {
				t.Fatalf("%+v", res)
			}
		}
	}
	want := slices.Repeat([]string{"evalsha", "eval", "evalsha"}, 3)
	if got := r.hook.sent(); !slices.Equal(got, want) {
		t.Fatalf("sent %v, want %v", got, want)
	}
}

func TestLoadPutsTheScriptsIntoTheCache(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := r.direct.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := script.Load(t.Context(), r.direct, incrScript); err != nil {
		t.Fatal(err)
	}
	if res := r.runner.Run(t.Context(), incr("counter", 5*time.Second)); res.Err != nil || !slices.Equal(r.hook.sent(), []string{"evalsha"}) {
		t.Fatalf("%v, sent %v", res.Err, r.hook.sent())
	}
	err := script.Load(t.Context(), r.direct, script.New("broken", "return ("))
	if err == nil {
		t.Fatal("a script that does not compile was loaded")
	}
}

func TestALostReplyIsAskedForOnceMore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.proxy.DropReplies(1, scripts)
	res := r.runner.Run(t.Context(), incr("counter", 10*time.Second))
	if res.Err != nil || res.Reply.N != 2 || !res.Resent || !res.Unanswered || res.NotRun {
		t.Fatalf("%+v", res)
	}
	r.want(t, 2, 2)
}

func TestTwoLostRepliesAreAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.proxy.DropReplies(2, scripts)
	start := time.Now()
	res := r.runner.Run(t.Context(), incr("counter", 20*time.Second))
	if res.Err == nil || errors.Is(res.Err, context.DeadlineExceeded) || !res.Unanswered || res.NotRun {
		t.Fatalf("%+v", res)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Fatalf("it took %s, although there was nothing to wait for", took)
	}
	r.want(t, 2, 2)
}

func TestOnceNeverSendsAgainWhatMayHaveRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.proxy.DropReplies(1, scripts)
	call := incr("counter", 5*time.Second)
	call.Once = true
	res := r.runner.Run(t.Context(), call)
	if res.Err == nil || !res.Unanswered || res.Resent || res.NotRun {
		t.Fatalf("%+v", res)
	}
	r.want(t, 1, 1)
}

func TestTheFirstSendGetsHalfOfTheTime(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second
	for _, bound := range []bool{true, false} {
		t.Run(fmt.Sprint("ContextTimeoutEnabled ", bound), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(o *redis.Options) { o.ContextTimeoutEnabled = bound })
			r.proxy.DelayReplies(time.Minute, 1, scripts)
			res := r.runner.Run(t.Context(), incr("counter", timeout))
			if res.Err != nil || res.Reply.N != 2 || !res.Resent || !res.Unanswered {
				t.Fatalf("%+v", res)
			}
			if d := r.hook.between(); d < timeout/2-50*time.Millisecond || d > timeout*3/4 {
				t.Fatalf("the second send came %s after the first", d)
			}
			r.want(t, 2, 2)
		})
	}
}

func TestARefusedConnectionIsTriedAgainWithinTheCallsTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.proxy.Refuse(true)
	start := time.Now()
	res := r.runner.Run(t.Context(), incr("counter", 700*time.Millisecond))
	if res.Err == nil || !res.NotRun || res.Unanswered || res.Resent {
		t.Fatalf("while refused: %+v", res)
	}
	if took := time.Since(start); took > 1200*time.Millisecond {
		t.Fatalf("a call of 700 ms took %s", took)
	}
	got := make(chan script.Result, 1)
	before := r.hook.sends()
	go func() { got <- r.runner.Run(t.Context(), incr("counter", 20*time.Second)) }()
	becomes(t, "the call is under way", func() bool { return r.hook.sends() > before })
	r.proxy.Refuse(false)
	if res := <-got; res.Err != nil || res.Reply.N != 1 || res.Unanswered || res.Resent || res.NotRun {
		t.Fatalf("once it is open: %+v", res)
	}
	r.want(t, 1, 1)
}
