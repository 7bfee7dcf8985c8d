package redistest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// askTimeout bounds one administrative command. A server that is not frozen
	// answers in under a millisecond, a busy machine may take long to run it.
	askTimeout = 10 * time.Second

	// awaitTimeout is far above the 3 s a failover takes: it only has to end a
	// wait for something that will never happen.
	awaitTimeout = 60 * time.Second

	// watchInterval separates looks at a topology, each of which asks every
	// server. It is also the error of the measured failover times.
	watchInterval = 10 * time.Millisecond
)

// do runs one command as the administrator. It goes through the Unix socket,
// which is there for TLS servers and Sentinels too, and on a connection of its
// own: after failed dials go-redis's pool redials only once a second.
func (s *Server) do(args ...any) *redis.Cmd {
	c := redis.NewClient(&redis.Options{
		Network: "unix", Addr: s.socket(), Password: s.password(),
		Protocol: 2, DisableIdentity: true, PoolSize: 1,
		MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
	})
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	return c.Do(ctx, args...)
}

// must is do for a command that has no reason to fail.
func (s *Server) must(tb testing.TB, args ...any) {
	tb.Helper()
	if err := s.do(args...).Err(); err != nil {
		tb.Fatalf("redistest: %v at %s: %v", args, s.Addr(), err)
	}
}

// password is the default user's, if the server was started with one.
func (s *Server) password() string {
	if i := slices.Index(s.args, "--requirepass"); i >= 0 && i+1 < len(s.args) {
		return s.args[i+1]
	}
	return ""
}

// await polls until check returns nil, and fails the test with its last error
// if that never happens.
func await(tb testing.TB, what string, check func() error) {
	tb.Helper()
	deadline := time.Now().Add(awaitTimeout)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("redistest: after %v still waiting until %s: %v", awaitTimeout, what, err)
		}
		time.Sleep(watchInterval)
	}
}

// alive says whether the server can be expected to answer: it was not stopped,
// did not end by itself, and is not frozen.
func (s *Server) alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc != nil && !s.proc.ended() && !s.frozen
}

// thaw lets the server go on if it is frozen.
func (s *Server) thaw() {
	s.mu.Lock()
	frozen := s.proc != nil && !s.proc.ended() && s.frozen
	s.mu.Unlock()
	if frozen {
		s.Resume()
	}
}

// revive brings a server back that was frozen, stopped or has crashed, and says
// whether it had to be started.
func (s *Server) revive(tb testing.TB) (started bool) {
	tb.Helper()
	s.thaw()
	if s.alive() {
		return false
	}
	s.Restart(tb)
	return true
}

func aliveOf(servers []*Server) []*Server {
	return slices.DeleteFunc(slices.Clone(servers), func(s *Server) bool { return !s.alive() })
}

// byPort finds a server by the port that Redis named.
func byPort(servers []*Server, port string) *Server {
	i := slices.IndexFunc(servers, func(s *Server) bool { return strconv.Itoa(s.port) == port })
	if i < 0 {
		return nil
	}
	return servers[i]
}

// outage is the last time a server was killed, frozen or told to step down. It
// is kept in the server, so that a failover can be measured from its cause
// however the test brought it about.
type outage struct {
	since time.Time
	took  time.Duration // until a successor accepted writes; 0 while unknown
}

func newOutage() outage { return outage{since: time.Now()} }

// stepDown begins an outage of a server that goes on running.
func (s *Server) stepDown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outage = newOutage()
}

// mustBeOut fails the test if the server has had no outage, in which case it
// may be the primary for ever.
func (s *Server) mustBeOut(tb testing.TB) {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outage.since.IsZero() {
		tb.Fatalf("redistest: %s was never stopped, paused or failed over", s.Addr())
	}
}

// succeeded ends the outage, at the first call, and returns how long it was.
func (s *Server) succeeded() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outage.took == 0 {
		s.outage.took = time.Since(s.outage.since)
	}
	return s.outage.took
}

// replication is INFO replication.
func (s *Server) replication() (map[string]string, error) {
	text, err := s.do("INFO", "replication").Text()
	if err != nil {
		return nil, err
	}
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info, nil
}

// inSync says what is missing until replica has everything that primary had
// when it was asked, and primary counts it as online, as WAIT and
// min-replicas-to-write do.
func inSync(replica, primary *Server) error {
	p, err := primary.replication()
	if err != nil {
		return err
	}
	if !onlineAt(p, replica) {
		return fmt.Errorf("%s does not count %s as its replica", primary.Addr(), replica.Addr())
	}
	r, err := replica.replication()
	if err != nil {
		return err
	}
	if r["role"] != "slave" || r["master_port"] != strconv.Itoa(primary.port) || r["master_link_status"] != "up" {
		return fmt.Errorf("%s is %s of %s, link %s", replica.Addr(), r["role"], r["master_port"], r["master_link_status"])
	}
	want, err1 := strconv.ParseInt(p["master_repl_offset"], 10, 64)
	got, err2 := strconv.ParseInt(r["slave_repl_offset"], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if got < want {
		return fmt.Errorf("%s is %d bytes behind", replica.Addr(), want-got)
	}
	return nil
}

func onlineAt(primary map[string]string, replica *Server) bool {
	for name, value := range primary {
		// slave0:ip=127.0.0.1,port=12003,state=online,offset=…
		if strings.HasPrefix(name, "slave") && strings.Contains(value, fmt.Sprintf("port=%d,state=online", replica.port)) {
			return true
		}
	}
	return false
}
