package redistest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

const startTries = 20

// Server is one redis-server process on a loopback port, private to a test.
// Its methods may be called from any goroutine, except that those which take a
// testing.TB belong on the goroutine of that test, as tb.Fatal does.
type Server struct {
	// Fixed by Start.
	bin      string
	dir      string
	port     int
	portFlag string // the option that takes the port: "--port", or TLS's
	conf     string // a configuration file that Redis may rewrite, or ""
	args     []string
	env      []string // further variables of the process

	// mu guards the rest, and is held over a start or a stop, so that a Stop
	// that overlaps a Restart finds the new process.
	mu     sync.Mutex
	proc   *process // nil while stopped
	frozen bool
	outage outage
}

// Start runs a redis-server (7.0 or later) that lives until the test ends. It
// persists nothing; args are further command-line options and win over the
// defaults, for example "--appendonly", "yes". It fails the test, and never
// skips it, when there is no redis-server on the PATH.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	s := newServer(tb, args)
	s.launch(tb)
	return s
}

// newServer makes the folder, so that files can be put there before launch.
func newServer(tb testing.TB, args []string) *Server {
	tb.Helper()
	s := &Server{bin: lookServer(tb), portFlag: "--port", args: slices.Clone(args)}
	// Not tb.TempDir: its path holds the test's name and can exceed the 104
	// bytes that the path of a Unix socket may have.
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		tb.Fatalf("redistest: %v", err)
	}
	s.dir = dir
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return s
}

// launch finds the server a port and starts it for the rest of the test.
func (s *Server) launch(tb testing.TB) {
	tb.Helper()
	var err error
	for range startTries {
		if s.port, err = ports.take(); err != nil {
			tb.Fatal(err)
		}
		if err = s.start(); err == nil {
			tb.Cleanup(func() { s.Stop(); ports.free(s.port) })
			return
		}
		ports.free(s.port)
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	tb.Fatalf("starting %s: %v", s.bin, err)
}

// Addr is the server's host:port. It stays the same over Stop and Restart.
func (s *Server) Addr() string { return hostPort(s.port) }

// Client returns a go-redis client of the server that is closed with the test.
// ContextTimeoutEnabled is on, because without it a context's deadline does not
// bind a command; each mod may change that and everything else.
func (s *Server) Client(tb testing.TB, mod ...func(*redis.Options)) *redis.Client {
	tb.Helper()
	opts := &redis.Options{Addr: s.Addr(), ContextTimeoutEnabled: true}
	for _, m := range mod {
		m(opts)
	}
	c := redis.NewClient(opts)
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// Stop kills the server with SIGKILL, as a crash does, and returns when it is
// gone. A paused server dies too. Stopping a stopped server does nothing.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
}

// Restart kills the server if it runs and starts it again on the same port,
// with the same data folder and options. What was not persisted is gone.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
	if err := s.start(); err != nil {
		tb.Fatalf("restarting %s: %v", s.bin, err)
	}
}

// Pause freezes the server with SIGSTOP: the kernel goes on accepting
// connections and bytes for it, and nothing is answered until Resume. It
// panics when the server does not run, since a fault that silently did not
// happen would let the test pass.
func (s *Server) Pause() { s.signal("pause", true, (*process).pause) }

// Resume lets a paused server go on, first with what piled up meanwhile.
func (s *Server) Resume() { s.signal("resume", false, (*process).resume) }

func (s *Server) signal(verb string, freeze bool, send func(*process) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		panic("redistest: " + verb + " of a server that was stopped")
	}
	if freeze {
		s.outage = newOutage() // before the signal: the server may be missed from then on
	}
	if err := send(s.proc); err != nil {
		panic("redistest: " + verb + ": " + err.Error())
	}
	s.frozen = freeze
}

// start is called with mu held, or before the server is shared.
func (s *Server) start() error {
	socket, logFile := s.socket(), filepath.Join(s.dir, "log")
	_ = os.Remove(logFile) // each start is judged by its own log
	args := append([]string{
		"--bind", loopback, s.portFlag, strconv.Itoa(s.port),
		"--unixsocket", socket, "--dir", s.dir,
		"--save", "", "--appendonly", "no", "--enable-debug-command", "local",
	}, s.args...)
	if s.conf != "" {
		args = append([]string{s.conf}, args...) // Redis wants it first
	}
	proc, err := startProcess(s.bin, s.dir, logFile, args, s.env)
	if err != nil {
		return err
	}
	if err := waitReady(proc, socket, logFile); err != nil {
		proc.stop()
		return err
	}
	if err := s.recordVersion(); err != nil {
		proc.stop()
		return err
	}
	s.proc = proc
	return nil
}

// stop is called with mu held.
func (s *Server) stop() {
	if s.proc != nil {
		if !s.frozen {
			s.outage = newOutage() // before the signal, as in signal
		}
		s.proc.stop()
		s.proc, s.frozen = nil, false
	}
}

func (s *Server) socket() string { return filepath.Join(s.dir, "sock") }

func lookServer(tb testing.TB) string {
	tb.Helper()
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		tb.Fatalf("these tests need redis-server 7.0 or later on the PATH; install it "+
			"(Debian and Ubuntu: apt-get install redis-server): %v", err)
	}
	return bin
}
