package redislock_test

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// solo is a standalone server with a lock of ours and a client of the test's own.
type solo struct {
	server  *redistest.Server
	control *redis.Client
	ours    redislock.ContextProvider
	others  redislock.Provider
}

const soloKey = "solo"

func newSolo(t *testing.T, args ...string) *solo {
	t.Helper()
	server := redistest.Start(t, args...)
	return &solo{
		server: server, control: server.Client(t), ours: providerOf(t, server.Client(t)),
		others: redislock.NewProvider(server.Client(t)),
	}
}

// renewing is a lock under renewal, acquired, of which each call has 600 ms.
func (s *solo) renewing(t *testing.T, ttl time.Duration, mods ...option) *redislock.RedisLock {
	t.Helper()
	mods = append([]option{expiration(ttl), renewed, timeout(600 * time.Millisecond)}, mods...)
	lock := lockOf(t, s.ours, soloKey, mods...)
	succeeds(t, "Acquire", lock.Acquire(t.Context()))
	return lock
}

// demote makes the server a replica of one that is not there: a replica that gets
// through to its primary would take that one's data.
func (s *solo) demote(t *testing.T) {
	t.Helper()
	gone := redistest.Start(t)
	gone.Stop()
	host, port, err := net.SplitHostPort(gone.Addr())
	succeeds(t, "the address", err)
	succeeds(t, "REPLICAOF", s.control.ReplicaOf(t.Context(), host, port).Err())
}

func (s *solo) promote(t *testing.T) {
	t.Helper()
	succeeds(t, "REPLICAOF NO ONE", s.control.ReplicaOf(t.Context(), "NO", "ONE").Err())
}

// isSilent is a negative: no script is sent for longer than the leases here are.
func (s *solo) isSilent(t *testing.T) {
	t.Helper()
	before := scriptCalls(t, s.control)
	stays(t, 2*time.Second, "no script is sent any more", func() bool { return scriptCalls(t, s.control) == before })
}

// isRenewedAfter waits until the lease was granted anew by a call sent after then.
func isRenewedAfter(t *testing.T, lock *redislock.RedisLock, then time.Time) {
	t.Helper()
	eventually(t, "the lease is renewed", func() bool {
		succeeds(t, "the hold's Err", lock.Err())
		return lock.GetExpiresAt().After(then.Add(lock.GetExpiration()))
	})
}

// isLostBy waits for the loss and checks its reason, and that it was told no later
// than at the hold's own deadline.
func isLostBy(t *testing.T, lock *redislock.RedisLock, reason redislock.LossReason) {
	t.Helper()
	closes(t, "Done", lock.Done())
	var loss *redislock.LostError
	if err := lock.Err(); !errors.As(err, &loss) || loss.Reason != reason {
		t.Fatalf("Err is %v, want a loss: %s", err, reason)
	}
	if late := loss.At.Sub(lock.GetExpiresAt()); late > lateness {
		t.Fatalf("the holder was told %s after its deadline", late)
	}
}

var demotions = []struct {
	name string
	run  func(*testing.T, *solo)
}{
	{"an acquire says READONLY when its time is up", acquireOfDemoted},
	{"a lease survives when its server is promoted in time", promotedInTime},
	{"a holder is told at its deadline", neverPromoted},
	{"a release ends the renewal, and can be repeated", releaseOfDemoted},
	{"a replica that has taken the data of its primary has lost the lock", dataReplaced},
}

// TestADemotedPrimary is about a client that goes on talking to a server which has
// become a replica: nobody tells a plain client where the primary is.
func TestADemotedPrimary(t *testing.T) {
	t.Parallel()
	for _, row := range demotions {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			row.run(t, newSolo(t))
		})
	}
}

func acquireOfDemoted(t *testing.T, s *solo) {
	const own = 300 * time.Millisecond
	s.demote(t)
	lock := lockOf(t, s.ours, soloKey, timeout(own))
	// On a busy machine the last of the sends may get no connection in its few
	// milliseconds, and the error names that instead.
	eventually(t, "an Acquire says READONLY", func() bool {
		before, start := scriptCalls(t, s.control), time.Now()
		err := lock.Acquire(t.Context())
		took := time.Since(start)
		failsAs(t, "Acquire", err, redislock.ErrLockAcquireFailed)
		between(t, "the time of a call that has "+own.String(), took, own-time.Millisecond, own+lateness)
		if sent := scriptCalls(t, s.control) - before; sent < 3 {
			t.Errorf("it was sent %d times, want repeats: the server may be promoted again", sent)
		}
		return strings.Contains(err.Error(), "READONLY")
	})
	s.isSilent(t) // nothing ran, so nothing is to be cleaned up
	s.promote(t)
	succeeds(t, "Acquire", lock.Acquire(t.Context()))
	equal(t, "the token", lock.GetToken(), 1)
}

