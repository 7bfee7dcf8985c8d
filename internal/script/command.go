package script

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// A command has room itself for so many keys and arguments, and for the texts of so many
// arguments: those of a hand-over.
const (
	fewWords = 12
	fewArgs  = 7
)

// command is sent once: without NoRetry go-redis would send a script again
// after a lost reply, and nobody would know that it ran twice.
//
// Its arguments are pointers to strings, which go-redis takes like strings, because a
// string in an interface is a piece of memory of its own. The keys are strings, for the
// application's hooks.
type command struct {
	*redis.Cmd
	state *sendState
	args  []any
}

// roomy is a command in one piece of memory, but for go-redis's part, with all that a
// send of one needs.
type roomy struct {
	command
	own   sendState
	until deadline
	texts [fewArgs]string
	words [noKeys + fewWords]any
}

func (*command) NoRetry() bool { return true }

func (c *command) Clone() redis.Cmder {
	return &command{Cmd: c.Cmd.Clone().(*redis.Cmd), state: c.state, args: c.args}
}

// Args are the command's words. go-redis asks for them when it writes them to a
// connection; those of a send that was withdrawn before are a PING's.
func (c *command) Args() []any {
	if c.state.write() {
		return c.args
	}
	return []any{"ping"}
}

// pipeline sends the commands in one round trip, each of which then has its reply or
// its error. A hook may have kept that back: then it is the pipeline's.
func pipeline(ctx context.Context, client *redis.Client, cmds []*command) {
	pipe := client.Pipeline()
	for _, cmd := range cmds {
		_ = pipe.Process(ctx, cmd)
	}
	_, err := pipe.Exec(ctx)
	for _, cmd := range cmds {
		if err != nil && cmd.Err() == nil && cmd.Val() == nil {
			cmd.SetErr(err)
		}
	}
}

// sendState tells a send that is still without a connection, of which nothing can
// have run, from one that is on its way. A client that asks for the words earlier
// (a hook, a Cluster's router) makes it look written: that is the safe side.
type sendState struct{ atomic.Int32 }

const (
	unwritten int32 = iota
	written
	withdrawn
)

// write is false once the send was withdrawn.
func (s *sendState) write() bool {
	return s.CompareAndSwap(unwritten, written) || s.Load() == written
}

// rewind is for the second request of a send, after Redis did not know the first;
// false: it was withdrawn meanwhile.
func (s *sendState) rewind() bool {
	return s.CompareAndSwap(written, unwritten) || s.Load() == unwritten
}

// withdraw is true when nothing was written; nothing will be.
func (s *sendState) withdraw() bool {
	return s.CompareAndSwap(unwritten, withdrawn) || s.Load() == withdrawn
}

// left is the error of a send that its caller leaves behind.
func (s *sendState) left(err error) error {
	if s.withdraw() {
		return errors.Join(errUnwritten, err)
	}
	return err
}

// fill makes the command that runs a script, by its name (EVALSHA) or its text (EVAL).
func (c *command) fill(ctx context.Context, state *sendState, words []any) {
	c.state, c.args = state, words
	c.Cmd = redis.NewCmd(ctx, words...)
	c.SetFirstKeyPos(noKeys)
}

// fill keeps nothing of the caller's.
func (c *roomy) fill(ctx context.Context, state *sendState, verb, script any, keys, args []string) {
	words := c.words[:0]
	if n := len(keys) + len(args); n > fewWords {
		words = make([]any, 0, n+noKeys)
	}
	c.command.fill(ctx, state, appendWords(words, verb, script, keys, append(c.texts[:0], args...)))
}

// noKeys is how many words a command has before its keys.
const noKeys = 3

// appendWords appends the words of such a command. The arguments stay where they are.
func appendWords(words []any, verb, script any, keys, args []string) []any {
	words = append(words, verb, script, len(keys))
	for _, key := range keys {
		words = append(words, key)
	}
	for i := range args {
		words = append(words, &args[i])
	}
	return words
}
