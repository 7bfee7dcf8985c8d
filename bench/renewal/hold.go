package renewal

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/go-lynx/lynx-redis-lock/bench/measure"
)

// Rig is the servers, and a way to ask them.
type Rig struct {
	Target
	Server *measure.Server
}

// Held is how it went to keep locks for a while.
type Held struct {
	Name             string
	Locks            int
	TTL, Time        time.Duration
	Lost             int    // in Redis, or as the keeper was told
	Failure          string // why it was not measured
	CPU, RedisCPU    float64
	Commands         float64 // a second, in Redis, those of scripts included
	Bytes            float64 // heap and stacks in the process, per lock
	Goroutines       int     // more than before
	LatenessP99      time.Duration
	LatenessMeasured bool
}

// Hold takes n locks, keeps them for a while, and counts what is left. Taking and
// dropping are not measured.
func (r *Rig) Hold(ctx context.Context, c Contestant, n int, ttl, hold time.Duration) (h Held, err error) {
	if err := r.Server.Flush(ctx); err != nil {
		return h, err
	}
	keys := keysOf("bench-key", n) // the program's, not the keeper's
	heap, stacks := measure.Live()
	goroutines := runtime.NumGoroutine()
	k, err := c.Open(r.Target, ttl)
	if err != nil {
		return h, err
	}
	defer k.Drop(ctx)
	h = Held{Name: c.Name, Locks: n, TTL: ttl, Time: hold}
	if err := takeAll(ctx, k, keys); err != nil {
		h.Failure = fmt.Sprintf("taking them: %v", err)
		return h, nil // it is a result, of this keeper alone
	}
	if err := r.meter(ctx, &h, hold); err != nil {
		return h, err
	}
	client := r.Client()
	defer func() { _ = client.Close() }()
	gone, err := missing(ctx, client, k, keys)
	h.Lost = min(max(gone, k.ToldLost()), n)
	heapHeld, stacksHeld := measure.Live()
	h.Bytes = float64(heapHeld-heap+stacksHeld-stacks) / float64(n)
	h.Goroutines = runtime.NumGoroutine() - goroutines
	runtime.KeepAlive(keys)
	return h, err
}

// meter waits and says what was used meanwhile.
func (r *Rig) meter(ctx context.Context, h *Held, hold time.Duration) error {
	late := lateness()
	commands, err := r.Server.Commands(ctx)
	if err != nil {
		return err
	}
	redisCPU, err := r.Server.CPU(ctx)
	if err != nil {
		return err
	}
	before, start := measure.Used(), time.Now()
	time.Sleep(hold)
	took := time.Since(start)
	used := measure.Used().Since(before)
	redisAfter, err := r.Server.CPU(ctx)
	if err != nil {
		return err
	}
	after, err := r.Server.Commands(ctx)
	if err != nil {
		return err
	}
	h.CPU, h.RedisCPU = used.CPU.Seconds()/took.Seconds(), (redisAfter-redisCPU).Seconds()/took.Seconds()
	h.Commands = float64(after.Since(commands).Total()) / took.Seconds()
	h.LatenessP99, h.LatenessMeasured = lateness().since(late).percentile(99)
	return nil
}
