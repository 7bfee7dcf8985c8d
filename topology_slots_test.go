package redislock_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// A slot on the move answers TRYAGAIN to every script of which some keys are absent
// or have moved already. What a holder needs, renewal and release, does without
// them; what takes a lock waits until the slot has moved.

// moving is a test's lock and the move of its slot to another primary.
type moving struct {
	*bed
	cluster *redistest.Cluster
	move    *redistest.SlotMove
}

// beginMove marks the slot of the test's key as being moved.
func (m *moving) beginMove(t *testing.T) {
	t.Helper()
	m.move = m.cluster.BeginMove(t, m.cluster.Slot(m.ownerKey()), m.elsewhere(t))
}

// elsewhere is a primary that does not have the slot of the test's key.
func (m *moving) elsewhere(t *testing.T) *redistest.Server {
	t.Helper()
	own := m.cluster.PrimaryFor(t, m.ownerKey())
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} { // of several slots
		if other := m.cluster.PrimaryFor(t, key); other != own {
			return other
		}
	}
	t.Fatal("one primary has every slot")
	return nil
}

// slotStages are the states of a move, each entered from the one before.
var slotStages = []struct {
	name  string
	enter func(*testing.T, *moving)
}{
	{"marked", func(*testing.T, *moving) {}},
	{"half moved", func(t *testing.T, m *moving) { m.move.MoveKey(t, m.tokenKey()) }},
	{"moved", func(t *testing.T, m *moving) { m.move.MoveKeys(t) }},
	{"finished", func(t *testing.T, m *moving) { m.move.Finish(t) }},
}

func TestSlotsMove(t *testing.T) {
	cluster := redistest.StartCluster(t)
	e := clusterEnv(t, cluster)
	for _, c := range []struct {
		sentence string
		check    func(*testing.T, *moving)
	}{
		{"a_renewed_lock_is_renewed_in_every_stage", renewedInEveryStage},
		{"a_reentered_lock_is_renewed_while_its_count_has_moved_and_its_owner_has_not", renewedWhileSplit},
		{"a_release_frees_the_lock_in_every_stage", releasedInEveryStage},
		{"a_release_that_owes_a_mark_frees_the_lock_at_once_and_leaves_the_mark_later", releaseOwesMark},
		{"what_an_unanswered_acquire_took_is_freed_and_marked_while_the_slot_moves", cleanupOwesMark},
		{"an_acquire_is_refused_in_its_own_time_and_leaves_nothing", acquireOnTheMove},
		{"a_waiter_gets_the_lock_when_the_slot_has_moved", waiterOnTheMove},
		{"no_two_holders_while_the_slot_goes_to_and_fro", contendedOnTheMove},
	} {
		t.Run(c.sentence, func(t *testing.T) { // one after another: a Cluster moves one slot at a time
			c.check(t, &moving{bed: newBed(t, e), cluster: cluster})
		})
	}
}

// renewals waits until the owner's lease was lengthened twice.
func (m *moving) renewals(t *testing.T, stage string, lock *redislock.RedisLock) {
	t.Helper()
	for range 2 {
		was := lock.GetExpiresAt()
		eventually(t, stage+": renewed", func() bool { return lock.Err() != nil || lock.GetExpiresAt().After(was) })
	}
	must(t, stage+": Err", lock.Err())
	equal(t, stage+": the owner", m.get(t, m.ownerKey()), lock.GetValue())
}

func renewedInEveryStage(t *testing.T, m *moving) {
	lock := m.held(t, renewed, expiration(time.Second))
	m.beginMove(t)
	for _, stage := range slotStages {
		stage.enter(t, m)
		m.renewals(t, stage.name, lock)
		held, err := lock.IsLocked(t.Context())
		must(t, stage.name+": IsLocked", err)
		equal(t, stage.name+": IsLocked", held, true)
		must(t, stage.name+": Renew", lock.Renew(t.Context(), time.Second))
	}
	must(t, "Release", lock.Release(t.Context()))
	equal(t, "the owner", m.get(t, m.ownerKey()), "")
}

func renewedWhileSplit(t *testing.T, m *moving) {
	lock := m.held(t, renewed, expiration(time.Second))
	must(t, "Acquire", lock.Acquire(t.Context()))
	m.beginMove(t)
	m.move.MoveKey(t, m.countKey())
	m.renewals(t, "split", lock)
	m.move.Finish(t)
	m.renewals(t, "finished", lock)
	must(t, "the inner Release", lock.Release(t.Context()))
	must(t, "Err", lock.Err())
	must(t, "the outer Release", lock.Release(t.Context()))
	equal(t, "the owner", m.get(t, m.ownerKey()), "")
	equal(t, "the count", m.get(t, m.countKey()), "")
}

