package bench

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/go-lynx/lynx-redis-lock/bench/contestant"
	"github.com/go-lynx/lynx-redis-lock/bench/measure"
	"github.com/go-lynx/lynx-redis-lock/bench/report"
	"github.com/go-lynx/lynx-redis-lock/bench/workload"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// TestSpeed lets all contestants do all that Plan says, on one server, in turns.
func TestSpeed(t *testing.T) {
	start, load := time.Now(), report.Load()
	plan, held := workload.Plan(), 10_000
	if !*full {
		plan, held = workload.Quick(plan), 100
	}
	b := newBench(t)
	var run report.Speed
	for _, cell := range plan {
		if strings.Contains(cell.Name(), *only) {
			progress("%s", cell.Name())
			run.Series = append(run.Series, b.play(t, cell))
		}
	}
	if strings.Contains("memory", *only) {
		progress("memory")
		for _, c := range contestant.Held() {
			w, err := workload.Weigh(t.Context(), c, b.addr, b.server, held)
			if err != nil {
				t.Fatal(err)
			}
			run.Weights = append(run.Weights, w)
		}
	}
	publish(t, "speed", "make bench", b.server.Version(t.Context()), load, start,
		report.Legend+"\n"+run.Markdown())
}

// bench is one server with everybody's connections to it.
type bench struct {
	addr   string
	server *measure.Server
	rigs   map[string]*workload.Rig
	order  *rand.Rand // the same in each run
}

func newBench(t *testing.T) *bench {
	t.Helper()
	addr := redistest.Start(t).Addr()
	order := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // nobody is to be surprised by it
	b := &bench{addr: addr, server: measure.NewServer(addr), rigs: map[string]*workload.Rig{}, order: order}
	t.Cleanup(b.server.Close)
	return b
}

// rig is a contestant's, made when it is needed first.
func (b *bench) rig(t *testing.T, c contestant.Contestant) *workload.Rig {
	t.Helper()
	r := b.rigs[c.Name]
	if r == nil {
		var err error
		if r, err = workload.NewRig(c, b.addr, b.server); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Close)
		b.rigs[c.Name] = r
	}
	return r
}

// play gives each contestant a window in each round, in an order of its own, so that
// nobody always follows the same one: what one has left to do slows the next down.
func (b *bench) play(t *testing.T, cell workload.Cell) *report.Series {
	t.Helper()
	s := &report.Series{Spec: cell.Spec, Contestants: cell.Contestants, Samples: map[string][]workload.Sample{}}
	for range cell.Rounds {
		for _, i := range b.order.Perm(len(cell.Contestants)) {
			c := cell.Contestants[i]
			sample, err := b.rig(t, c).Run(t.Context(), cell.Spec)
			if err != nil {
				t.Fatalf("%s, %s: %v", cell.Name(), c.Name, err)
			}
			b.judge(t, cell, c, sample)
			s.Samples[c.Name] = append(s.Samples[c.Name], sample)
		}
	}
	if err := b.server.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// judge fails the test when a lock did not lock: such a figure means nothing.
func (b *bench) judge(t *testing.T, cell workload.Cell, c contestant.Contestant, s workload.Sample) {
	t.Helper()
	if s.Overlaps != 0 && !c.NoLock {
		t.Errorf("%s, %s: two at once inside, %d times", cell.Name(), c.Name, s.Overlaps)
	}
	if s.Failures != 0 && c.Kind == contestant.Ours {
		t.Errorf("%s, %s: %d workers failed: %s", cell.Name(), c.Name, s.Failures, s.Failure)
	}
	if s.Failures != 0 {
		progress("%s: %d workers failed: %s", c.Name, s.Failures, s.Failure)
	}
}
