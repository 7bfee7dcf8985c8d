package redislock_test

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// A fault row: a real server, and a network between it and the lock that loses
// and delays what the row says.
type faultRow struct {
	name string
	run  func(t *testing.T, r *faultRig)
	// unwritten: the row wants it known that a request was never written. A
	// ClusterClient asks for a command's words before it has a connection, so that
	// such a send counts there as one that may arrive.
	unwritten bool
}

// TestFaults is not parallel to other tests: the callback and active_locks belong
// to the whole process. The rows of faultRowsAlone look at the latter or at all that
// their server does, or need a machine that is as busy as they make it. Those of
// faultRowsSerial do something to the whole of the servers that the others share: a
// late request, for one, is not sent again when its script has been flushed.
func TestFaults(t *testing.T) {
	redislock.SetCallback(faultEvents)
	t.Cleanup(func() { redislock.SetCallback(nil) })
	for _, topology := range faultTopologies {
		t.Run(topology.name, func(t *testing.T) {
			servers := topology.start(t)
			if topology.own {
				runContractRows(t)
				for _, row := range faultRowsAlone {
					t.Run(row.name, func(t *testing.T) { row.run(t, newRigOn(t, topology.start(t))) })
				}
			}
			if topology.own {
				for _, row := range faultRowsServer {
					t.Run(row.name, func(t *testing.T) {
						t.Parallel()
						row.run(t, newRigOn(t, topology.start(t)))
					})
				}
			}
			for _, row := range faultRowsSerial {
				t.Run(row.name, func(t *testing.T) { row.run(t, newRigOn(t, servers)) })
			}
			for _, row := range slices.Concat(faultRowsSending, faultRowsRenewal, faultRowsBatch) {
				if row.unwritten && topology.name == "cluster" {
					continue
				}
				t.Run(row.name, func(t *testing.T) {
					t.Parallel()
					row.run(t, newRigOn(t, servers))
				})
			}
		})
	}
}

// faultTopology is a kind of servers that the rows run on.
type faultTopology struct {
	name  string
	own   bool // cheap enough for a row to have servers of its own
	start func(testing.TB) faultServers
}

var faultTopologies = []faultTopology{
	{"standalone", true, func(tb testing.TB) faultServers { return aloneServers(tb) }},
	{"sentinel", false, sentinelServers},
	{"cluster", false, clusterServers},
}

// faultServers are what a rig is in front of.
type faultServers struct {
	// primary is the server that has the lock.
	primary func(t *testing.T, key string) *redistest.Server
	// connect makes a client whose connections come about by dial.
	connect func(dial dialer) redis.UniversalClient
	cluster bool
}

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

func aloneServers(tb testing.TB, args ...string) faultServers {
	server := redistest.Start(tb, args...)
	return faultServers{
		primary: func(*testing.T, string) *redistest.Server { return server },
		connect: func(dial dialer) redis.UniversalClient {
			return redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, Dialer: dial})
		},
	}
}

func sentinelServers(tb testing.TB) faultServers {
	sentinel := redistest.StartSentinel(tb)
	return faultServers{
		primary: func(t *testing.T, _ string) *redistest.Server { return sentinel.Primary(t) },
		connect: func(dial dialer) redis.UniversalClient {
			return redis.NewFailoverClient(&redis.FailoverOptions{
				MasterName: sentinel.MasterName(), SentinelAddrs: sentinel.Addrs(), ContextTimeoutEnabled: true, Dialer: dial,
			})
		},
	}
}

func clusterServers(tb testing.TB) faultServers {
	cluster := redistest.StartCluster(tb)
	primaries := cluster.Servers()[:3] // each has a third of the slots, and no row changes that
	return faultServers{
		cluster: true,
		primary: func(t *testing.T, key string) *redistest.Server {
			return primaries[(int(cluster.Slot(redislock.HashTag(key)))*3+2)>>14]
		},
		connect: func(dial dialer) redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), ContextTimeoutEnabled: true, Dialer: dial})
		},
	}
}

// faultRig is the network of one row: a proxy in front of the lock's primary.
type faultRig struct {
	servers faultServers
	server  *redistest.Server
	proxy   *redistest.Proxy
	direct  redis.UniversalClient     // past the proxy: what Redis has, and other holders
	client  redis.UniversalClient     // through the proxy
	ours    redislock.ContextProvider // over client
	another redislock.Provider        // over direct
	key     string
}

