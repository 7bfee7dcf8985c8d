package redistest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-lynx/lynx-redis-lock/internal/slot"
)

// KillPrimaryFor kills the primary for key with SIGKILL and returns it. The
// failover is only beginning then.
func (c *Cluster) KillPrimaryFor(tb testing.TB, key string) *Server {
	tb.Helper()
	primary := c.PrimaryFor(tb, key)
	primary.Stop()
	return primary
}

// AwaitFailover returns when a node other than old accepts writes to key's slot.
// The result is the time from when old was last stopped, paused or told to step
// down until that was first seen.
func (c *Cluster) AwaitFailover(tb testing.TB, key string, old *Server) time.Duration {
	tb.Helper()
	old.mustBeOut(tb)
	probe := probeIn(slot.Of(key))
	await(tb, "a new primary accepts writes", func() error {
		owners, err := c.owners()
		if err != nil {
			return err
		}
		primary := owners[slot.Of(key)]
		if primary == nil || primary == old {
			return errors.New("the old one has no successor")
		}
		return primary.do("DEL", probe).Err()
	})
	return old.succeeded()
}

// probeIn is a key of this slot which is not the test's: deleting it changes
// nothing and shows that writes are accepted.
func probeIn(want uint16) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint(probeKey, i); slot.Of(key) == want {
			return key
		}
	}
}

// Failover has the replica for key take over while the primary runs. It returns
// when all living nodes agree and the old primary follows the new one. The result
// is the time until the new primary accepted writes.
func (c *Cluster) Failover(tb testing.TB, key string) time.Duration {
	tb.Helper()
	old, replica := c.PrimaryFor(tb, key), c.ReplicaFor(tb, key)
	var ordered time.Time
	await(tb, "the replica has taken over", func() error {
		owners, err := c.owners()
		if err != nil || owners[slot.Of(key)] == replica {
			return err
		}
		if time.Since(ordered) < reissueAfter {
			return errors.New("the old one still has the slot")
		}
		old.stepDown()
		if err := replica.do("CLUSTER", "FAILOVER").Err(); err != nil {
			return err
		}
		ordered = time.Now()
		return errors.New("the order was given")
	})
	took := c.AwaitFailover(tb, key, old)
	await(tb, "the nodes agree and the replicas are in sync", c.settled)
	return took
}

// Heal brings back every node that was stopped, has crashed or is frozen. It
// returns when all six agree and the replicas are in sync: another failover can
// begin.
//
// A failover that is under way is waited for: were a dead primary started before
// it has a successor, it would come up empty and its replica with it. If too few
// primaries are left to elect one, that is what happens.
func (c *Cluster) Heal(tb testing.TB) {
	tb.Helper()
	for _, s := range c.servers {
		s.thaw()
	}
	await(tb, "every dead primary has a successor", c.succeeded)
	for _, s := range c.servers {
		s.revive(tb)
	}
	await(tb, "the nodes agree and the replicas are in sync", c.settled)
}

// succeeded says which dead primary may still get a successor.
func (c *Cluster) succeeded() error {
	owners, err := c.owners()
	if err != nil {
		return err
	}
	primaries := slices.DeleteFunc(unique(owners[:]), func(s *Server) bool { return s == nil })
	alive := aliveOf(primaries)
	if 2*len(alive) <= len(primaries) {
		return nil // no majority, no election
	}
	for _, dead := range primaries {
		if slices.Contains(alive, dead) {
			continue
		}
		if replica, err := c.replicaOf(dead); err == nil {
			return fmt.Errorf("%s has not yet succeeded %s", replica.Addr(), dead.Addr())
		}
	}
	return nil
}

func unique(servers []*Server) []*Server {
	var found []*Server
	for _, s := range servers {
		if !slices.Contains(found, s) {
			found = append(found, s)
		}
	}
	return found
}
