package nemesis

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
	"github.com/go-lynx/lynx-redis-lock/test/history"
)

// Servers are what a run is against.
type Servers struct {
	Name, Kind string
	Addrs      []string // for the clients
	Master     string
	Direct     string              // of a standalone server
	Data       []*redistest.Server // which proxies stand in front of

	moves     []move
	clock     *redistest.ClockServer // nil: the clock is the machine's
	primaries func(testing.TB) []*redistest.Server
	heal      func(testing.TB)
	client    func(testing.TB) redis.UniversalClient
}

// Moves against servers.
const (
	FreezeMove     = "SIGSTOP of the server"
	RestartMove    = "kill and restart without persistence"
	RestartAOFMove = "kill and restart with appendfsync always"
	FlushAll       = "FLUSHALL"
	ClockForward   = "server clock forward"
	ClockBack      = "server clock back"
	SentinelKill   = "Sentinel: primary killed"
	SentinelOrder  = "SENTINEL FAILOVER"
	ClusterKill    = "Cluster: primary killed"
	ClusterOrder   = "CLUSTER FAILOVER"
	SlotMove       = "slot moved"
	HealMove       = "dead servers started again"
)

// maxStep bounds how far the server's clock is from the machine's.
const maxStep = 1500 * time.Millisecond

// Standalone starts one server. aof: with appendfsync always, so that a kill loses nothing.
func Standalone(tb testing.TB, aof bool) *Servers {
	var args []string
	name, restart := "standalone", move{RestartMove, 2, func(n *Nemesis) { n.restart(RestartMove, history.All) }}
	if aof {
		args = []string{"--appendonly", "yes", "--appendfsync", "always"}
		name, restart = "standalone with AOF", move{RestartAOFMove, 4, func(n *Nemesis) { n.restart(RestartAOFMove, history.Keeps) }}
	}
	clock := redistest.StartWithClock(tb, args...)
	return &Servers{
		Name: name, Kind: "standalone", Addrs: []string{clock.Addr()}, Direct: clock.Addr(), Data: []*redistest.Server{clock.Server},
		clock:     clock,
		moves:     []move{restart, {FreezeMove, 3, (*Nemesis).freeze}, {FlushAll, 2, (*Nemesis).flushAll}, {ClockForward, 3, (*Nemesis).step}},
		primaries: func(testing.TB) []*redistest.Server { return []*redistest.Server{clock.Server} },
		heal:      func(testing.TB) {},
		client:    func(tb testing.TB) redis.UniversalClient { return clock.Client(tb) },
	}
}

func (n *Nemesis) restart(kind, loses string) {
	s := n.servers.Data[0]
	n.event(kind, s.Addr(), loses, func() { n.thaw(s); s.Restart(n.tb) })
}

// thaw undoes a freeze before its time: a server that is started again is not frozen.
func (n *Nemesis) thaw(s *redistest.Server) {
	for i := range n.heals {
		if n.heals[i].event.On == s.Addr() {
			n.heals[i].at = time.Time{}
		}
	}
	n.heal(time.Unix(1, 0))
}

// freeze is for less than a lease or for more; nothing is lost.
func (n *Nemesis) freeze() {
	s := n.servers.Data[0]
	if !n.busy(s.Addr()) {
		n.lasting(FreezeMove, s.Addr(), n.between(20*time.Millisecond, n.lease*3/2), s.Pause, s.Resume)
	}
}

func (n *Nemesis) flushAll() {
	n.event(FlushAll, "", history.All, func() { n.each("FLUSHALL") })
}

// step moves the clock to another offset. Forward, keys expire early.
func (n *Nemesis) step() {
	ahead := n.between(-maxStep, maxStep)
	kind, loses := ClockBack, history.Keeps
	if ahead > n.ahead {
		kind, loses = ClockForward, history.Some
	}
	n.event(kind, (ahead - n.ahead).String(), loses, func() {
		n.servers.clock.Step(n.tb, ahead)
		time.Sleep(5 * time.Millisecond) // until the server looks at it: its cached time is a few ms old
	})
	n.ahead = ahead
}

// Sentinel starts a primary, two replicas and three Sentinels.
func Sentinel(tb testing.TB) *Servers {
	s := redistest.StartSentinel(tb)
	kill := func(n *Nemesis) {
		n.event(SentinelKill, "", history.Last, func() { s.AwaitFailover(n.tb, s.KillPrimary(n.tb)) })
		n.event(HealMove, "", history.Keeps, func() { s.Heal(n.tb) })
	}
	order := func(n *Nemesis) {
		n.event(SentinelOrder, "", history.Some, func() { s.Failover(n.tb) })
	}
	return &Servers{
		Name: "Sentinel", Kind: "sentinel", Addrs: s.Addrs(), Master: s.MasterName(), Data: s.Servers(),
		moves:     []move{{SentinelKill, 4, kill}, {SentinelOrder, 4, order}, {FlushAll, 1, (*Nemesis).flushAll}},
		primaries: func(tb testing.TB) []*redistest.Server { return []*redistest.Server{s.Primary(tb)} },
		heal:      func(tb testing.TB) { s.Heal(tb) },
		client:    func(tb testing.TB) redis.UniversalClient { return s.Client(tb) },
	}
}

// Cluster starts three primaries with a replica each. The moves hit the shard of one
// of the keys.
func Cluster(tb testing.TB, keys []string) *Servers {
	c := redistest.StartCluster(tb)
	some := func(n *Nemesis) string { return "{lynx:lock:" + keys[n.rng.IntN(len(keys))] + "}:owner" }
	primaries := func(tb testing.TB) (all []*redistest.Server) {
		for _, probe := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			all = appendNew(all, c.PrimaryFor(tb, probe))
		}
		return all
	}
	kill := func(n *Nemesis) {
		key := some(n)
		n.event(ClusterKill, key, history.Last, func() { c.AwaitFailover(n.tb, key, c.KillPrimaryFor(n.tb, key)) })
		n.event(HealMove, "", history.Keeps, func() { c.Heal(n.tb) })
	}
	order := func(n *Nemesis) {
		n.event(ClusterOrder, "", history.Keeps, func() { c.Failover(n.tb, some(n)) })
	}
	slot := func(n *Nemesis) {
		key := some(n)
		from := c.PrimaryFor(n.tb, key)
		for _, to := range primaries(n.tb) {
			if to != from {
				n.event(SlotMove, "", history.Keeps, func() { n.moveSlot(c, key, to) })
				n.event(SlotMove, "back", history.Keeps, func() { n.moveSlot(c, key, from) })
				return
			}
		}
	}
	return &Servers{
		Name: "Cluster", Kind: "cluster", Addrs: c.Addrs(), Data: c.Servers(),
		moves:     []move{{ClusterKill, 3, kill}, {ClusterOrder, 4, order}, {SlotMove, 5, slot}, {FlushAll, 1, (*Nemesis).flushAll}},
		primaries: primaries,
		heal:      func(tb testing.TB) { c.Heal(tb) },
		client:    func(tb testing.TB) redis.UniversalClient { return c.Client(tb) },
	}
}

// moveSlot takes its time between the two ends of the move.
func (n *Nemesis) moveSlot(c *redistest.Cluster, key string, to *redistest.Server) {
	m := c.BeginMove(n.tb, c.Slot(key), to)
	time.Sleep(n.between(0, 300*time.Millisecond))
	m.Finish(n.tb)
}

func appendNew(all []*redistest.Server, s *redistest.Server) []*redistest.Server {
	for _, known := range all {
		if known == s {
			return all
		}
	}
	return append(all, s)
}
