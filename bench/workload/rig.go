package workload

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-lynx/lynx-redis-lock/bench/contestant"
	"github.com/go-lynx/lynx-redis-lock/bench/measure"
)

// warmUp comes before each window: connections are dialled, scripts loaded.
const warmUp = 15 * time.Millisecond

// Rig runs the windows of one contestant in this process. It keeps its connections
// from window to window.
type Rig struct {
	contestant contestant.Contestant
	session    contestant.Session
	addr       string
	server     *measure.Server
	split      measure.Split
}

// keysMade counts those of all rigs: no window is to meet the keys of another, which
// a process that has ended may still hold.
var keysMade atomic.Int64

func nextKey() string { return fmt.Sprintf("bench-key-%010d", keysMade.Add(1)) } // 20 bytes

// NewRig connects, and lets MONITOR tell which commands come from scripts.
func NewRig(c contestant.Contestant, addr string, server *measure.Server) (*Rig, error) {
	session, err := c.Open(addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	r := &Rig{contestant: c, session: session, addr: addr, server: server}
	r.split, err = server.Watch(func() error {
		w, _, err := r.window(Spec{Workers: 2, Window: 60 * time.Millisecond, Free: c.NoLock || c.Once})
		if err == nil {
			w.run(func() {})
		}
		return err
	})
	return r, err
}

// Name is the contestant's.
func (r *Rig) Name() string { return r.contestant.Name }

// Close ends the connections.
func (r *Rig) Close() { _ = r.session.Close() }

// Run is one window of the situation.
func (r *Rig) Run(ctx context.Context, spec Spec) (Sample, error) {
	if spec.Processes > 1 {
		return r.runProcesses(ctx, spec)
	}
	w, _, err := r.window(Spec{Workers: spec.Workers, Free: true, Window: warmUp})
	if err != nil {
		return Sample{}, err
	}
	w.run(func() {})
	w, shared, err := r.window(spec)
	if err != nil {
		return Sample{}, err
	}
	meter := meter{ctx: ctx, server: r.server, split: r.split}
	s := w.run(meter.read)
	for _, sh := range shared {
		s.Overlaps += sh.overlaps.Load()
	}
	return s, meter.into(&s)
}

// window makes workers, on a lock each if they are to be free, else all on one.
func (r *Rig) window(spec Spec) (*window, []*Shared, error) {
	w := &window{spec: spec, forever: spec.Free && !r.contestant.Sleeps}
	var all []*Shared
	key := ""
	for i := range spec.Workers {
		if spec.Free || i == 0 {
			key = nextKey()
			all = append(all, &Shared{})
		}
		l, err := r.session.Locker(key)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", r.Name(), err)
		}
		w.workers = append(w.workers, &worker{window: w, id: int64(i + 1), locker: l, shared: all[len(all)-1]})
	}
	return w, all, nil
}

// meter reads the server's counters at the start and the end of a window.
type meter struct {
	ctx    context.Context
	server *measure.Server
	split  measure.Split

	cpu      []time.Duration
	commands []measure.Commands
	err      error
}

func (m *meter) read() {
	commands, err := m.server.Commands(m.ctx)
	if err != nil {
		m.err = err
	}
	cpu, err := m.server.CPU(m.ctx)
	if err != nil {
		m.err = err
	}
	m.commands, m.cpu = append(m.commands, commands), append(m.cpu, cpu)
}

// into fills in the difference of the two readings.
func (m *meter) into(s *Sample) error {
	if m.err != nil {
		return m.err
	}
	s.ServerCPU = m.cpu[1] - m.cpu[0]
	s.OnWire, s.InScript = m.split.Of(m.commands[1].Since(m.commands[0]))
	return nil
}
