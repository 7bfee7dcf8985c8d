package redistest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/go-lynx/lynx-redis-lock/internal/slot"
)

const (
	slots  = 1 << 14
	shards = 3
)

// clusterArgs: a node is given up a second after its last answer, and its
// replica waits up to another second before it stands for election.
//
// The validity factor of 0 lets a replica stand however long it was cut off.
// Full coverage is not required, so that a shard without a primary takes down
// its own slots only. Replicas stay with their shard, or they would be elsewhere
// after some failovers.
var clusterArgs = []string{
	"--cluster-enabled", "yes",
	"--cluster-node-timeout", "1000",
	"--cluster-replica-validity-factor", "0",
	"--cluster-require-full-coverage", "no",
	"--cluster-allow-replica-migration", "no",
}

// Cluster is a Redis Cluster of three primaries with a replica each. All methods
// belong on the goroutine of the test.
type Cluster struct {
	servers []*Server // the primaries of the start, then their replicas in this order
	ids     map[*Server]string
}

// StartCluster returns when every node sees the whole cluster in order, which
// is after two seconds: a primary waits as long before it takes queries. args are
// further command-line options of all nodes.
func StartCluster(tb testing.TB, args ...string) *Cluster {
	tb.Helper()
	c := &Cluster{ids: map[*Server]string{}}
	for range 2 * shards {
		s := Start(tb, slices.Concat(replicationArgs, clusterArgs, args)...)
		c.servers = append(c.servers, s)
		id, err := s.do("CLUSTER", "MYID").Text()
		if err != nil {
			tb.Fatalf("redistest: %v", err)
		}
		c.ids[s] = id
	}
	for i, s := range c.servers[:shards] {
		// Different from the start: equal epochs collide and are sorted out later.
		s.must(tb, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		s.must(tb, "CLUSTER", "ADDSLOTSRANGE", i*slots/shards, (i+1)*slots/shards-1)
	}
	for i, s := range c.servers {
		for _, other := range c.servers[:i] { // all pairs: gossip alone takes longer
			s.must(tb, "CLUSTER", "MEET", loopback, other.port)
		}
	}
	for i, s := range c.servers[shards:] {
		await(tb, "the replica knows its primary", func() error {
			return s.do("CLUSTER", "REPLICATE", c.ids[c.servers[i]]).Err()
		})
	}
	await(tb, "the cluster is formed", c.settled)
	return c
}

// Addrs are the addresses of all six nodes.
func (c *Cluster) Addrs() []string { return addrs(c.servers) }

// Servers are the six nodes, whatever their roles are now.
func (c *Cluster) Servers() []*Server { return slices.Clone(c.servers) }

// Client returns a client of the cluster. As with [Server.Client], contexts'
// deadlines bind.
func (c *Cluster) Client(tb testing.TB, mod ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	tb.Helper()
	opts := &redis.ClusterOptions{Addrs: c.Addrs(), ContextTimeoutEnabled: true}
	for _, m := range mod {
		m(opts)
	}
	client := redis.NewClusterClient(opts)
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

// Slot is the hash slot of key.
func (c *Cluster) Slot(key string) uint16 { return slot.Of(key) }

// PrimaryFor is the node that serves key's slot, dead or alive, as the node that
// knows most has it.
func (c *Cluster) PrimaryFor(tb testing.TB, key string) *Server {
	tb.Helper()
	return c.primaryOf(tb, slot.Of(key))
}

func (c *Cluster) primaryOf(tb testing.TB, slot uint16) *Server {
	tb.Helper()
	owners, err := c.owners()
	if err != nil {
		tb.Fatalf("redistest: %v", err)
	}
	if owners[slot] == nil {
		tb.Fatalf("redistest: slot %d has no primary", slot)
	}
	return owners[slot]
}

// ReplicaFor is a living replica of the primary for key.
func (c *Cluster) ReplicaFor(tb testing.TB, key string) *Server {
	tb.Helper()
	primary := c.PrimaryFor(tb, key)
	replica, err := c.replicaOf(primary)
	if err != nil {
		tb.Fatalf("redistest: %v", err)
	}
	return replica
}

// replicaOf trusts each node about its own role.
func (c *Cluster) replicaOf(primary *Server) (*Server, error) {
	for _, s := range aliveOf(c.servers) {
		nodes, err := c.view(s)
		if err != nil {
			return nil, err
		}
		if own := nodes[s]; own.master == primary {
			return s, nil
		}
	}
	return nil, fmt.Errorf("%s has no living replica", primary.Addr())
}

// owners gives each slot's primary by the highest epoch that any node has seen:
// a node that was away still thinks what it thought before.
func (c *Cluster) owners() (*[slots]*Server, error) {
	var owner [slots]*Server
	var epochs [slots]uint64
	for _, s := range aliveOf(c.servers) {
		nodes, err := c.view(s)
		if err != nil {
			return nil, err
		}
		for server, n := range nodes {
			for _, r := range n.slots {
				for i := r.first; i <= r.last; i++ {
					if n.is("master") && n.epoch >= epochs[i] {
						owner[i], epochs[i] = server, n.epoch
					}
				}
			}
		}
	}
	return &owner, nil
}

// settled says what is missing until all living nodes have the same view, in
// which each of them is well, and their replicas are in sync.
func (c *Cluster) settled() error {
	alive := aliveOf(c.servers)
	first := ""
	for _, s := range alive {
		if state, err := s.do("CLUSTER", "INFO").Text(); err != nil || !strings.Contains(state, "cluster_state:ok") {
			return errors.Join(fmt.Errorf("%s is not ok: %.40s", s.Addr(), state), err)
		}
		nodes, err := c.view(s)
		if err != nil {
			return err
		}
		shape, err := nodes.shape(alive)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Addr(), err)
		}
		if first == "" {
			first = shape
		}
		if shape != first {
			return fmt.Errorf("%s sees\n%s%s sees\n%s", alive[0].Addr(), first, s.Addr(), shape)
		}
		if own := nodes[s]; own.is("slave") && own.master.alive() {
			if err := inSync(s, own.master); err != nil {
				return err
			}
		}
	}
	return nil
}
