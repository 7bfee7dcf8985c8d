package redislock_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

var soakFor = flag.Duration("soak", 5*time.Second, "how long TestSoak goes on; from 30s on with all of its locks")

const (
	soakLocks   = 5000
	soakFew     = 500 // of a short run
	soakTTL     = 6 * time.Second
	soakCut     = time.Second // the longest; a renewal has half of the lease for it
	soakWorkers = 16
	soakPause   = 4 * time.Millisecond // of a worker, at most: the machine is not to be the limit
)

// network is what can be cut between a client and its server.
type network struct {
	mu    sync.Mutex // guards the rest
	down  bool
	conns map[net.Conn]struct{}
}

func (n *network) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil && n.down {
		_ = conn.Close()
		err = &net.OpError{Op: "dial", Net: network, Err: errors.New("the network is cut")}
	}
	if err != nil {
		return nil, err
	}
	n.conns[conn] = struct{}{}
	return soakConn{conn, n}, nil
}

func (n *network) cut(down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = down
	for conn := range n.conns {
		_ = conn.Close()
	}
}

type soakConn struct {
	net.Conn
	network *network
}

func (c soakConn) Close() error {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	delete(c.network.conns, c.Conn)
	return c.Conn.Close()
}

// soaked is one lock of the soak.
type soaked struct {
	mu     sync.Mutex // one worker at a time
	lock   *redislock.RedisLock
	held   bool
	doomed time.Time    // since when its owner key is gone; zero: it is not
	dooms  int64        // how often it was
	losses atomic.Int64 // how often a loss was told
}

type soak struct {
	redislock.NoOpCallback
	t      *testing.T
	direct *redis.Client
	locks  []*soaked
	byKey  map[string]*soaked
	ops    [5]atomic.Int64
}

// OnLockRenewalFailed counts the losses. One whose key nobody has deleted is an error.
func (s *soak) OnLockRenewalFailed(key string, err error) {
	var lost *redislock.LostError
	if one := s.byKey[key]; one != nil && errors.As(err, &lost) {
		one.losses.Add(1)
	}
}

// TestSoak: locks that are acquired, released, renewed and lost at random, while the
// network is cut and Redis silent again and again, for less than a renewal can bear.
// Every lock that Redis kept is still believed held, every one that it lost was told,
// and neither goroutines nor memory grow.
func TestSoak(t *testing.T) {
	n := soakFew
	if *soakFor >= 30*time.Second {
		n = soakLocks
	}
	server := redistest.Start(t)
	wire := &network{conns: map[net.Conn]struct{}{}}
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Dialer: wire.dial, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	s := &soak{t: t, direct: server.Client(t), byKey: map[string]*soaked{}}
	s.make(redislock.NewProvider(client), n)
	redislock.SetCallback(s)
	t.Cleanup(func() { redislock.SetCallback(nil) })
	activeBefore, goroutines := activeLocks(), runtime.NumGoroutine()

	s.settle() // all are held
	heap := heapInUse()
	ctx, stop := context.WithTimeout(t.Context(), *soakFor)
	defer stop()
	var tasks sync.WaitGroup
	for range soakWorkers {
		tasks.Go(func() { s.work(ctx) })
	}
	tasks.Go(func() { s.disturb(ctx, wire) })
	tasks.Wait()
	s.settle()
	s.check()
	grown := int64(heapInUse()) - int64(heap)
	t.Logf("%d locks: %d acquires, %d releases, %d renewals, %d losses, %d disturbances; the heap has grown by %d KiB of %d",
		n, s.ops[0].Load(), s.ops[1].Load(), s.ops[2].Load(), s.ops[3].Load(), s.ops[4].Load(), grown>>10, heap>>10)
	if grown > int64(heap)/4+4<<20 {
		t.Errorf("the heap has grown from %d to %d KiB", heap>>10, (int64(heap)+grown)>>10)
	}
	for _, one := range s.locks {
		succeeds(t, "the last release", one.lock.Release(t.Context()))
	}
	becomes(t, 10*time.Second, "no lock is active and no goroutine is left", func() bool {
		client.PoolStats() // its connections have no goroutines
		return activeLocks() == activeBefore && runtime.NumGoroutine() <= goroutines+5
	})
}

