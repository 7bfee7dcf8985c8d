// Package contestant has the locks that are measured, each behind the same two
// methods, used by its public API alone.
//
// All are told to keep a lease of 30 s and to wait until they have the lock. Where a
// library retries, it is entered with the pause it recommends itself and with one of
// 1 to 2 ms, which is as short as its users dare.
package contestant

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// lease is the TTL of every lock.
const lease = 30 * time.Second

// aggressive is the short pause between two tries.
const aggressive = time.Millisecond

// Kind is what others are compared with.
type Kind int

const (
	// Ours is this library.
	Ours Kind = iota
	// Peer is another library.
	Peer
	// Floor is the least that any lock on Redis has to do.
	Floor
)

// Contestant is one way to lock.
type Contestant struct {
	Name string
	Kind Kind
	// NoLock is true of a floor that excludes nobody.
	NoLock bool
	// Once is true when Lock tries once and does not wait.
	Once bool
	// Sleeps is true when Lock can wait for ever although the lock is free: its
	// context has to end some time.
	Sleeps bool
	Open   func(addr string) (Session, error)
}

// Session is a contestant's client in one process.
type Session interface {
	// Locker is one worker's hand on the lock named key.
	Locker(key string) (Locker, error)
	Close() error
}

// Locker is used by one goroutine.
type Locker interface {
	// Lock waits until it has the lock. ctx must not end while the lock is held:
	// some libraries take that for a release.
	Lock(ctx context.Context) error
	Unlock(ctx context.Context) error
}

// The names that goals and ratios are about.
const (
	TwoEvalSha  = "two EVALSHA"
	SetNX       = "SET NX PX + compare-and-delete"
	Bsm         = "bsm 0.10.0"
	BsmOld      = "bsm 0.9.4"
	Redsync     = "redsync 4.18.1"
	Rueidis     = "rueidislock 1.0.79"
	OursRetry   = "ours, retry"
	OursWait    = "ours, wait"
	OursAcquire = "ours, Acquire"
)

// Free are those that take locks nobody else wants.
func Free() []Contestant {
	return []Contestant{
		twoEvalSha, twoEvalShaRueidis, setNX,
		bsm(Bsm, 100*time.Millisecond), bsmOld(BsmOld, 100*time.Millisecond), redsyncRecommended, rueidisLock,
		oursAcquire, cancellable(oursAcquire), oursRetry(OursRetry, 100*time.Millisecond), oursWait,
	}
}

// Contended are those that wait for a lock that others hold.
func Contended() []Contestant {
	return []Contestant{
		setNX,
		bsm(Bsm, 100*time.Millisecond), bsm(Bsm+", aggressive", aggressive), bsmOld(BsmOld, 100*time.Millisecond),
		redsyncRecommended, redsyncAggressive, rueidisLock,
		oursRetry(OursRetry, 100*time.Millisecond), oursWait,
	}
}

// Spinning is Contended beside the floor that excludes nobody, for holds of no time:
// with others it would be many holders at once.
func Spinning() []Contestant { return append([]Contestant{twoEvalSha}, Contended()...) }

// Patient are those for long holds: without what only differs in how it spins.
func Patient() []Contestant {
	return []Contestant{
		setNX, bsm(Bsm, 100*time.Millisecond), redsyncRecommended, rueidisLock,
		oursRetry(OursRetry, 100*time.Millisecond), oursWait,
	}
}

// Held are those whose held locks are weighed, one after another: none may sleep.
func Held() []Contestant {
	return []Contestant{
		setNX, bsm(Bsm, 100*time.Millisecond), redsyncRecommended, rueidisWith(5 * time.Second), oursAcquire, oursUnrenewed,
	}
}

// Several are those of the workloads in several processes; with a hold of no time
// twoEvalSha is the first.
func Several(hold time.Duration) []Contestant {
	all := append(Patient(), bsm(Bsm+", aggressive", aggressive))
	if hold == 0 {
		all = append([]Contestant{twoEvalSha}, all...)
	}
	return all
}

// ByName finds a contestant in another process; nil: there is none.
func ByName(name string) *Contestant {
	for _, c := range append(Free(), Contended()...) {
		if c.Name == name {
			return &c
		}
	}
	return nil
}

// newClient is the go-redis client that all get who are built on one: with its
// defaults, but contexts' deadlines bind, as they do in the client of a Lynx service.
func newClient(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
}
