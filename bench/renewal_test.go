package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/go-lynx/lynx-redis-lock/bench/measure"
	"github.com/go-lynx/lynx-redis-lock/bench/renewal"
	"github.com/go-lynx/lynx-redis-lock/bench/report"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// TestRenewal keeps many leases, on a standalone server and on a Cluster.
func TestRenewal(t *testing.T) {
	start, load := time.Now(), report.Load()
	plan := renewal.Quick()
	if *full {
		plan = renewal.Full()
	}
	var text strings.Builder
	version := ""
	if strings.Contains("standalone", *only) {
		server := redistest.Start(t)
		r := rigOf(t, renewal.Target{Addrs: []string{server.Addr()}}, server.Addr())
		version = r.Server.Version(t.Context())
		run, err := plan.Standalone(t.Context(), r, server, progressOf("standalone"))
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString(run.Markdown() + "\n")
		server.Stop() // it is not to disturb the Cluster
	}
	if strings.Contains("cluster", *only) {
		// Nodes that are stopped together are not to fail over afterwards.
		cluster := redistest.StartCluster(t, "--cluster-node-timeout", "60000")
		r := rigOf(t, renewal.Target{Addrs: cluster.Addrs(), Cluster: true}, cluster.Addrs()...)
		version = r.Server.Version(t.Context())
		run, err := plan.Cluster(t.Context(), r, nodes(cluster.Servers()), progressOf("cluster"))
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString(run.Markdown())
	}
	publish(t, "renewal", "make bench-renewal", version, load, start, renewalLegend+"\n"+text.String())
}

const renewalLegend = `Each keeper takes its locks, with 64 goroutines, and then holds them; only the holding is measured. A lock is lost when its key is gone or its keeper says so.
Ours runs with DefaultLockOptions and a client pool of 64: it renews when 0.3 of the lease is left, as the bare pipeline does; rueidislock and the goroutines of bsm's users renew
every half lease. "bytes a lock" are the process's heap and stacks, with the handle that the program keeps and without the keys, which are its own. The round: all locks fall due while the servers are stopped, and the time
runs from their going on until all are renewed. The longer way delays every byte by half of the round trip in each direction.
`

func rigOf(t *testing.T, target renewal.Target, addrs ...string) *renewal.Rig {
	t.Helper()
	server := measure.NewServer(addrs...)
	t.Cleanup(server.Close)
	return &renewal.Rig{Target: target, Server: server}
}

func progressOf(topology string) func(string) {
	return func(what string) { progress("%s: %s", topology, what) }
}

// nodes are stopped and continued together.
type nodes []*redistest.Server

func (n nodes) Pause() {
	for _, s := range n {
		s.Pause()
	}
}

func (n nodes) Resume() {
	for _, s := range n {
		s.Resume()
	}
}
