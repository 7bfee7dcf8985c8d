package script_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
	"github.com/go-lynx/lynx-redis-lock/internal/script"
)

// pipelines counts the pipelines of a client and the commands in them.
type pipelines struct{ trips, commands, fail atomic.Int64 }

func (p *pipelines) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (p *pipelines) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (p *pipelines) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "evalsha" { // and not what a new connection says
			p.trips.Add(1)
			p.commands.Add(int64(len(cmds)))
			if p.fail.Add(-1) >= 0 {
				return io.EOF // of a connection that nothing was written to
			}
		}
		return next(ctx, cmds)
	}
}

// crowd is a rig with as many sends under way as there can be without sharing, all of
// them in a silent network.
type crowd struct {
	*rig
	shared pipelines
	calls  sync.WaitGroup
	mu     sync.Mutex // guards results
	result map[string]script.Result
}

func newCrowd(t *testing.T) *crowd { t.Helper(); return crowdOf(t, script.ShareFrom, time.Second) }

// crowdOf is one of so many, with a Redis at that distance.
func crowdOf(t *testing.T, n int, distance time.Duration) *crowd {
	t.Helper()
	c := &crowd{rig: newRig(t), result: map[string]script.Result{}}
	c.client.AddHook(&c.shared)
	c.warm(t, n)
	c.proxy.BlackHole(true)
	t.Cleanup(func() { c.proxy.BlackHole(false); c.calls.Wait() })
	c.runner.NoteTrip(distance)
	for i := range n {
		c.call(t.Context(), fmt.Sprint("alone-", i), time.Minute)
	}
	becomes(t, "they are under way", func() bool { return c.runner.UnderWay() == n })
	return c
}

