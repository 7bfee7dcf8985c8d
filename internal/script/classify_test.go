package script_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
	"github.com/go-lynx/lynx-redis-lock/internal/script"
)

// replyError is an error reply of Redis.
type replyError string

func (e replyError) Error() string { return string(e) }
func (e replyError) RedisError()   {}

func TestEveryKindOfErrorIsClassified(t *testing.T) {
	t.Parallel()
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for _, c := range []struct {
		want string
		err  error
	}{
		{"answered", nil},
		{"answered", redis.Nil},
		{"answered", replyError("ERR Error running script")},
		{"answered", replyError("WRONGTYPE Operation against a key holding the wrong kind of value")},
		{"answered", replyError("OOM command not allowed when used memory > 'maxmemory'.")},
		{"answered", replyError("NOPERM this user has no permissions to run the 'evalsha' command")},
		{"answered", replyError("NOAUTH Authentication required.")},
		{"answered", replyError("CROSSSLOT Keys in request don't hash to the same slot")},
		{"answered", replyError("ERR value is not an integer or out of range (key {lynx:lock:LOADING }:token)")},
		{"not run", replyError("LOADING Redis is loading the dataset in memory")},
		{"not run", replyError("TRYAGAIN Multiple keys request during rehashing of slot")},
		{"not run", replyError("MOVED 3999 127.0.0.1:6381")},
		{"not run", replyError("ASK 3999 127.0.0.1:6381")},
		{"not run", replyError("CLUSTERDOWN The cluster is down")},
		{"not run", replyError("READONLY You can't write against a read only replica.")},
		{"not run", replyError("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.")},
		{"not run", replyError("NOREPLICAS Not enough good replicas to write.")},
		{"not run", replyError("BUSY Redis is busy running a script.")},
		{"not run", replyError("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist")},
		{"not run", replyError("ERR max number of clients reached")},
		{"not run", dial},
		{"not run", fmt.Errorf("wrapped: %w", dial)},
		{"not run", redis.ErrClosed},
		{"not run", redis.ErrPoolTimeout},
		{"not run", redis.ErrPoolExhausted},
		{"unknown", replyError("ERR Script attempted to access a non local key in a cluster node script")},
		{"unknown", io.EOF},
		{"unknown", io.ErrUnexpectedEOF},
		{"unknown", context.DeadlineExceeded},
		{"unknown", context.Canceled},
		{"unknown", &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}},
		{"unknown", &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}},
		{"unknown", errors.New("anything else")},
	} {
		if got := script.Classify(c.err); got != c.want {
			t.Errorf("%v is classified as %s, want %s", c.err, got, c.want)
		}
	}
}

func TestOnlyExactIntegersAreAReply(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reply any
		want  script.Reply
		bad   string
	}{
		{reply: []any{int64(1), int64(42)}, want: script.Reply{Code: 1, N: 42}},
		{reply: []any{int64(2), int64(-1)}, want: script.Reply{Code: 2, N: -1}},
		{reply: []any{int64(6), int64(10), "me"}, want: script.Reply{Code: 6, N: 10, Hold: "me"}},
		{reply: []any{int64(6), int64(10), int64(1)}, bad: "names no hold"},
		{reply: []any{int64(1), int64(10), "me"}, bad: "names no hold"},
		{reply: []any{"6", int64(10), "me"}, bad: "not an integer"},
		{reply: []any{int64(1), "9007199254740993"}, want: script.Reply{Code: 1, N: 9007199254740993}},
		{reply: []any{int64(1), "9223372036854775807"}, want: script.Reply{Code: 1, N: math.MaxInt64}},
		{reply: []any{int64(1), "9223372036854775808"}, bad: "not an integer"},
		{reply: []any{int64(1), "abc"}, bad: "not an integer"},
		{reply: []any{int64(1), 1.5}, bad: "not an integer"},
		{reply: []any{int64(1), nil}, bad: "not an integer"},
		{reply: []any{"1", int64(1)}, bad: "not an integer"},
		{reply: []any{int64(1)}, bad: "not a pair"},
		{reply: []any{int64(1), int64(2), int64(3)}, bad: "not a pair"},
		{reply: []any{}, bad: "not a pair"},
		{reply: "OK", bad: "not a pair"},
		{reply: nil, bad: "not a pair"},
		{reply: int64(1), bad: "not a pair"},
	} {
		got, err := script.Parse("some", c.reply)
		switch {
		case c.bad == "" && (err != nil || got != c.want):
			t.Errorf("%v: %v, %v, want %v", c.reply, got, err, c.want)
		case c.bad != "" && (err == nil || !strings.Contains(err.Error(), c.bad) || !strings.Contains(err.Error(), "script some")):
			t.Errorf("%v: error %v, want one that says %q and names the script", c.reply, err, c.bad)
		}
	}
}

