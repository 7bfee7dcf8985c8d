package script

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// fallbackRead bounds a send when neither the caller, nor the call, nor the
// client's configuration does: the read timeout go-redis uses by default.
const fallbackRead = 5 * time.Second

// Pauses between sends that did not run.
const firstPause, longestPause = 2 * time.Millisecond, 50 * time.Millisecond

// promptness is how late a cancellation may be noticed while Redis says nothing. A
// goroutine for every call that somebody could cancel would double what a call costs.
const promptness = 300 * time.Millisecond

// lastSend is the least time a repeated send is given: one that is cut off at once
// would only turn "it did not run" into an unknown outcome.
const lastSend = 30 * time.Millisecond

// Runner sends scripts through one client.
type Runner struct {
	client redis.UniversalClient
	// inline: the client lets go of a call at its context's deadline, so that it
	// needs no goroutine to be left behind.
	inline    bool
	deadlines deadlines
	sharing   sharing
	read      time.Duration // the client's read timeout
	// pipelines is the client in whose pipelines calls for a key can share a round
	// trip, nil where the node is not known; not set: for none. On a Cluster it is the
	// node's own client, as it is for a batch: that of the Cluster would follow
	// redirects in the pipeline and leave MOVED as the error of what may have run
	// behind one. A client that is embedded in something of the application's may do
	// more than its pipelines do.
	pipelines func(key string) *redis.Client
	// cluster is the client, when it is one of a Cluster.
	cluster Cluster
	// lost is told of every send without an answer. go-redis's ClusterClient goes
	// on dialling a dead primary for up to a minute unless it is asked to look
	// again where the slots are; it does so at most every 200 ms.
	lost func(context.Context)
}

// NewRunner looks once at what the client binds its calls to.
func NewRunner(client redis.UniversalClient) *Runner {
	r := &Runner{client: client, read: fallbackRead, lost: func(context.Context) {}, deadlines: deadlines{epoch: time.Now()}}
	switch c := client.(type) {
	case *redis.Client:
		r.pipelines = func(string) *redis.Client { return c }
		opt := c.Options()
		// A TLS handshake, the sentinels' dialer and what the application does on
		// a new connection do not look at the deadline.
		r.inline = opt.ContextTimeoutEnabled && opt.TLSConfig == nil && opt.Addr != "FailoverClient" && opt.OnConnect == nil &&
			opt.CredentialsProvider == nil && opt.CredentialsProviderContext == nil && opt.StreamingCredentialsProvider == nil &&
			opt.ReadTimeout >= 0 && opt.WriteTimeout >= 0 // below, the client sets no deadline at all
		r.setRead(opt.ReadTimeout)
	case *redis.ClusterClient:
		r.pipelines = func(key string) *redis.Client { return r.Route(key).node }
		r.setRead(c.Options().ReadTimeout)
	}
	if cluster, ok := client.(Cluster); ok {
		r.cluster, r.lost = cluster, cluster.ReloadState
	}
	return r
}

func (r *Runner) setRead(d time.Duration) {
	if d > 0 {
		r.read = d
	}
}

// Call is one request.
type Call struct {
	Script  *Script
	Keys    []string
	Args    []string
	Timeout time.Duration // the call's own time with all its re-sends; 0: none of its own
	Once    bool          // never re-send what may have run
	// Bare: how many of Keys are enough, for a script that can do without the
	// others. A Cluster refuses a script (TRYAGAIN) for as long as its slot is being
	// moved when some of its keys are absent, or have moved already. 0: all of them.
	Bare int

	parts []Part // of a batch to a Cluster, instead of Keys and Args
}

// Result is what is known when a call is over.
type Result struct {
	Reply Reply
	Err   error // nil: Reply is the answer
	// Resent: the answer may be to a second run of the request.
	Resent bool
	// Unanswered: some send of it was never answered, so that the request may
	// have run without our knowledge, or may still arrive.
	Unanswered bool
	// NotRun: it is known that nothing ran.
	NotRun bool
	// Bare: it was sent with the first Call.Bare keys only.
	Bare bool
}

