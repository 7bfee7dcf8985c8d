package script

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// command is sent once: without NoRetry go-redis would send a script again
// after a lost reply, and nobody would know that it ran twice.
type command struct {
	*redis.Cmd
	state *sendState
}

func (command) NoRetry() bool { return true }

func (c command) Clone() redis.Cmder { return command{c.Cmd.Clone().(*redis.Cmd), c.state} }

// Args are the command's words. go-redis asks for them when it writes them to a
// connection; those of a send that was withdrawn before are a PING's.
func (c command) Args() []any {
	if c.state.write() {
		return c.Cmd.Args()
	}
	return []any{"ping"}
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

func newCommand(ctx context.Context, state *sendState, name, payload string, keys []string, args []any) command {
	words := make([]any, 0, 3+len(keys)+len(args))
	words = append(words, name, payload, len(keys))
	for _, key := range keys {
		words = append(words, key)
	}
	words = append(words, args...)
	cmd := redis.NewCmd(ctx, words...)
	cmd.SetFirstKeyPos(3)
	return command{cmd, state}
}