func releasedInEveryStage(t *testing.T, m *moving) {
	for i, stage := range slotStages {
		for _, levels := range []int{1, 2} {
			lock := m.held(t)
			for range levels - 1 {
				must(t, "Acquire", lock.Acquire(t.Context()))
			}
			m.beginMove(t)
			for _, s := range slotStages[:i+1] {
				s.enter(t, m)
			}
			for range levels {
				must(t, stage.name+": Release", lock.Release(t.Context()))
			}
			equal(t, stage.name+": the owner", m.get(t, m.ownerKey()), "")
			m.move.Finish(t)
			equal(t, stage.name+": the owner after the move", m.get(t, m.ownerKey()), "")
		}
	}
}

// markKeys are the marks of given-up values that the lock has now.
func (m *moving) markKeys(t *testing.T) []string {
	t.Helper()
	owner := m.cluster.PrimaryFor(t, m.ownerKey())
	keys, err := owner.Client(t).Keys(t.Context(), "*:mark:*").Result()
	must(t, "KEYS", err)
	var own []string
	for _, key := range keys {
		if strings.HasPrefix(key, redislock.HashTag(m.key)) {
			own = append(own, key)
		}
	}
	return own
}

func releaseOwesMark(t *testing.T, m *moving) {
	lock := m.lock(t)
	m.wire.loseReplies(1) // of the acquire: its first send may arrive again at any time
	must(t, "Acquire", lock.Acquire(t.Context()))
	m.beginMove(t)
	must(t, "Release", lock.Release(t.Context()))
	equal(t, "the owner", m.get(t, m.ownerKey()), "")
	m.move.Finish(t)
	eventually(t, "the mark is there", func() bool { return len(m.markKeys(t)) == 1 })
}

func cleanupOwesMark(t *testing.T, m *moving) {
	lock := m.lock(t, func(o *redislock.LockOptions) { o.ScriptCallTimeout = 2 * time.Second })
	// The acquire runs twice without an answer; the cleanup behind it gets no
	// connection until the slot is on the move.
	m.wire.loseReplies(2)
	var sends atomic.Int32
	m.wire.break_(func(ctx context.Context, send func(context.Context) error) error {
		if sends.Add(1) > 2 {
			return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}
		return send(ctx)
	})
	wantIs(t, lock.Acquire(t.Context()), redislock.ErrLockAcquireFailed)
	if m.get(t, m.ownerKey()) == "" {
		t.Fatal("the acquire has taken nothing")
	}
	m.beginMove(t)
	m.wire.heal()
	eventually(t, "the owner is gone", func() bool { return m.get(t, m.ownerKey()) == "" })
	m.move.Finish(t)
	eventually(t, "the mark is there", func() bool { return len(m.markKeys(t)) == 1 })
}

func acquireOnTheMove(t *testing.T, m *moving) {
	m.beginMove(t)
	lock := m.lock(t, renewed, func(o *redislock.LockOptions) { o.ScriptCallTimeout = 300 * time.Millisecond })
	err := lock.Acquire(t.Context())
	wantIs(t, err, redislock.ErrLockAcquireFailed, context.DeadlineExceeded)
	if !strings.Contains(err.Error(), "TRYAGAIN") {
		t.Errorf("the error does not name TRYAGAIN: %v", err)
	}
	m.move.Finish(t)
	equal(t, "the owner", m.get(t, m.ownerKey()), "")
	must(t, "Acquire after the move", lock.Acquire(t.Context()))
	must(t, "Release", lock.Release(t.Context()))
}

func waiterOnTheMove(t *testing.T, m *moving) {
	lock := m.held(t)
	waiter := lockOf(t, m.provider(t), m.key)
	got := async(func() error { return waiter.AcquireWait(t.Context()) })
	m.beginMove(t)
	must(t, "Release", lock.Release(t.Context()))
	m.move.MoveKeys(t)
	m.move.Finish(t)
	must(t, "AcquireWait", closes(t, "the waiter has the lock", got))
	must(t, "Release", waiter.Release(t.Context()))
}

func contendedOnTheMove(t *testing.T, m *moving) {
	ctx, stop := context.WithCancel(t.Context())
	var inside, overlaps, done atomic.Int64
	var workers []<-chan error
	for range 6 {
		locks := m.provider(t)
		workers = append(workers, async(func() error {
			for ctx.Err() == nil {
				options := options(renewed, expiration(2*time.Second))
				options.WaitTimeout = -1
				err := locks.LockWithOptions(ctx, m.key, options, func() error {
					if inside.Add(1) != 1 {
						overlaps.Add(1)
					}
					time.Sleep(time.Millisecond)
					inside.Add(-1)
					done.Add(1)
					return nil
				})
				if err != nil && !errors.Is(err, context.Canceled) {
					return err
				}
			}
			return nil
		}))
	}
	for range 6 {
		m.beginMove(t)
		m.move.MoveKeys(t)
		m.move.Finish(t)
		was := done.Load()
		eventually(t, "the workers go on", func() bool { return done.Load() > was+20 })
	}
	stop()
	for _, worker := range workers {
		must(t, "a worker", closes(t, "it ends", worker))
	}
	equal(t, "overlaps", overlaps.Load(), 0)
	eventually(t, "the owner is gone", func() bool { return m.get(t, m.ownerKey()) == "" })
}
