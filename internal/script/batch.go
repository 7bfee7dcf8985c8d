package script

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lynx/lynx-redis-lock/internal/slot"
)

// Alone is the code of a part that a batch could not settle: it is to be asked for
// in a call of its own, which follows redirects and gives the error.
const Alone = 0

// Batch is one request for many locks, of a script that may run twice: it answers
// with one code for each part, and one part's trouble is no other's.
type Batch struct {
	Script  *Script
	Parts   []Part
	Timeout time.Duration // as that of a Call
}

// Part is one lock's share of a batch. All its keys are in one Cluster slot.
type Part struct {
	Keys []string
	Args []string
}

// Route is where a key's commands go at the moment. It can be compared: the parts
// of a batch should have the same.
type Route struct{ node *redis.Client }

// Route asks nobody but the client. Elsewhere than on a Cluster all are the same,
// and so are those of keys whose node is not known.
func (r *Runner) Route(key string) Route {
	if r.cluster == nil {
		return Route{}
	}
	// Ended: a client that had to look for its slots first would not do so now.
	node, err := r.cluster.MasterForKey(ended, key)
	if err != nil {
		return Route{}
	}
	return Route{node}
}

var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// RunBatch sends the batch, by the rules of Run. codes has one for each part, in
// order; it is nil when the batch as a whole got no answer, of which the result says
// what is known. A refusal of the whole leaves every part to be asked for alone.
func (r *Runner) RunBatch(ctx context.Context, batch Batch) (codes []int64, res Result) {
	if err := ctx.Err(); err != nil {
		return nil, Result{Err: err, NotRun: true}
	}
	call := Call{Script: batch.Script, Timeout: batch.Timeout}
	if r.cluster != nil {
		call.parts = batch.Parts
	} else {
		call.Keys, call.Args = joined(batch.Parts, nil)
	}
	value, res := r.deliver(ctx, call)
	if res.Err != nil && (res.NotRun || res.Unanswered) {
		return nil, res
	}
	codes = make([]int64, len(batch.Parts))
	if res.Err == nil {
		res.Err = batch.Script.codes(value, codes)
	}
	if res.Err != nil { // answered, but not for each
		clear(codes)
		res.Err = nil
	}
	return codes, res
}

// joined are the keys and arguments of the parts with these indices; nil: of all.
func joined(parts []Part, indices []int) (keys, args []string) {
	add := func(p Part) {
		keys = append(keys, p.Keys...)
		args = append(args, p.Args...)
	}
	if indices == nil {
		keys, args = make([]string, 0, len(parts)), make([]string, 0, len(parts)*3)
		for _, p := range parts {
			add(p)
		}
		return keys, args
	}
	if len(indices) == 1 {
		return parts[indices[0]].Keys, parts[indices[0]].Args
	}
	for _, i := range indices {
		add(parts[i])
	}
	return keys, args
}

// codes checks the reply of a script of many parts and fills one code for each in.
func (s *Script) codes(v any, into []int64) error {
	list, ok := v.([]any)
	if !ok || len(list) != len(into) {
		return fmt.Errorf("script %s: the reply is not a list of %d", s.name, len(into))
	}
	for i, code := range list {
		if into[i], ok = code.(int64); !ok {
			return fmt.Errorf("script %s: reply code %v is not an integer", s.name, code)
		}
	}
	return nil
}

// bySlot are the indices of the parts of each Cluster slot: a script takes the keys
// of one.
func bySlot(parts []Part) [][]int {
	slots, order := make([]uint16, len(parts)), make([]int, len(parts))
	for i, p := range parts {
		slots[i], order[i] = slot.Of(p.Keys[0]), i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(slots[a], slots[b]) })
	groups := make([][]int, 0, len(parts))
	for start, end := 0, 1; start < len(order); end++ {
		if end == len(order) || slots[order[end]] != slots[order[start]] {
			groups = append(groups, order[start:end])
			start = end
		}
	}
	slices.SortFunc(groups, func(a, b []int) int { return cmp.Compare(a[0], b[0]) }) // as urgent as before
	return groups
}

// pipelined is one send of a batch to a Cluster: to one node, with a command for
// each slot. It goes to the node's own client, since that of the Cluster would follow
// redirects, and pause before it does, while the other replies wait. The value has
// the parts' codes.
func (r *Runner) pipelined(ctx context.Context, call *Call, state *sendState) (any, error) {
	node, err := r.cluster.MasterForKey(ctx, call.parts[0].Keys[0])
	if err != nil {
		return nil, state.left(err)
	}
	groups := bySlot(call.parts)
	cmds := make([]command, len(groups))
	all := make([]int, len(groups))
	for g := range groups {
		all[g] = g
	}
	again := call.send(ctx, node, state, groups, cmds, all, verbSHA, call.Script.bySHA)
	if len(again) > 0 && state.rewind() { // NOSCRIPT
		call.send(ctx, node, state, groups, cmds, again, verbText, call.Script.byText)
	}
	value := make([]any, len(call.parts))
	for i := range value {
		value[i] = int64(Alone)
	}
	var refused error
	settled := 0
	for g, group := range groups {
		err := cmds[g].Err()
		switch {
		case err == nil && call.spread(cmds[g].Val(), group, value):
			settled++
		case err != nil && !isReply(err):
			return nil, state.left(err)
		case err != nil && refused == nil:
			refused = err
		}
	}
	if settled == 0 && refused != nil && !redirect(refused) {
		return nil, refused // the node's, not a lock's
	}
	return value, nil
}

// send sends the commands of the given groups in one pipeline, and returns those
// groups whose script the node does not know.
func (c *Call) send(ctx context.Context, node *redis.Client, state *sendState, groups [][]int, cmds []command, which []int, verb, script any) (unknown []int) {
	sent := make([]*command, len(which))
	var words []any // of all, in one piece of memory
	for i, g := range which {
		keys, args := joined(c.parts, groups[g])
		if n := noKeys + len(keys) + len(args); cap(words)-len(words) < n {
			words = make([]any, 0, n*(len(which)-i))
		}
		start := len(words)
		words = appendWords(words, verb, script, keys, args)
		cmds[g] = command{}
		cmds[g].fill(ctx, state, words[start:len(words):len(words)])
		sent[i] = &cmds[g]
	}
	pipeline(ctx, node, sent)
	for _, g := range which {
		if noScript(cmds[g].Err()) {
			unknown = append(unknown, g)
		}
	}
	return unknown
}

// spread puts a group's codes where its parts are; false: the reply has another shape.
func (c *Call) spread(v any, group []int, value []any) bool {
	list, ok := v.([]any)
	if !ok || len(list) != len(group) {
		return false
	}
	for k, i := range group {
		value[i] = list[k]
	}
	return true
}

// redirect says that a slot is, or may be, elsewhere: no matter of the node's.
func redirect(err error) bool {
	return redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK") || redis.HasErrorPrefix(err, "TRYAGAIN")
}