var faultKeys atomic.Int64

// rigKey is a key of no other row.
func rigKey() string { return fmt.Sprint("fault-", faultKeys.Add(1)) }

// newFaultRig has a standalone server of its own.
func newFaultRig(t *testing.T) *faultRig { return newRigOn(t, aloneServers(t)) }

func newRigOn(t *testing.T, servers faultServers) *faultRig {
	t.Helper()
	r := &faultRig{servers: servers, key: rigKey()}
	r.server = servers.primary(t, r.key)
	r.proxy = redistest.StartProxy(t, r.server.Addr())
	r.direct = servers.connect(nil)
	r.client = servers.connect(func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr == r.server.Addr() {
			addr = r.proxy.Addr()
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	})
	t.Cleanup(func() { _ = errors.Join(r.client.Close(), r.direct.Close()) })
	r.ours = redislock.NewProvider(r.client).(redislock.ContextProvider)
	r.another = redislock.NewProvider(r.direct)
	// Loaded before, so that a fault meets the script and not its NOSCRIPT.
	loader := r.server.Client(t)
	for _, name := range []string{"acquire", "reenter", "release", "leave", "handover", "wake", "renew", "renew_many", "touch", "touch_many", "status", "unlock"} {
		if err := loader.ScriptLoad(t.Context(), luaSource(t, name)).Err(); err != nil {
			t.Fatal(err)
		}
	}
	// The client knows its servers before the first fault, too.
	if err := r.client.Get(t.Context(), r.redisKey(":owner")).Err(); !errors.Is(err, redis.Nil) {
		t.Fatalf("GET through the proxy: %v", err)
	}
	return r
}

// requestsOf matches the requests of one script, and of those the ones with all words
// among their arguments.
func requestsOf(t *testing.T, name string, words ...string) func(cmd []string) bool {
	t.Helper()
	sum := sha1.Sum([]byte(luaSource(t, name))) //nolint:gosec // as above
	sha := hex.EncodeToString(sum[:])
	return func(cmd []string) bool {
		if len(cmd) < 2 || !strings.EqualFold(cmd[0], "evalsha") || cmd[1] != sha {
			return false
		}
		all := strings.Join(cmd[2:], " ") + " "
		for _, word := range words {
			if !strings.Contains(all, " "+word+" ") {
				return false
			}
		}
		return true
	}
}

// faultOptions: a lease, calls of 400 ms, one attempt.
func faultOptions(ttl time.Duration) redislock.LockOptions {
	options := redislock.DefaultLockOptions
	options.Expiration = ttl
	options.ScriptCallTimeout = 400 * time.Millisecond
	options.RetryStrategy = redislock.RetryStrategy{}
	return options
}

// lock is an instance for the row's key, or for that with more behind it.
func (r *faultRig) lock(t *testing.T, p redislock.Provider, options redislock.LockOptions, suffix ...string) *redislock.RedisLock {
	t.Helper()
	return endingLock(t, p, r.key+strings.Join(suffix, ""), options)
}

// endingLock is an instance whose hold ends with the row: else a Shutdown in a later
// test waits for the end of its lease.
func endingLock(t *testing.T, p redislock.Provider, key string, options redislock.LockOptions) *redislock.RedisLock {
	t.Helper()
	lock, err := p.NewLock(t.Context(), key, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		for lock.Err() == nil && ctx.Err() == nil {
			_ = lock.Release(ctx)
		}
	})
	return lock
}

// held is a lock of ours that has been acquired.
func (r *faultRig) held(t *testing.T, options redislock.LockOptions, suffix ...string) *redislock.RedisLock {
	t.Helper()
	lock := r.lock(t, r.ours, options, suffix...)
	if err := lock.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	return lock
}

func (r *faultRig) redisKey(suffix string) string { return redislock.HashTag(r.key) + suffix }