func promotedInTime(t *testing.T, s *solo) {
	lock := s.renewing(t, 6*time.Second, func(o *redislock.LockOptions) {
		o.RenewalConfig.CallTimeout = 100 * time.Millisecond
	})
	s.demote(t)
	before := scriptCalls(t, s.control)
	// A call of 100 ms that is refused is sent 7 times at most: these are several calls.
	eventually(t, "the renewal is repeated", func() bool { return scriptCalls(t, s.control) > before+14 })
	promoted := time.Now()
	s.promote(t)
	isRenewedAfter(t, lock, promoted)
	succeeds(t, "Release", lock.Release(t.Context()))
	equal(t, "what is left of the owner key", s.control.Exists(t.Context(), redislock.HashTag(soloKey)+":owner").Val(), 0)
}

func neverPromoted(t *testing.T, s *solo) {
	lock := s.renewing(t, 1500*time.Millisecond)
	s.demote(t)
	isLostBy(t, lock, "expired")
	// Not before either: until then Redis may come back, and no one else can get it.
	if left := time.Until(lock.GetExpiresAt()); left > 0 {
		t.Errorf("the holder was told %s before its deadline", left)
	}
	s.isSilent(t)
}

func releaseOfDemoted(t *testing.T, s *solo) {
	lock := s.renewing(t, 1500*time.Millisecond)
	s.demote(t)
	err := lock.Release(t.Context())
	if err == nil || errors.Is(err, redislock.ErrLockNotHeld) {
		t.Fatalf("Release: %v, want an error, and none that says it is not held", err)
	}
	s.isSilent(t)
	s.promote(t)
	succeeds(t, "the repeated Release", lock.Release(t.Context()))
	succeeds(t, "another's Acquire", lockOf(t, s.others, soloKey).Acquire(t.Context()))
}

func dataReplaced(t *testing.T, s *solo) {
	lock := s.renewing(t, 3*time.Second)
	primary := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	host, port, err := net.SplitHostPort(primary.Addr())
	succeeds(t, "the address", err)
	succeeds(t, "REPLICAOF", s.control.ReplicaOf(t.Context(), host, port).Err())
	isLostBy(t, lock, "vanished")
	s.isSilent(t)
}

func TestARestartWithAnAppendOnlyFileKeepsTheLock(t *testing.T) {
	t.Parallel()
	s := newSolo(t, "--appendonly", "yes", "--appendfsync", "always")
	lock := s.renewing(t, 3*time.Second)
	s.server.Restart(t)
	restarted := time.Now()
	other := lockOf(t, s.others, soloKey)
	failsAs(t, "another's Acquire", other.Acquire(t.Context()), redislock.ErrLockAcquireConflict)
	isRenewedAfter(t, lock, restarted)
	succeeds(t, "Release", lock.Release(t.Context()))
	succeeds(t, "another's Acquire", other.Acquire(t.Context()))
	equal(t, "the token of the next hold", other.GetToken(), lock.GetToken()+1)
}

func TestARestartWithoutPersistenceTellsTheHolder(t *testing.T) {
	t.Parallel()
	t.Run("by its next renewal", func(t *testing.T) {
		t.Parallel()
		s := newSolo(t)
		lock := s.renewing(t, 3*time.Second)
		s.server.Restart(t)
		isLostBy(t, lock, "vanished")
		if lock.GetExpiresAt().Before(time.Now()) {
			t.Error("the holder learned of it at its deadline only")
		}
		failsAs(t, "Release", lock.Release(t.Context()), redislock.ErrLockNotHeld, redislock.ErrLockLost)
		s.isSilent(t)
	})
	t.Run("or by its release, which leaves the next hold alone", func(t *testing.T) {
		t.Parallel()
		s := newSolo(t)
		lock := s.renewing(t, time.Minute) // its renewal does not come in this test
		s.server.Restart(t)
		other := lockOf(t, s.others, soloKey)
		succeeds(t, "another's Acquire", other.Acquire(t.Context()))
		failsAs(t, "Release", lock.Release(t.Context()), redislock.ErrLockNotHeld, redislock.ErrLockLost)
		held, err := other.IsLocked(t.Context())
		succeeds(t, "IsLocked", err)
		equal(t, "the other holds it still", held, true)
		succeeds(t, "the other's Release", other.Release(t.Context()))
	})
}
