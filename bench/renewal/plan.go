package renewal

import (
	"context"
	"time"

	"github.com/go-lynx/lynx-redis-lock/bench/measure"
)

// SlowTrip is how much longer a round trip takes on the longer way.
const SlowTrip = 20 * time.Millisecond

// Plan is how much of everything.
type Plan struct {
	RoundLocks, Rounds int
	RoundTTL           time.Duration

	KeeperLocks int
	KeeperTTL   time.Duration
	ManyLocks   int
	ManyTTL     time.Duration
	SlowLocks   int
	SlowTTL     time.Duration
	Hold        time.Duration

	Few, Many int
	Idle      time.Duration
}

// Full is what the goals are about.
func Full() Plan {
	return Plan{
		RoundLocks: 10_000, Rounds: 3, RoundTTL: 20 * time.Second,
		KeeperLocks: 50_000, KeeperTTL: 3 * time.Second, ManyLocks: 100_000, ManyTTL: 10 * time.Second,
		SlowLocks: 500, SlowTTL: 3 * time.Second, Hold: time.Minute,
		Few: 1000, Many: 100_000, Idle: 20 * time.Second,
	}
}

// Quick tries that everything works.
func Quick() Plan {
	return Plan{
		RoundLocks: 100, Rounds: 1, RoundTTL: 3 * time.Second,
		KeeperLocks: 100, KeeperTTL: time.Second, ManyLocks: 200, ManyTTL: 2 * time.Second,
		SlowLocks: 50, SlowTTL: time.Second, Hold: 1500 * time.Millisecond,
		Few: 10, Many: 200, Idle: 100 * time.Millisecond,
	}
}

// Standalone is everything, on one server.
func (p Plan) Standalone(ctx context.Context, r *Rig, server Freezer, progress func(string)) (run Run, err error) {
	if run, err = p.Cluster(ctx, r, server, progress); err != nil {
		return run, err
	}
	run.Topology = "Standalone"
	progress("many locks")
	many, err := r.Hold(ctx, Contestant{Ours, openOurs}, p.ManyLocks, p.ManyTTL, p.Hold)
	if err != nil {
		return run, err
	}
	run.Many = &many
	progress("a longer way")
	slow, err := p.slow(ctx, r)
	if err != nil {
		return run, err
	}
	run.Slow = &slow
	progress("none due")
	idle, err := r.Idle(ctx, p.Few, p.Many, p.Idle)
	run.Idle = &idle
	return run, err
}

// Cluster is what a Cluster is asked for: the round and the keepers.
func (p Plan) Cluster(ctx context.Context, r *Rig, servers Freezer, progress func(string)) (run Run, err error) {
	run.Topology = "Cluster of three primaries with a replica each"
	progress("rounds")
	if run.Rounds, err = r.Rounds(ctx, servers, p.RoundLocks, p.Rounds, p.RoundTTL); err != nil {
		run.RoundFailure = err.Error()
	}
	for _, c := range Contestants() {
		progress(c.Name)
		h, err := r.Hold(ctx, c, p.KeeperLocks, p.KeeperTTL, p.Hold)
		if err != nil {
			return run, err
		}
		run.Keepers = append(run.Keepers, h)
	}
	return run, nil
}

// slow is the hold over a delay line in front of a standalone server.
func (p Plan) slow(ctx context.Context, r *Rig) (Held, error) {
	line, err := NewDelayLine(r.Addrs[0], SlowTrip/2)
	if err != nil {
		return Held{}, err
	}
	defer line.Close()
	far := &Rig{Target{Addrs: []string{line.Addr()}}, measure.NewServer(r.Addrs[0])}
	defer far.Server.Close()
	return far.Hold(ctx, Contestant{Ours, openOurs}, p.SlowLocks, p.SlowTTL, p.Hold)
}
