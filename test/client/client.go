// Package client is one process of a run: a few holders that take locks, renew them,
// write under them and give them up, and write down what they saw. It is told nothing
// of what is done to it.
package client

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/test/history"
)

// Key is a lock that the run contends for.
type Key struct {
	Name  string
	Clock bool // TokenClock; the published version knows no such thing and stays away
}

// Config is the first line on a client's standard input. When the input ends, the
// client gives up what it holds and ends.
type Config struct {
	Name     string
	Seed     uint64
	File     string            // its history
	Kind     string            // "standalone", "sentinel" or "cluster"
	Addrs    []string          // of the server, the Sentinels or the nodes
	Master   string            // what the Sentinels call the primary
	Via      map[string]string // the proxy in front of each server
	Direct   string            // a standalone server itself, for Inspect
	Register string            // the server of the fenced register, which nothing disturbs
	Peer     bool              // of the published version
	Threads  int
	Keys     []Key
	Leases   []time.Duration
}

// Run is a client's main function.
func Run() {
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadBytes('\n')
	var cfg Config
	if err == nil {
		err = json.Unmarshal(line, &cfg)
	}
	if err == nil {
		err = cfg.run(in)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

// run plays until in ends.
func (cfg *Config) run(in io.Reader) error {
	out, err := history.Create(cfg.File)
	if err != nil {
		return err
	}
	Quiet()
	ctx, cancel := context.WithCancel(context.Background())
	locks := redislock.NewProvider(cfg.connect())
	register := newRegister(cfg.Register)
	var players sync.WaitGroup
	for n := range cfg.Threads {
		s := &scribe{cfg: cfg, thread: n, out: out, rng: rand.New(rand.NewPCG(cfg.Seed, uint64(n)))}
		switch {
		case cfg.Peer:
			players.Go(func() { newPeer(s, register).play(ctx) })
		default:
			p, err := newPlayer(s, locks, register)
			if err != nil {
				cancel()
				return err
			}
			players.Go(func() { p.play(ctx) })
		}
	}
	_, _ = io.Copy(io.Discard, in)
	cancel()
	players.Wait()
	out.Put(history.Line{End: cfg.Name})
	return out.Close()
}

// connect is a client of the servers through their proxies.
func (cfg *Config) connect() redis.UniversalClient {
	var d net.Dialer
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		if via := cfg.Via[addr]; via != "" {
			addr = via
		}
		return d.DialContext(ctx, network, addr)
	}
	const pool = 20
	switch cfg.Kind {
	case "sentinel":
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: cfg.Master, SentinelAddrs: cfg.Addrs, Dialer: dial,
			ContextTimeoutEnabled: true, PoolSize: pool, MaxRetries: -1,
		})
	case "cluster":
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: cfg.Addrs, Dialer: dial, ContextTimeoutEnabled: true, PoolSize: pool,
		})
	default:
		return redis.NewClient(&redis.Options{
			Addr: cfg.Addrs[0], Dialer: dial, ContextTimeoutEnabled: true, PoolSize: pool, MaxRetries: -1,
		})
	}
}

// Quiet keeps go-redis from writing a line for every connection that breaks.
func Quiet() { redis.SetLogger(silent{}) }

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// scribe writes down what one thread of a client does.
type scribe struct {
	cfg    *Config
	thread int
	out    *history.Writer
	rng    *rand.Rand
	holds  int
}

// between is a random time of at least low and less than high.
func (s *scribe) between(low, high time.Duration) time.Duration {
	return low + time.Duration(s.rng.Int64N(int64(high-low)))
}

// chance is true in n of 100 cases.
func (s *scribe) chance(n int) bool { return s.rng.IntN(100) < n }

// newHold names a hold: by ourselves, since an owner value may be what is broken.
func (s *scribe) newHold() string {
	s.holds++
	return fmt.Sprintf("%s/%d/%d", s.cfg.Name, s.thread, s.holds)
}

func (s *scribe) op(op history.Op) {
	op.Process, op.Thread = s.cfg.Name, s.thread
	s.out.Put(history.Line{Op: &op})
}

func (s *scribe) belief(b history.Belief) {
	b.Process = s.cfg.Name
	s.out.Put(history.Line{Belief: &b})
}

// nap ends early with ctx.
func nap(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// text shortens an error for the history.
func text(err error) string {
	if err == nil {
		return ""
	}
	const most = 160
	return fmt.Sprintf("%.*s", most, err.Error())
}