func TestANumberAloneIsAReplyOfShortScriptsOnly(t *testing.T) {
	t.Parallel()
	want := script.Reply{Code: script.Done, N: 42}
	if got, err := script.ParseShort(int64(42)); err != nil || got != want {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if got, err := script.ParseShort("42"); err == nil {
		t.Errorf("a string alone is %v", got)
	}
}

// What the real server says, and not only what the table above believes it says.
func TestWhatDidNotRunIsRepeatedUntilItRuns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		args  []string                                                 // of the server
		fault func(t *testing.T, s *redistest.Server, c *redis.Client) // from here on nothing runs
		heal  func(t *testing.T, s *redistest.Server, c *redis.Client) // and from here on again
	}{
		{
			name: "READONLY", fault: configures("REPLICAOF", "127.0.0.1", "1"), heal: configures("REPLICAOF", "NO", "ONE"),
		},
		{
			name: "MASTERDOWN", args: []string{"--replica-serve-stale-data", "no"},
			fault: configures("REPLICAOF", "127.0.0.1", "1"), heal: configures("REPLICAOF", "NO", "ONE"),
		},
		{
			name: "NOREPLICAS", fault: configures("CONFIG", "SET", "min-replicas-to-write", "1"),
			heal: configures("CONFIG", "SET", "min-replicas-to-write", "0"),
		},
		{
			name: "CLUSTERDOWN", args: []string{"--cluster-enabled", "yes"}, fault: nothing,
			heal: configures("CLUSTER", "ADDSLOTSRANGE", "0", "16383"),
		},
		{
			name: "BUSY", args: []string{"--busy-reply-threshold", "1"},
			fault: func(t *testing.T, s *redistest.Server, _ *redis.Client) {
				busy := s.Client(t, func(o *redis.Options) { o.ReadTimeout, o.MaxRetries = time.Minute, -1 })
				go busy.Eval(context.WithoutCancel(t.Context()), "while true do end", nil) // ends by SCRIPT KILL
				becomes(t, "the server is busy", func() bool {
					return redis.HasErrorPrefix(s.Client(t, oneTry).Get(t.Context(), "x").Err(), "BUSY")
				})
			},
			heal: configures("SCRIPT", "KILL"),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, c.args...)
			control := s.Client(t)
			client, count := s.Client(t), &hook{}
			client.AddHook(count)
			r := script.NewRunner(client)
			c.fault(t, s, control)

			res := r.Run(t.Context(), incr("counter", time.Second))
			cutOff := errors.Is(res.Err, context.DeadlineExceeded) // the last try
			if !res.NotRun || res.Unanswered || res.Resent || !cutOff && !redis.HasErrorPrefix(unwrapReply(res.Err), c.name) {
				t.Fatalf("while nothing runs: %+v, want an error %s and NotRun", res, c.name)
			}
			before := count.sends()
			got := make(chan script.Result, 1)
			go func() { got <- r.Run(t.Context(), incr("counter", 20*time.Second)) }()
			becomes(t, "the call was refused twice", func() bool { return count.sends() >= before+3 })
			c.heal(t, s, control)
			if res := <-got; res.Err != nil || res.Reply.N != 1 || res.Unanswered || res.Resent {
				t.Fatalf("once it runs again: %+v, want the counter at 1", res)
			}
		})
	}
}

func unwrapReply(err error) error {
	var reply redis.Error
	if errors.As(err, &reply) {
		return reply
	}
	return err
}

func nothing(*testing.T, *redistest.Server, *redis.Client) {}

func configures(words ...any) func(t *testing.T, _ *redistest.Server, c *redis.Client) {
	return func(t *testing.T, _ *redistest.Server, c *redis.Client) {
		t.Helper()
		if err := c.Do(t.Context(), words...).Err(); err != nil {
			t.Fatal(words, err)
		}
	}
}