func (s *soak) make(locks redislock.Provider, n int) {
	options := faultOptions(soakTTL)
	options.RenewalThreshold = 0.5
	for i := range n {
		lock, err := locks.NewLock(s.t.Context(), fmt.Sprint("soak-", i), options)
		succeeds(s.t, "NewLock", err)
		one := &soaked{lock: lock}
		s.locks, s.byKey[lock.GetKey()] = append(s.locks, one), one
	}
}

// settle waits until every loss is told and acquires what is not held.
func (s *soak) settle() {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range soakWorkers {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(s.locks)); i = next.Add(1) - 1 {
				one := s.locks[i]
				for end := time.Now().Add(4 * soakTTL); ; time.Sleep(5 * time.Millisecond) {
					one.mu.Lock()
					held := s.look(one) && (one.held || s.acquire(s.t.Context(), one))
					one.mu.Unlock()
					if held {
						break
					}
					if time.Now().After(end) {
						s.t.Errorf("%s cannot be acquired", one.lock.GetKey())
						break
					}
				}
			}
		})
	}
	workers.Wait()
}

// check compares what is believed with what Redis has.
func (s *soak) check() {
	for _, one := range s.locks {
		owner, err := s.direct.Get(s.t.Context(), redislock.HashTag(one.lock.GetKey())+":owner").Result()
		if one.lock.Err() != nil || err != nil || owner != one.lock.GetValue() {
			s.t.Errorf("%s: believed %v, Redis has %q (%v)", one.lock.GetKey(), one.lock.Err(), owner, err)
		}
		if losses := one.losses.Load(); losses != one.dooms {
			s.t.Errorf("%s was lost %d times, which was told %d times", one.lock.GetKey(), one.dooms, losses)
		}
	}
}

func (s *soak) work(ctx context.Context) {
	for ctx.Err() == nil && !s.t.Failed() {
		one := s.locks[rand.IntN(len(s.locks))]
		if one.mu.TryLock() {
			if s.look(one) {
				s.act(one)
			}
			one.mu.Unlock()
		}
		pauseFor(ctx, rand.N(soakPause))
	}
}

// look is false while a loss has yet to be told. Any other end of a hold is an error.
func (s *soak) look(one *soaked) bool {
	err := one.lock.Err()
	switch {
	case !one.held:
	case one.doomed.IsZero() && err != nil:
		s.t.Errorf("%s: %v, and nobody had taken its key away", one.lock.GetKey(), err)
		one.held = false
	case !one.doomed.IsZero() && err == nil:
		if since := time.Since(one.doomed); since > soakTTL {
			s.t.Errorf("%s: lost %s ago and not told", one.lock.GetKey(), since)
		}
		return false
	case !one.doomed.IsZero():
		one.held, one.doomed = false, time.Time{}
	}
	return true
}

// act does one thing at random.
func (s *soak) act(one *soaked) {
	ctx := s.t.Context()
	if !one.held {
		s.acquire(ctx, one)
		return
	}
	switch p := rand.IntN(100); {
	case p < 50:
		s.ops[1].Add(1)
		one.held = false
		if err := one.lock.Release(ctx); errors.Is(err, redislock.ErrLockLost) {
			s.t.Errorf("%s: %v, and nobody had taken its key away", one.lock.GetKey(), err)
		}
	case p < 90:
		s.ops[2].Add(1)
		_ = one.lock.Renew(ctx, soakTTL) // may meet a cut
	default:
		if n, err := s.direct.Del(ctx, redislock.HashTag(one.lock.GetKey())+":owner").Result(); err == nil && n == 1 {
			s.ops[3].Add(1)
			one.doomed = time.Now()
			one.dooms++
		}
	}
}

func (s *soak) acquire(ctx context.Context, one *soaked) bool {
	s.ops[0].Add(1)
	one.held = one.lock.Acquire(ctx) == nil // after a loss the first one reports it
	return one.held
}

// disturb cuts the network, or silences Redis, and lets a lease's time for recovery pass.
func (s *soak) disturb(ctx context.Context, wire *network) {
	for ctx.Err() == nil {
		pauseFor(ctx, soakTTL/4+rand.N(soakTTL/2))
		if ctx.Err() != nil {
			return
		}
		s.ops[4].Add(1)
		length := soakCut/4 + rand.N(soakCut*3/4)
		if rand.IntN(2) == 0 {
			_ = s.direct.Do(ctx, "CLIENT", "PAUSE", length.Milliseconds(), "ALL").Err()
			continue
		}
		wire.cut(true)
		pauseFor(ctx, length)
		wire.cut(false)
	}
}
