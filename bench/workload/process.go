package workload

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/go-lynx/lynx-redis-lock/bench/contestant"
)

// ChildVariable in the environment makes this binary one process of a workload.
const ChildVariable = "LYNX_BENCH_CHILD"

// childOrder is the first line on a child's standard input. It answers with a line
// when it is ready, starts its window at the second line, and writes its Sample.
type childOrder struct {
	Contestant, Addr, Key, Shared string
	Process                       int
	Spec                          Spec
}

// RunChild is the main function of such a process.
func RunChild() error {
	in := json.NewDecoder(os.Stdin)
	var order childOrder
	if err := in.Decode(&order); err != nil {
		return err
	}
	c := contestant.ByName(order.Contestant)
	if c == nil {
		return fmt.Errorf("no contestant %q", order.Contestant)
	}
	session, err := c.Open(order.Addr)
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }()
	shared, unmap, err := MapShared(order.Shared)
	if err != nil {
		return err
	}
	defer unmap()
	warm := order
	warm.Spec = Spec{Workers: 1, Window: warmUp}
	warm.Key = fmt.Sprintf("%s-warm-%d", order.Key, order.Process)
	if _, err := warm.play(session, &Shared{}, func() error { return nil }); err != nil {
		return err
	}
	s, err := order.play(session, shared, func() error {
		fmt.Println(`"ready"`)
		var line string
		return in.Decode(&line)
	})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(s)
}

func (o *childOrder) play(session contestant.Session, shared *Shared, ready func() error) (Sample, error) {
	w := &window{spec: o.Spec}
	for i := range o.Spec.Workers {
		l, err := session.Locker(o.Key)
		if err != nil {
			return Sample{}, err
		}
		id := int64(o.Process*o.Spec.Workers + i + 1)
		w.workers = append(w.workers, &worker{window: w, id: id, locker: l, shared: shared})
	}
	if err := ready(); err != nil {
		return Sample{}, err
	}
	return w.run(func() {}), nil
}

// child is one process, seen from its parent.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

func startChild(ctx context.Context, order childOrder) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), ChildVariable+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &child{cmd, in, json.NewDecoder(bufio.NewReader(out))}, json.NewEncoder(in).Encode(order)
}

// runProcesses is one window in several processes, which start together once all
// are warm. The children end with it.
func (r *Rig) runProcesses(ctx context.Context, spec Spec) (all Sample, err error) {
	dir, err := os.MkdirTemp("", "lynx-bench-")
	if err != nil {
		return all, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "shared")
	shared, unmap, err := MapShared(file)
	if err != nil {
		return all, err
	}
	defer unmap()
	key := nextKey()
	ctx, cancel := context.WithCancel(ctx)
	var children []*child
	defer func() {
		cancel() // kills those that an error has left waiting
		for _, c := range children {
			_ = c.cmd.Wait()
		}
	}()
	for n := range spec.Processes {
		c, err := startChild(ctx, childOrder{
			Contestant: r.Name(), Addr: r.addr, Shared: file, Process: n, Spec: spec, Key: key,
		})
		if err != nil {
			return all, err
		}
		children = append(children, c)
	}
	meter := meter{ctx: ctx, server: r.server, split: r.split}
	if err := together(children, spec.Window, meter.read, &all); err != nil {
		return all, fmt.Errorf("%s in %d processes: %w", r.Name(), spec.Processes, err)
	}
	all.Overlaps = shared.overlaps.Load()
	return all, meter.into(&all)
}

// together starts the children's windows at once and joins what they saw. It reads
// when their time is up, since what they do to come to an end is not measured.
func together(children []*child, window time.Duration, read func(), all *Sample) error {
	for _, c := range children {
		var ready string
		if err := c.out.Decode(&ready); err != nil {
			return err
		}
	}
	read()
	for _, c := range children {
		if _, err := io.WriteString(c.in, "\"go\"\n"); err != nil {
			return err
		}
	}
	time.Sleep(window)
	read()
	for _, c := range children {
		var s Sample
		if err := c.out.Decode(&s); err != nil {
			return err
		}
		all.join(&s)
	}
	return nil
}