// get is what a key of the lock holds, "" when it does not exist.
func (r *faultRig) get(t *testing.T, suffix string) string {
	t.Helper()
	v, err := r.direct.Get(t.Context(), r.redisKey(suffix)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	return v
}

// scriptsRun is how many EVALSHA the server has carried out, late ones included.
func (r *faultRig) scriptsRun(t *testing.T) (calls int) {
	t.Helper()
	info, err := r.direct.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	if _, line, found := strings.Cut(info, "cmdstat_evalsha:calls="); found {
		_, _ = fmt.Sscanf(line, "%d", &calls)
	}
	return calls
}

// becomes waits for a condition.
func becomes(t *testing.T, within time.Duration, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !condition(); time.Sleep(3 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", within, what)
		}
	}
}

// stays is a negative: it watches a condition for the whole time.
func stays(t *testing.T, during time.Duration, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(3 * time.Millisecond) {
		if !condition() {
			t.Fatalf("no longer: %s", what)
		}
	}
}

func (r *faultRig) ownerIsGone(t *testing.T, within time.Duration) {
	t.Helper()
	becomes(t, within, "the owner key is gone", func() bool { return r.get(t, ":owner") == "" })
}

// isHeldOnce: Redis has this hold, others are refused, and one Release frees it.
func (r *faultRig) isHeldOnce(t *testing.T, lock *redislock.RedisLock) {
	t.Helper()
	r.isHeld(t, lock)
	succeeds(t, "the release", lock.Release(t.Context()))
	if owner, count := r.get(t, ":owner"), r.get(t, ":count"); owner != "" || count != "" {
		t.Fatalf("after the release the owner key holds %q and the count %q", owner, count)
	}
	failsAs(t, "a second release", lock.Release(t.Context()), redislock.ErrLockNotHeld)
}

func (r *faultRig) isHeld(t *testing.T, lock *redislock.RedisLock) {
	t.Helper()
	succeeds(t, "the hold's Err", lock.Err())
	if owner := r.get(t, ":owner"); owner == "" || owner != lock.GetValue() {
		t.Fatalf("the owner key holds %q, the hold's value is %q", owner, lock.GetValue())
	}
	failsAs(t, "another's acquire", r.lock(t, r.another, faultOptions(time.Minute)).Acquire(t.Context()), redislock.ErrLockAcquireConflict)
}

func succeeds(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func failsAs(t *testing.T, what string, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Fatalf("%s: the error is %v, want one that is %v", what, err, target)
		}
	}
}

// wantSends checks how often a script went to the server.
func (r *faultRig) wantSends(t *testing.T, script string, want int) {
	t.Helper()
	if got := r.proxy.Count(requestsOf(t, script)); got != want {
		t.Fatalf("%s was sent %d times, want %d", script, got, want)
	}
}

// activeLocks is the process's number.
func activeLocks() int64 { return redislock.GetStats()["active_locks"] }

// faultEvents counts callbacks by lock key.
var faultEvents = &eventCounter{renewed: map[string]int{}, failed: map[string][]error{}}

type eventCounter struct {
	redislock.NoOpCallback
	mu      sync.Mutex // guards the rest
	renewed map[string]int
	failed  map[string][]error
}

func (c *eventCounter) OnLockRenewed(key string, _ time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.renewed[key]++
}

func (c *eventCounter) OnLockRenewalFailed(key string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed[key] = append(c.failed[key], err)
}

func (c *eventCounter) renewals(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.renewed[key]
}

func (c *eventCounter) losses(key string) []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]error(nil), c.failed[key]...)
}

// wantOneLoss waits for the loss to be told and then checks that it is not told twice.
func (c *eventCounter) wantOneLoss(t *testing.T, key string, reason redislock.LossReason) {
	t.Helper()
	becomes(t, time.Second, "OnLockRenewalFailed", func() bool { return len(c.losses(key)) > 0 })
	stays(t, 200*time.Millisecond, "OnLockRenewalFailed once", func() bool { return len(c.losses(key)) == 1 })
	var lost *redislock.LostError
	if err := c.losses(key)[0]; !errors.As(err, &lost) || lost.Reason != reason || lost.Key != key {
		t.Fatalf("OnLockRenewalFailed got %v, want a loss of %q: %s", err, key, reason)
	}
}

// noLonger bounds a call that must not hang.
func noLonger(t *testing.T, limit time.Duration, what string, call func(ctx context.Context)) {
	t.Helper()
	start := time.Now()
	call(t.Context())
	if took := time.Since(start); took > limit {
		t.Fatalf("%s took %s, want at most %s", what, took, limit)
	}
}
