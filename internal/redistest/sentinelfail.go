package redistest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// probeKey is deleted to see whether a server accepts writes. It never exists,
// so that the test's own data stays as it is.
const probeKey = "redistest:probe"

// KillPrimary kills the primary with SIGKILL and returns it. The failover is
// only beginning then.
func (s *Sentinel) KillPrimary(tb testing.TB) *Server {
	tb.Helper()
	primary := s.Primary(tb)
	primary.Stop()
	return primary
}

// AwaitFailover returns when the Sentinels name a primary other than old and it
// accepts writes. The result is the time from when old was last stopped, paused
// or forced to step down until that was first seen.
func (s *Sentinel) AwaitFailover(tb testing.TB, old *Server) time.Duration {
	tb.Helper()
	old.mustBeOut(tb)
	await(tb, "a new primary accepts writes", func() error {
		primary, err := s.named()
		if err != nil {
			return err
		}
		if primary == old {
			return errors.New("the old one is still named")
		}
		return primary.do("DEL", probeKey).Err()
	})
	return old.succeeded()
}

// Failover makes the Sentinels promote a replica while the primary runs. It
// returns when they agree and the replicas follow, the old primary among them.
// The result is the time until the new primary accepted writes.
func (s *Sentinel) Failover(tb testing.TB) time.Duration {
	tb.Helper()
	old := s.Primary(tb)
	watchers := aliveOf(s.sentinels)
	var ordered time.Time
	await(tb, "the Sentinels name another primary", func() error {
		if primary, err := s.named(); err != nil || primary != old {
			return err
		}
		if time.Since(ordered) < reissueAfter {
			return errors.New("the old one is still named")
		}
		old.stepDown()
		err := watchers[0].do("SENTINEL", "FAILOVER", masterName).Err()
		if err == nil || strings.HasPrefix(err.Error(), "INPROG") {
			ordered = time.Now()
			return errors.New("the order was given")
		}
		return err // NOGOODSLAVE, until it has a fresh INFO of the replicas
	})
	took := s.AwaitFailover(tb, old)
	s.rejoin(tb)
	return took
}

// Heal brings back every process that was stopped, has crashed or is frozen. It
// returns when the data servers follow the primary and are in sync with it and
// every Sentinel knows two healthy replicas: another failover can begin.
//
// A failover that is under way is waited for: were a dead primary started
// before it has a successor, it would come up empty and its replicas with it.
func (s *Sentinel) Heal(tb testing.TB) {
	tb.Helper()
	for _, watcher := range s.sentinels {
		if watcher.revive(tb) {
			tune(tb, watcher)
		}
	}
	var primary *Server
	await(tb, "there is a primary to follow", func() (err error) {
		if primary, err = s.named(); err != nil {
			return err
		}
		if len(aliveOf(s.servers)) == 0 {
			primary.revive(tb)
		}
		if !primary.alive() {
			return fmt.Errorf("%s is dead", primary.Addr())
		}
		return primary.do("DEL", probeKey).Err()
	})
	for _, server := range s.servers {
		if server.thaw(); !server.alive() {
			server.configure(tb, replicaOf(primary)) // so that it does not start as a second primary
			server.revive(tb)
		}
	}
	s.rejoin(tb)
}

// rejoin has the living servers follow the primary and waits for everybody to
// know it. Sentinel itself would leave an old primary, if it runs, as it is for
// another 8 s.
func (s *Sentinel) rejoin(tb testing.TB) {
	tb.Helper()
	await(tb, "the Sentinels agree and the replicas follow", func() error {
		primary, err := s.named()
		if err != nil {
			return err
		}
		for _, server := range aliveOf(s.servers) {
			if err := server.follow(primary); err != nil {
				return err
			}
		}
		return s.settled()
	})
}

// follow makes the server a replica of primary, unless it is one.
func (s *Server) follow(primary *Server) error {
	if s == primary {
		return nil
	}
	info, err := s.replication()
	if err != nil {
		return err
	}
	port := strconv.Itoa(primary.port)
	if info["role"] == "slave" && info["master_port"] == port {
		return nil
	}
	return errors.Join(s.do("REPLICAOF", loopback, port).Err(), s.do("CONFIG", "REWRITE").Err())
}
