package workload

import (
	"context"

	"github.com/go-lynx/lynx-redis-lock/bench/contestant"
	"github.com/go-lynx/lynx-redis-lock/bench/measure"
)

// Weight is what a held lock takes, on average, in bytes.
type Weight struct {
	Name          string
	Heap, Stack   float64 // in the process, with the handle that the program keeps
	Redis, Keys   float64 // MEMORY USAGE of all its keys
	LeftOf, LeftN float64 // bytes and keys that are still there after the release
}

// Weigh holds n locks of 20-byte keys on a server that it flushes before and after.
func Weigh(ctx context.Context, c contestant.Contestant, addr string, server *measure.Server, n int) (w Weight, err error) {
	session, err := c.Open(addr)
	if err != nil {
		return w, err
	}
	defer func() { _ = session.Close() }()
	if err := flushed(ctx, server, session); err != nil {
		return w, err
	}
	keys, held := make([]string, n), make([]contestant.Locker, n)
	for i := range keys {
		keys[i] = nextKey()
	}
	heap, stacks := measure.Live()
	for i := range held {
		if held[i], err = session.Locker(keys[i]); err != nil {
			return w, err
		}
		if err := held[i].Lock(ctx); err != nil {
			return w, err
		}
	}
	heapHeld, stacksHeld := measure.Live()
	count, bytes, err := server.Keyspace(ctx)
	if err != nil {
		return w, err
	}
	for _, l := range held {
		if err := l.Unlock(ctx); err != nil {
			return w, err
		}
	}
	left, leftBytes, err := server.Keyspace(ctx)
	if err != nil {
		return w, err
	}
	each := func(v int64) float64 { return float64(v) / float64(n) }
	return Weight{
		Name: c.Name, Heap: each(heapHeld - heap), Stack: each(stacksHeld - stacks),
		Redis: each(bytes), Keys: each(count), LeftOf: each(leftBytes), LeftN: each(left),
	}, server.Flush(ctx)
}

// flushed warms the session up and empties the server.
func flushed(ctx context.Context, server *measure.Server, session contestant.Session) error {
	l, err := session.Locker("warm-up")
	if err != nil {
		return err
	}
	if err := l.Lock(ctx); err != nil {
		return err
	}
	if err := l.Unlock(ctx); err != nil {
		return err
	}
	return server.Flush(ctx)
}