// warm leaves n connections in the pool that are ready for a command.
func (r *rig) warm(t *testing.T, n int) {
	t.Helper()
	for range n {
		conn := r.client.Conn()
		defer func() { _ = conn.Close() }()
		if err := conn.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	// Pipelines have connections of their own.
	r.proxy.DelayReplies(50*time.Millisecond, 2, redistest.Named("echo"))
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			pipe := r.client.Pipeline()
			pipe.Echo(t.Context(), "")
			if _, err := pipe.Exec(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
}

// call starts a call that counts up its key.
func (c *crowd) call(ctx context.Context, key string, timeout time.Duration) {
	c.calls.Go(func() {
		res := c.runner.Run(ctx, incr(key, timeout))
		c.mu.Lock()
		defer c.mu.Unlock()
		c.result[key] = res
	})
}

// join starts n more, and returns when their sends are under way.
func (c *crowd) join(t *testing.T, ctx context.Context, n int, timeout time.Duration) {
	t.Helper()
	before := c.runner.UnderWay()
	for i := range n {
		c.call(ctx, fmt.Sprint("more-", i), timeout)
	}
	becomes(t, "they have joined", func() bool { return c.runner.UnderWay() == before+n })
}

// ranOnce: every call has an answer, of its only run.
func (c *crowd) ranOnce(t *testing.T, n int) {
	t.Helper()
	c.calls.Wait()
	if len(c.result) != n {
		t.Fatalf("%d results, want %d", len(c.result), n)
	}
	for key, res := range c.result {
		if want := (script.Result{Reply: script.Reply{Code: script.Done, N: 1}}); res != want {
			t.Errorf("%s: %+v, want %+v", key, res, want)
		}
	}
}

func TestFewCallsAreSentAlone(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.proxy.BlackHole(false)
	c.ranOnce(t, script.ShareFrom)
	if trips := c.shared.trips.Load(); trips != 0 {
		t.Errorf("%d pipelines for %d calls", trips, script.ShareFrom)
	}
}

func TestFewerCallsShareRoundTripsWithARedisThatIsNear(t *testing.T) {
	t.Parallel()
	const more = 20
	c := crowdOf(t, script.ShareFromNear, script.Near/2)
	c.join(t, t.Context(), more, time.Minute)
	c.proxy.BlackHole(false)
	c.ranOnce(t, script.ShareFromNear+more)
	if commands := c.shared.commands.Load(); commands != more {
		t.Errorf("%d of %d calls shared round trips", commands, more)
	}
}

func TestTheShortestRoundTripCountsAtOnceAndLongerOnesBitByBit(t *testing.T) {
	t.Parallel()
	r := script.NewRunner(nil)
	r.NoteTrip(time.Second)
	r.NoteTrip(script.Near / 2)
	if got := r.Trip(); got != script.Near/2 {
		t.Fatalf("the shortest is %s", got)
	}
	r.NoteTrip(time.Minute) // the machine's doing
	if got := r.Trip(); got <= script.Near/2 || got >= script.Near {
		t.Fatalf("after one that was long it is %s", got)
	}
	for range 1000 {
		r.NoteTrip(2 * script.Near)
	}
	if got := r.Trip(); got < script.Near || got > 2*script.Near {
		t.Fatalf("after many that were longer it is %s", got)
	}
}

func TestManyCallsShareRoundTrips(t *testing.T) {
	t.Parallel()
	const more = 300
	c := newCrowd(t)
	c.join(t, t.Context(), more, time.Minute)
	c.proxy.BlackHole(false)
	c.ranOnce(t, script.ShareFrom+more)
	trips, commands := c.shared.trips.Load(), c.shared.commands.Load()
	if commands != more || trips > more/10 {
		t.Errorf("%d commands in %d pipelines, want %d in far fewer", commands, trips, more)
	}
}

func TestAFlushedScriptIsSentWithItsSourceAfterASharedRoundTrip(t *testing.T) {
	t.Parallel()
	const more = 50
	c := newCrowd(t)
	c.join(t, t.Context(), more, time.Minute)
	if err := c.direct.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	c.proxy.BlackHole(false)
	c.ranOnce(t, script.ShareFrom+more)
}

// It is known that nothing of it has run.
func TestASharedRoundTripThatIsNeverWrittenIsNoRun(t *testing.T) {
	t.Parallel()
	const more = 50
	c := newCrowd(t)
	c.shared.fail.Store(5)
	c.join(t, t.Context(), more, time.Minute)
	c.proxy.BlackHole(false)
	c.ranOnce(t, script.ShareFrom+more)
}

// What a caller leaves while it waits for a round trip has not run and never will; of
// what is on its way nobody knows.
func TestACallerLeavesASharedRoundTripAtItsOwnEnd(t *testing.T) {
	t.Parallel()
	const more, limit = 300, 300 * time.Millisecond
	c := newCrowd(t)
	ctx, cancel := context.WithCancel(t.Context())
	c.join(t, ctx, more, time.Minute)
	becomes(t, "two round trips are on their way", func() bool { return c.proxy.Count(scripts) == script.ShareFrom+2 })
	cancelled := time.Now()
	cancel()
	becomes(t, "the cancelled have left", func() bool { return c.runner.UnderWay() == script.ShareFrom })
	if took := time.Since(cancelled); took > 200*time.Millisecond {
		t.Errorf("the cancelled left after %s", took)
	}
	becomes(t, "nothing of theirs is queued", func() bool { return c.runner.Queued() == 0 })
	start := time.Now()
	res := c.runner.Run(t.Context(), incr("late", limit))
	if took := time.Since(start); took > limit+200*time.Millisecond || !errors.Is(res.Err, context.DeadlineExceeded) {
		t.Errorf("after %s: %+v", took, res)
	}
	c.proxy.BlackHole(false)
	c.calls.Wait()
	gone, unheard := 0, 0
	for i := range more {
		key := fmt.Sprint("more-", i)
		res := c.result[key]
		ran, err := c.direct.Exists(t.Context(), key).Result()
		switch {
		case err != nil || !errors.Is(res.Err, context.Canceled) || res.NotRun == res.Unanswered:
			t.Errorf("%s: %+v, %v", key, res, err)
		case res.NotRun:
			gone++
			if ran != 0 {
				t.Errorf("%s has run, but was said not to", key)
			}
		default:
			unheard++
		}
	}
	if gone == 0 || unheard == 0 {
		t.Errorf("%d of %d had not been sent, %d had: want some of each", gone, more, unheard)
	}
}

// A connection that goes silent keeps none waiting but those who are on it.
func TestASilentSharedRoundTripHoldsNobodyElseBack(t *testing.T) {
	t.Parallel()
	const silence, more = time.Minute, 200
	c := &crowd{rig: newRig(t), result: map[string]script.Result{}}
	c.proxy.DelayRequests(silence, script.ShareFrom+2, scripts)
	ctx, cancel := context.WithCancel(t.Context())
	for i := range script.ShareFrom + 2 { // the last two in a round trip each
		c.call(ctx, fmt.Sprint("silent-", i), silence)
		becomes(t, "it is on its way", func() bool { return c.proxy.Count(scripts) == i+1 })
	}
	start := time.Now()
	var others sync.WaitGroup
	for i := range more {
		others.Go(func() {
			if res := c.runner.Run(t.Context(), incr(fmt.Sprint("more-", i), silence)); res.Err != nil {
				t.Error(res.Err)
			}
		})
	}
	others.Wait()
	for range more { // nor once for each call
		if res := c.runner.Run(t.Context(), incr("one-by-one", silence)); res.Err != nil {
			t.Fatal(res.Err)
		}
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("the others were answered after %s", took)
	}
	cancel()
	c.calls.Wait()
}

// The client would send a pipeline three times more by itself.
func TestALostSharedRoundTripIsRepeatedOnceForEach(t *testing.T) {
	t.Parallel()
	const more = 100
	c := newCrowd(t)
	seen := 0
	c.proxy.DropReplies(1, func(cmd []string) bool { // and its connection, with what is behind it
		if scripts(cmd) && strings.HasPrefix(cmd[3], "more-") {
			seen++
		}
		return seen == more/2 // the first ones may have set out alone
	})
	c.join(t, t.Context(), more, time.Minute)
	c.proxy.BlackHole(false)
	c.calls.Wait()
	again := 0
	for key, res := range c.result {
		ran, err := c.direct.Get(t.Context(), key).Int64()
		once, twice := ran == 1 && res.Reply.N == 1, ran == 2 && res.Resent
		if err != nil || res.Err != nil || (!once && !twice) {
			t.Errorf("%s ran %d times: %+v, %v", key, ran, res, err)
		}
		if res.Resent {
			again++
		}
	}
	if again < 2 {
		t.Errorf("%d calls were sent again, want those of the broken pipeline", again)
	}
}

// stranger is a client of the application's that does more than the one it embeds.
type stranger struct {
	*redis.Client
	seen atomic.Int64
}

func (s *stranger) Process(ctx context.Context, cmd redis.Cmder) error {
	s.seen.Add(1)
	return s.Client.Process(ctx, cmd)
}

func TestEveryCallPassesAClientOfTheApplications(t *testing.T) {
	t.Parallel()
	const calls, each = 100, 10
	client := &stranger{Client: redistest.Start(t).Client(t)}
	if err := script.Load(t.Context(), client, incrScript); err != nil {
		t.Fatal(err)
	}
	runner := script.NewRunner(client)
	var all sync.WaitGroup
	for i := range calls {
		all.Go(func() {
			for range each {
				if res := runner.Run(t.Context(), incr(fmt.Sprint(i), time.Minute)); res.Err != nil {
					t.Error(res.Err)
				}
			}
		})
	}
	all.Wait()
	if seen := client.seen.Load(); seen < calls*each {
		t.Errorf("%d calls passed it, want %d", seen, calls*each)
	}
}

// Each node's calls go to it; those of a slot that has moved follow it.
func TestSharedRoundTripsOnACluster(t *testing.T) {
	t.Parallel()
	const calls = 300
	cluster := redistest.StartCluster(t)
	client := cluster.Client(t)
	var shared pipelines
	client.OnNewNode(func(node *redis.Client) { node.AddHook(&shared) })
	runner := script.NewRunner(client)
	key := func(i int) string { return fmt.Sprintf("{%d}", i) }
	if res := runner.Run(t.Context(), incr(key(calls), time.Minute)); res.Err != nil { // now it knows the nodes
		t.Fatal(res.Err)
	}
	other := 1
	for cluster.PrimaryFor(t, key(other)) == cluster.PrimaryFor(t, key(0)) {
		other++
	}
	cluster.MoveSlot(t, cluster.Slot(key(0)), cluster.PrimaryFor(t, key(other)))
	var all sync.WaitGroup
	for i := range calls {
		all.Go(func() {
			for n := range 20 {
				res := runner.Run(t.Context(), incr(key(i), time.Minute))
				if res.Err != nil || res.Reply.N != int64(n+1) {
					t.Errorf("%s, run %d: %+v", key(i), n+1, res)
				}
			}
		})
	}
	all.Wait()
	if trips, commands := shared.trips.Load(), shared.commands.Load(); commands < calls*10 || trips > commands/5 {
		t.Errorf("%d commands in %d pipelines, want most of %d in far fewer", commands, trips, calls*20)
	}
}
