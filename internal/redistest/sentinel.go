package redistest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	masterName = "lynx"
	quorum     = 2

	// sentinelConf: a primary is given up a second after its last answer.
	// The failover timeout bounds each step of a failover, and twice that must
	// pass before it is tried again after a split vote.
	sentinelConf = `sentinel monitor ` + masterName + ` 127.0.0.1 %d %d
sentinel down-after-milliseconds ` + masterName + ` 1000
sentinel failover-timeout ` + masterName + ` 3000
sentinel parallel-syncs ` + masterName + ` 2
`
	// reissueAfter is longer than a forced failover that is going to be aborted
	// can last, so that a second order never meets the first one's success.
	reissueAfter = 10 * time.Second
)

// replicationArgs: without the first, a primary waits 5 s for more replicas
// before it sends its data, and a failover meanwhile finds no good replica.
var replicationArgs = []string{"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}

// sentinelDebug are timings that Sentinel has no configuration for.
//
// Sentinel refuses to act (TILT) for 30 s when its timer was 2 s late, which a
// busy machine does to it easily. INFO once a second instead of every 10 s makes
// it notice sooner that a replica is back. The ping and ask periods stay as they
// are: shorter ones make Sentinels vote for themselves at the same time.
var sentinelDebug = []struct {
	name string
	ms   int
}{{"tilt-trigger", 60_000}, {"tilt-period", 1000}, {"info-period", 1000}}

// Sentinel is a primary with two replicas, watched by three Sentinels of which
// two must agree. All methods belong on the goroutine of the test.
type Sentinel struct {
	servers   []*Server
	sentinels []*Server
}

// StartSentinel returns when everybody knows everybody and the replicas are in
// sync. args are further command-line options of the three data servers.
func StartSentinel(tb testing.TB, args ...string) *Sentinel {
	tb.Helper()
	s := &Sentinel{}
	args = slices.Concat(replicationArgs, args)
	for range 3 {
		server := newServer(tb, args)
		conf := ""
		if len(s.servers) > 0 {
			conf = replicaOf(s.servers[0])
		}
		server.configure(tb, conf)
		server.launch(tb)
		s.servers = append(s.servers, server)
	}
	primary := s.servers[0]
	await(tb, "the replicas are in sync", func() error { return s.replicasInSync(primary) })
	for range 3 {
		watcher := newServer(tb, nil)
		watcher.args = []string{"--sentinel"}
		watcher.configure(tb, fmt.Sprintf(sentinelConf, primary.port, quorum))
		watcher.launch(tb)
		tune(tb, watcher)
		// Sentinels find each other by what they publish, by default every 2 s.
		// Only at the start, because four periods are also the time after which
		// a Sentinel overrules a server that claims another role.
		watcher.must(tb, "SENTINEL", "DEBUG", "publish-period", 100)
		s.sentinels = append(s.sentinels, watcher)
	}
	await(tb, "the Sentinels know each other and the replicas", s.settled)
	for _, watcher := range s.sentinels {
		watcher.must(tb, "SENTINEL", "DEBUG", "publish-period", 2000)
	}
	return s
}

// configure gives the server a configuration file. With one it remembers its
// role over a restart, since Sentinel has it rewritten when it changes the role.
func (s *Server) configure(tb testing.TB, text string) {
	tb.Helper()
	s.conf = filepath.Join(s.dir, "conf")
	f, err := os.OpenFile(s.conf, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err == nil {
		_, err = f.WriteString("\n" + text + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		tb.Fatalf("redistest: %v", err)
	}
}

func replicaOf(primary *Server) string {
	return fmt.Sprintf("replicaof %s %d", loopback, primary.port)
}

// tune must be repeated after a restart. One pair a call: 7.0 ignores the rest.
func tune(tb testing.TB, watcher *Server) {
	tb.Helper()
	for _, d := range sentinelDebug {
		watcher.must(tb, "SENTINEL", "DEBUG", d.name, d.ms)
	}
}

// MasterName is what the Sentinels call the primary.
func (s *Sentinel) MasterName() string { return masterName }

// Addrs are the Sentinels' addresses.
func (s *Sentinel) Addrs() []string { return addrs(s.sentinels) }

// Servers are the data servers, whatever their roles are now.
func (s *Sentinel) Servers() []*Server { return slices.Clone(s.servers) }

// Sentinels are the Sentinel processes, which can be stopped and frozen too.
func (s *Sentinel) Sentinels() []*Server { return slices.Clone(s.sentinels) }

func addrs(servers []*Server) []string {
	var all []string
	for _, s := range servers {
		all = append(all, s.Addr())
	}
	return all
}

// Client returns a client that asks the Sentinels for the primary. As with
// [Server.Client], contexts' deadlines bind.
func (s *Sentinel) Client(tb testing.TB, mod ...func(*redis.FailoverOptions)) *redis.Client {
	tb.Helper()
	opts := &redis.FailoverOptions{MasterName: masterName, SentinelAddrs: s.Addrs(), ContextTimeoutEnabled: true}
	for _, m := range mod {
		m(opts)
	}
	c := redis.NewFailoverClient(opts)
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// Primary is the server that most Sentinels name, dead or alive.
func (s *Sentinel) Primary(tb testing.TB) *Server {
	tb.Helper()
	var primary *Server
	await(tb, "the Sentinels name one primary", func() (err error) {
		primary, err = s.named()
		return err
	})
	return primary
}

// named is the primary that a quorum of the living Sentinels names.
func (s *Sentinel) named() (*Server, error) {
	votes := map[*Server]int{}
	var errs []error
	for _, watcher := range aliveOf(s.sentinels) {
		server, err := s.namedBy(watcher)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if votes[server]++; votes[server] == quorum {
			return server, nil
		}
	}
	return nil, fmt.Errorf("no %d Sentinels agree: %w", quorum, errors.Join(errs...))
}

func (s *Sentinel) namedBy(watcher *Server) (*Server, error) {
	addr, err := watcher.do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName).StringSlice()
	if err != nil {
		return nil, err
	}
	server := byPort(s.servers, addr[1])
	if server == nil {
		return nil, fmt.Errorf("%s names the stranger %v", watcher.Addr(), addr)
	}
	return server, nil
}

// settled says what is missing until the living Sentinels and data servers all
// have the same view of each other, so that the next failover can succeed.
func (s *Sentinel) settled() error {
	primary, err := s.named()
	if err != nil {
		return err
	}
	if err := s.replicasInSync(primary); err != nil {
		return err
	}
	for _, watcher := range aliveOf(s.sentinels) {
		if err := s.sees(watcher, primary); err != nil {
			return fmt.Errorf("Sentinel %s: %w", watcher.Addr(), err)
		}
	}
	return nil
}

func (s *Sentinel) replicasInSync(primary *Server) error {
	for _, server := range aliveOf(s.servers) {
		if server == primary {
			continue
		}
		if err := inSync(server, primary); err != nil {
			return err
		}
	}
	return nil
}

// sees compares one Sentinel's view with the truth.
func (s *Sentinel) sees(watcher, primary *Server) error {
	if server, err := s.namedBy(watcher); err != nil || server != primary {
		return errors.Join(fmt.Errorf("%s is not named as the primary", primary.Addr()), err)
	}
	master, err := stringMap(watcher.do("SENTINEL", "MASTER", masterName).Result())
	if err != nil || master["flags"] != "master" {
		return errors.Join(fmt.Errorf("the primary's flags are %q", master["flags"]), err)
	}
	healthy := func(r map[string]string) bool {
		return r["flags"] == "slave" && r["role-reported"] == "slave" && r["master-link-status"] == "ok" &&
			r["master-port"] == strconv.Itoa(primary.port)
	}
	if err := atLeast(len(aliveOf(s.servers))-1, watcher, "REPLICAS", healthy); err != nil {
		return err
	}
	// A peer keeps the flag master_down for 5 s: what it said about the last one.
	up := func(r map[string]string) bool { return strings.TrimSuffix(r["flags"], ",master_down") == "sentinel" }
	return atLeast(len(aliveOf(s.sentinels))-1, watcher, "SENTINELS", up)
}

// atLeast asks a Sentinel for a list of peers and wants so many that are ok.
func atLeast(want int, watcher *Server, list string, ok func(map[string]string) bool) error {
	peers, err := watcher.do("SENTINEL", list, masterName).Slice()
	if err != nil {
		return err
	}
	got := 0
	for _, peer := range peers {
		fields, err := stringMap(peer, nil)
		if err != nil {
			return err
		}
		if ok(fields) {
			got++
		}
	}
	if got < want {
		return fmt.Errorf("%d of %d %s are well: %v", got, want, strings.ToLower(list), peers)
	}
	return nil
}

// stringMap reads RESP2's map, an array of names and values.
func stringMap(reply any, err error) (map[string]string, error) {
	if err != nil {
		return nil, err
	}
	list, ok := reply.([]any)
	if !ok || len(list)%2 != 0 {
		return nil, fmt.Errorf("%v is not a map", reply)
	}
	m := map[string]string{}
	for pair := range slices.Chunk(list, 2) {
		m[fmt.Sprint(pair[0])] = fmt.Sprint(pair[1])
	}
	return m, nil
}
