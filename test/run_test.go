package test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
	"github.com/go-lynx/lynx-redis-lock/test/check"
	"github.com/go-lynx/lynx-redis-lock/test/client"
	"github.com/go-lynx/lynx-redis-lock/test/history"
	"github.com/go-lynx/lynx-redis-lock/test/nemesis"
)

// roleEnv makes this test binary a client process of a run.
const roleEnv = "REDISLOCK_JEPSEN_CLIENT"

func TestMain(m *testing.M) {
	if os.Getenv(roleEnv) != "" {
		client.Run()
		return
	}
	client.Quiet()
	os.Exit(m.Run())
}

// The locks of a run. The published version knows nothing of TokenClock.
var keys = []client.Key{{Name: "counter-a"}, {Name: "clock-b", Clock: true}, {Name: "counter-c"}, {Name: "clock-d", Clock: true}}

func names() (all []string) {
	for _, k := range keys {
		all = append(all, k.Name)
	}
	return all
}

// round is one run against one kind of servers.
type round struct {
	name   string
	start  func(tb testing.TB) *nemesis.Servers
	leases []time.Duration
	weight int // of the whole time
}

var rounds = []round{
	{"standalone", func(tb testing.TB) *nemesis.Servers { return nemesis.Standalone(tb, false) }, short, 2},
	{"aof", func(tb testing.TB) *nemesis.Servers { return nemesis.Standalone(tb, true) }, short, 2},
	{"sentinel", nemesis.Sentinel, long, 3},
	{"cluster", func(tb testing.TB) *nemesis.Servers { return nemesis.Cluster(tb, names()) }, long, 3},
}

// A failover takes some 2 s: of the long leases some outlive it.
var (
	short = []time.Duration{300 * time.Millisecond, 500 * time.Millisecond, 800 * time.Millisecond, 1200 * time.Millisecond}
	long  = []time.Duration{500 * time.Millisecond, 1200 * time.Millisecond, 3 * time.Second, 5 * time.Second}
)

const (
	ourClients  = 3
	ourThreads  = 8
	peerThreads = 4
	// searchLimit is far above what a part of a history takes; reaching it is a failure.
	searchLimit = time.Minute
)

// run plays one round and checks its history, of which dir has the files.
func (r round) run(t *testing.T, dir string, d time.Duration, seed uint64, only []string) *check.Report {
	servers := r.start(t)
	register := redistest.Start(t)
	var victims []*nemesis.Victim
	var clients []*clientProcess
	files := []string{filepath.Join(dir, "nemesis.jsonl")}
	for i := range ourClients + 1 {
		cfg, v := r.client(t, servers, i, seed)
		cfg.Register, cfg.File = register.Addr(), filepath.Join(dir, cfg.Name+".jsonl")
		c := startClient(t, cfg)
		v.Process = c.cmd.Process
		victims, clients, files = append(victims, v), append(clients, c), append(files, cfg.File)
	}
	out, err := history.Create(files[0])
	if err != nil {
		t.Fatal(err)
	}
	longest := slices.Max(r.leases)
	n := nemesis.New(t, servers, victims, out, seed, min(longest, 1500*time.Millisecond), only)
	n.Run(d)
	for _, c := range clients {
		c.end(t)
	}
	n.Owned(names(), 2*longest+5*time.Second)
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	h, err := history.Read(files...)
	if err != nil {
		t.Fatal(err)
	}
	return check.History(h, searchLimit)
}

// client is the i'th client, behind proxies of its own. The last one is a peer.
func (r round) client(t *testing.T, servers *nemesis.Servers, i int, seed uint64) (client.Config, *nemesis.Victim) {
	t.Helper()
	cfg := client.Config{
		Name: fmt.Sprint("ours-", i), Seed: seed<<8 + uint64(i), Kind: servers.Kind, Addrs: servers.Addrs, Master: servers.Master,
		Via: map[string]string{}, Direct: servers.Direct, Threads: ourThreads, Keys: keys, Leases: r.leases,
	}
	if i == ourClients {
		cfg.Name, cfg.Peer, cfg.Threads = "peer", true, peerThreads
	}
	v := &nemesis.Victim{Name: cfg.Name, Peer: cfg.Peer}
	for _, s := range servers.Data {
		p := redistest.StartProxy(t, s.Addr())
		cfg.Via[s.Addr()] = p.Addr()
		v.Proxies = append(v.Proxies, p)
	}
	return cfg, v
}

// clientProcess is a client, which ends with its standard input.
type clientProcess struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan error
}

func startClient(t *testing.T, cfg client.Config) *clientProcess {
	t.Helper()
	c := &clientProcess{cmd: exec.Command(os.Args[0]), ended: make(chan error, 1)}
	c.cmd.Env = append(os.Environ(), roleEnv+"=1")
	c.cmd.Stdout, c.cmd.Stderr = os.Stderr, os.Stderr
	stdin, err := c.cmd.StdinPipe()
	if err == nil {
		err = c.cmd.Start()
	}
	if err == nil {
		err = json.NewEncoder(stdin).Encode(cfg)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.stdin = stdin
	gone := make(chan struct{})
	go func() { // ends with the process
		defer close(gone)
		c.ended <- c.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Signal(syscall.SIGKILL)
		<-gone
	})
	return c
}

// end lets the client give up what it holds.
func (c *clientProcess) end(t *testing.T) {
	t.Helper()
	_ = c.stdin.Close()
	select {
	case err := <-c.ended:
		if err != nil {
			t.Errorf("a client ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Errorf("a client does not end")
		_ = c.cmd.Process.Signal(syscall.SIGQUIT) // its goroutines say why
		time.Sleep(time.Second)
	}
}
