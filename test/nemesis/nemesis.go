// Package nemesis starts the servers of a run and does them, the network and the
// clients whatever harm its seed says, and writes down what and when.
package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
	"github.com/go-lynx/lynx-redis-lock/test/history"
)

// Victim is a client process and its network.
type Victim struct {
	Name    string
	Peer    bool // its requests count: never send them twice
	Process *os.Process
	Proxies []*redistest.Proxy // one in front of each server
}

// move is one kind of harm.
type move struct {
	name   string
	weight int
	do     func(n *Nemesis)
}

// Nemesis belongs to the goroutine of its test, as redistest's servers do.
type Nemesis struct {
	tb      testing.TB
	servers *Servers
	victims []*Victim
	out     *history.Writer
	rng     *rand.Rand
	moves   []move
	lease   time.Duration
	heals   []heal
	ahead   time.Duration // of the server's clock
}

// heal undoes a lasting harm when its time has come.
type heal struct {
	at    time.Time
	event history.Event
	undo  func()
}

// New makes a nemesis. only: the names of the moves it may make; empty: all that the
// servers know. lease is about the longest lease of the clients.
func New(tb testing.TB, servers *Servers, victims []*Victim, out *history.Writer, seed uint64, lease time.Duration, only []string) *Nemesis {
	n := &Nemesis{
		tb: tb, servers: servers, victims: victims, out: out, lease: lease, rng: rand.New(rand.NewPCG(seed, 1)),
	}
	for _, m := range slices.Concat(clientMoves, servers.moves) {
		if len(only) == 0 || slices.Contains(only, m.name) {
			n.moves = append(n.moves, m)
		}
	}
	if len(n.moves) == 0 {
		tb.Fatalf("no moves named %q on %s", only, servers.Name)
	}
	return n
}

// Run does harm for so long, and heals it all.
func (n *Nemesis) Run(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		n.pick().do(n)
		for calm := time.Now().Add(n.between(50*time.Millisecond, 600*time.Millisecond)); time.Now().Before(calm); {
			n.heal(time.Now())
			time.Sleep(5 * time.Millisecond)
		}
	}
	n.heal(time.Now().Add(time.Hour))
	n.servers.heal(n.tb)
}

func (n *Nemesis) pick() move {
	total := 0
	for _, m := range n.moves {
		total += m.weight
	}
	k := n.rng.IntN(total)
	for _, m := range n.moves {
		if k -= m.weight; k < 0 {
			return m
		}
	}
	panic("not reached")
}

func (n *Nemesis) between(low, high time.Duration) time.Duration {
	return low + time.Duration(n.rng.Int64N(int64(high-low)))
}

// event does something at once and writes it down.
func (n *Nemesis) event(kind, on, loses string, do func()) {
	e := history.Event{Kind: kind, On: on, Loses: loses, Start: history.Now()}
	do()
	e.End = history.Now()
	n.out.Put(history.Line{Event: &e})
}

// lasting does something now and undoes it d later, while the nemesis goes on.
func (n *Nemesis) lasting(kind, on string, d time.Duration, do, undo func()) {
	e := history.Event{Kind: kind, On: on, Start: history.Now(), Note: d.String()}
	do()
	n.heals = append(n.heals, heal{time.Now().Add(d), e, undo})
}

func (n *Nemesis) heal(now time.Time) {
	n.heals = slices.DeleteFunc(n.heals, func(h heal) bool {
		if h.at.After(now) {
			return false
		}
		h.undo()
		h.event.End = history.Now()
		n.out.Put(history.Line{Event: &h.event})
		return true
	})
}

// busy says whether something lasting is done to it already.
func (n *Nemesis) busy(on string) bool {
	return slices.ContainsFunc(n.heals, func(h heal) bool { return h.event.On == on })
}

// each runs a command on all primaries, past the proxies. A frozen one goes on before:
// it would not answer.
func (n *Nemesis) each(words ...any) {
	for _, s := range n.servers.primaries(n.tb) {
		n.thaw(s)
		c := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1})
		if err := c.Do(context.Background(), words...).Err(); err != nil {
			n.tb.Errorf("%v at %s: %v", words, s.Addr(), err)
		}
		_ = c.Close()
	}
}

// Owned waits until no owner key stands, and notes those that still do. The clients
// have ended.
func (n *Nemesis) Owned(keys []string, patience time.Duration) {
	if n.servers.clock != nil { // a lease that began under a clock far ahead runs out only there
		n.servers.clock.Step(n.tb, maxStep)
	}
	client := n.servers.client(n.tb)
	defer func() { _ = client.Close() }()
	ctx := context.Background()
	for _, key := range keys {
		for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			value, err := client.Get(ctx, "{lynx:lock:"+key+"}:owner").Result()
			if errors.Is(err, redis.Nil) {
				break
			}
			if time.Now().After(end) {
				n.out.Put(history.Line{Owned: fmt.Sprintf("%s by %q (%v)", key, value, err)})
				break
			}
		}
	}
}