// Run sends the call until it is answered or its time is up, at the latest when
// ctx ends. What did not run is repeated with a backoff. What may have run is
// sent once more with the same arguments; the first send has at most half of
// the time, so that time is left for the second.
func (r *Runner) Run(ctx context.Context, call Call) Result {
	if err := ctx.Err(); err != nil {
		return Result{Err: err, NotRun: true}
	}
	value, res := r.deliver(ctx, call)
	if res.Err == nil {
		res.Reply, res.Err = call.Script.parse(value)
	}
	if forbidden(res.Err) {
		res.Err = fmt.Errorf("script %s: %w (ACL LOG names what was refused, the README the rules that a lock needs)", call.Script.name, res.Err)
	}
	return res
}

// deliver is Run without a look at what the answer says.
func (r *Runner) deliver(ctx context.Context, call Call) (value any, res Result) {
	now := time.Now() // to read the clock takes as long as much of the rest: once a send
	end := r.end(ctx, call, now)
	limit := firstLimit(call, now, end)
	var cause error // why the last send that was not cut off did not run
	for pause := firstPause; ; pause, now = min(2*pause, longestPause), time.Now() {
		value, err := r.send(ctx, call, now, limit)
		what := classify(err)
		if what == answered {
			res.Err = err
			return value, res
		}
		if call.Bare > 0 && !res.Bare && redis.HasErrorPrefix(err, "TRYAGAIN") {
			call.Keys, res.Bare = call.Keys[:call.Bare], true
			continue
		}
		r.lost(ctx)
		if what == unknown {
			if over := !time.Now().Before(end); over || res.Unanswered || call.Once || ctx.Err() != nil {
				res.Unanswered = true
				return nil, giveUp(ctx, call, res, err, cause, over)
			}
			res.Unanswered, res.Resent = true, true
			limit = end
			continue
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			cause = err
		}
		if closed := errors.Is(err, redis.ErrClosed); closed || !sleep(ctx, pause, end) {
			res.NotRun = !res.Unanswered
			return nil, giveUp(ctx, call, res, err, cause, !closed)
		}
		if !res.Unanswered { // still the first send that can run
			limit = firstLimit(call, time.Now(), end)
		}
	}
}

// firstLimit leaves half of the time to a re-send, if there may be one.
func firstLimit(call Call, now, end time.Time) time.Time {
	if call.Once {
		return end
	}
	return now.Add(end.Sub(now) / 2)
}

// end is when the call has to be over.
func (r *Runner) end(ctx context.Context, call Call, now time.Time) time.Time {
	end, bound := ctx.Deadline()
	if call.Timeout > 0 {
		if own := now.Add(call.Timeout); !bound || own.Before(end) {
			end, bound = own, true
		}
	}
	if !bound {
		end = now.Add(2 * r.read)
	}
	return end
}

// giveUp says why: the caller's own end and the call's timeout are named as such,
// because the client reports both as a network error. over: the time was up. Of
// what is known about the last send, cause is left when it was cut off itself.
func giveUp(ctx context.Context, call Call, res Result, err, cause error, over bool) Result {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		over = true
		if errors.Is(err, errUnwritten) && cause == nil {
			cause = errUnwritten
		}
		err = cause
	}
	switch {
	case ctx.Err() != nil:
		res.Err = errors.Join(ctx.Err(), err)
	case over && call.Timeout > 0:
		late := fmt.Errorf("no answer within the call's %s: %w", call.Timeout, context.DeadlineExceeded)
		res.Err = errors.Join(late, err)
	case over:
		res.Err = errors.Join(context.DeadlineExceeded, err)
	default:
		res.Err = err
	}
	return res
}

// Verbs, as words of a command.
var verbSHA, verbText any = "evalsha", "eval"

// send is one send; NOSCRIPT is no outcome, the source follows at once (EVAL).
// It returns at the limit and when ctx ends, whatever the client does; but a
// cancellation is noticed up to promptness late, where nobody has to be left behind
// at the limit.
func (r *Runner) send(ctx context.Context, call Call, now, limit time.Time) (any, error) {
	defer r.sharing.underWay.Add(-1)
	if r.sharing.underWay.Add(1) > r.sharing.trip.from() {
		if value, err := r.sendShared(ctx, &call, limit); !errors.Is(err, errAlone) {
			return value, err
		}
		now = time.Now()
	}
	value, err := r.sendAlone(ctx, call, now, limit)
	if err == nil {
		r.sharing.trip.note(time.Since(now))
	}
	return value, err
}

func (r *Runner) sendAlone(ctx context.Context, call Call, now, limit time.Time) (any, error) {
	soon := limit.Sub(now) <= promptness
	if !r.inline || (!soon && ctx.Done() != nil) {
		return r.sendApart(ctx, call.apart(), limit)
	}
	cmd := new(roomy)
	if soon {
		cmd.until = r.deadlines.at(ctx, now, limit)
		return r.exchange(&cmd.until, &call, &cmd.own, cmd)
	}
	bounded, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	return r.exchange(bounded, &call, &cmd.own, cmd)
}

// apart is a copy that a goroutine may keep. It has no pointer of the call's own, not
// even that to the script: with one the compiler would put the keys and arguments of
// every call on the heap.
func (c *Call) apart() Call {
	script := *c.Script
	return Call{
		Script: &script, Keys: slices.Clone(c.Keys), Args: slices.Clone(c.Args), parts: slices.Clone(c.parts),
		Timeout: c.Timeout, Once: c.Once, Bare: c.Bare,
	}
}

// sendApart is a send in a goroutine of its own, which can be left behind.
func (r *Runner) sendApart(ctx context.Context, call Call, limit time.Time) (any, error) {
	state := new(sendState)
	type result struct {
		value any
		err   error
	}
	// Buffered: when the caller has left, the goroutine ends with the client's
	// own timeout and nobody waits for it. It touches nothing of the caller's.
	got := make(chan result, 1)
	go func() {
		bounded, cancel := context.WithDeadline(ctx, limit)
		defer cancel()
		value, err := r.exchange(bounded, &call, state, new(roomy))
		got <- result{value, err}
	}()
	late := time.NewTimer(time.Until(limit))
	defer late.Stop()
	select {
	case res := <-got:
		return res.value, res.err
	case <-ctx.Done():
		return nil, state.left(ctx.Err())
	case <-late.C:
		return nil, state.left(context.DeadlineExceeded)
	}
}

func (r *Runner) exchange(ctx context.Context, call *Call, state *sendState, cmd *roomy) (any, error) {
	if call.parts != nil {
		return r.pipelined(ctx, call, state)
	}
	cmd.fill(ctx, state, verbSHA, call.Script.bySHA, call.Keys, call.Args)
	err := r.process(ctx, &cmd.command)
	if noScript(err) && state.rewind() {
		cmd = new(roomy)
		cmd.fill(ctx, state, verbText, call.Script.byText, call.Keys, call.Args)
		err = r.process(ctx, &cmd.command)
	}
	if err != nil && !isReply(err) {
		return nil, state.left(err) // also of a connection that broke before it was handed out
	}
	return cmd.Result()
}

// process gives the command's own error where the client returns before it is there
// (AsyncAutoPipeline).
func (r *Runner) process(ctx context.Context, cmd *command) error {
	if err := r.client.Process(ctx, cmd); err != nil {
		return err
	}
	return cmd.Err()
}

// sleep pauses for d. It is false when ctx ends first, and when no time would be
// left for another send: then it sleeps until the end.
func sleep(ctx context.Context, d time.Duration, end time.Time) bool {
	left := time.Until(end)
	again := left > d+lastSend
	if !again {
		d = left
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return again
	}
}
