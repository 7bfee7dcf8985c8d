package redistest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// quickly: a client whose primary refuses connections does not by itself look
// for the replica that was promoted, so it must look often.
func quickly(o *redis.ClusterOptions) { o.ClusterStateReloadInterval = 100 * time.Millisecond }

func TestAClusterFailsOverAgainAndAgain(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	cl := redistest.StartCluster(t)
	t.Log("start:", time.Since(begin))
	c := cl.Client(t, quickly)
	var keys []string
	for round := range 3 {
		for _, forced := range []bool{false, true} {
			key := fmt.Sprint("key", round, forced)
			put(t, c, key)
			keys = append(keys, key)
			old, replica := cl.PrimaryFor(t, key), cl.ReplicaFor(t, key)
			eventually(t, "the replica has the key", func() bool { return holds(t, replica, key) })
			if forced {
				plausible(t, "forced", cl.Failover(t, key), time.Millisecond)
			} else {
				if killed := cl.KillPrimaryFor(t, key); killed != old || !refuses(old.Addr()) {
					t.Fatalf("killed %s, want the primary %s", killed.Addr(), old.Addr())
				}
				took := cl.AwaitFailover(t, key, old)
				plausible(t, "killed", took, time.Second)
				if again := cl.AwaitFailover(t, key, old); again != took {
					t.Errorf("a failover of %v took %v when it was asked again", took, again)
				}
			}
			begin = time.Now()
			cl.Heal(t)
			t.Log("heal:", time.Since(begin))
			if cl.PrimaryFor(t, key) != replica || cl.ReplicaFor(t, key) != old {
				t.Error("the replica and the primary have not changed places")
			}
			has(t, c, keys...)
		}
	}
}

// holds asks one node for a key it may have to redirect for.
func holds(t *testing.T, s *redistest.Server, key string) bool {
	t.Helper()
	n, err := s.Client(t).Do(t.Context(), "CLUSTER", "COUNTKEYSINSLOT", slotOf(key)).Int()
	return err == nil && n > 0
}

func slotOf(key string) uint16 { return (*redistest.Cluster)(nil).Slot(key) }

func TestAClusterHealsWhatIsFrozenOrDead(t *testing.T) {
	t.Parallel()
	cl := redistest.StartCluster(t)
	c := cl.Client(t, quickly)
	put(t, c, "a")
	old, replica := cl.PrimaryFor(t, "a"), cl.ReplicaFor(t, "a")
	eventually(t, "the replica has the key", func() bool { return holds(t, replica, "a") })
	old.Pause()
	plausible(t, "frozen", cl.AwaitFailover(t, "a", old), time.Second)
	cl.Heal(t)
	if got := role(t, old); got != "slave" {
		t.Errorf("the frozen primary is a %s after Heal", got)
	}
	cl.KillPrimaryFor(t, "a")
	cl.Heal(t)
	has(t, c, "a") // because Heal waited for the failover
	cl.ReplicaFor(t, "a").Stop()
	if got := failsWith(t, func(tb testing.TB) { cl.ReplicaFor(tb, "a") }); !strings.Contains(got, "no living replica") {
		t.Errorf("failed with %q", got)
	}
	cl.Heal(t)
	for _, s := range cl.Servers() {
		if role(t, s) == "master" {
			s.Stop() // no majority is left to elect anyone
		}
	}
	cl.Heal(t)
	put(t, c, "b")
}

func TestASlotMovesWithItsKeys(t *testing.T) {
	t.Parallel()
	cl := redistest.StartCluster(t)
	c := cl.Client(t)
	var keys []string
	for i := range 250 { // more than one batch
		keys = append(keys, fmt.Sprint("{tag}", i))
		put(t, c, keys[i])
	}
	if err := c.Set(t.Context(), "{tag}ttl", "v", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	to := other(t, cl, "tag")
	cl.MoveSlot(t, cl.Slot("tag"), to)
	if got := cl.PrimaryFor(t, "tag"); got != to {
		t.Errorf("the slot is at %s, want %s", got.Addr(), to.Addr())
	}
	has(t, c, keys...)
	if ttl := c.TTL(t.Context(), "{tag}ttl").Val(); ttl < time.Minute {
		t.Errorf("the TTL is %v", ttl)
	}
	if got := failsWith(t, func(tb testing.TB) { cl.MoveSlot(tb, cl.Slot("tag"), to) }); !strings.Contains(got, "already") {
		t.Errorf("failed with %q", got)
	}
	// What has moved stays moved, and goes on to the replica.
	cl.Failover(t, "tag")
	has(t, c, keys...)
}

// other is a primary which does not serve key.
func other(t *testing.T, cl *redistest.Cluster, key string) *redistest.Server {
	t.Helper()
	for i := range 1000 {
		if s := cl.PrimaryFor(t, fmt.Sprint(i)); s != cl.PrimaryFor(t, key) {
			return s
		}
	}
	t.Fatal("all slots are at one primary")
	return nil
}

func TestATestCanActInTheMiddleOfAMove(t *testing.T) {
	t.Parallel()
	cl := redistest.StartCluster(t)
	c := cl.Client(t)
	put(t, c, "{tag}1")
	from, to := cl.PrimaryFor(t, "tag"), other(t, cl, "tag")
	at := func(s *redistest.Server, key string) string {
		err := s.Client(t, oneTry).Get(t.Context(), key).Err()
		switch {
		case err == nil:
			return "value"
		case errors.Is(err, redis.Nil):
			return "nil"
		}
		verb, _, _ := strings.Cut(err.Error(), " ")
		return verb
	}
	want := func(when, fromPresent, fromAbsent, toPresent string) {
		t.Helper()
		got := fmt.Sprint(at(from, "{tag}1"), at(from, "{tag}absent"), at(to, "{tag}1"))
		if got != fmt.Sprint(fromPresent, fromAbsent, toPresent) {
			t.Errorf("%s: the old owner and the new one say %s", when, got)
		}
		has(t, c, "{tag}1")
	}
	want("before", "value", "nil", "MOVED")
	move := cl.BeginMove(t, cl.Slot("tag"), to)
	want("begun", "value", "ASK", "MOVED")
	move.MoveKeys(t)
	want("keys moved", "ASK", "ASK", "MOVED")
	put(t, c, "{tag}2") // created at the new owner
	if cl.PrimaryFor(t, "tag") != from {
		t.Error("the owner has changed before Finish")
	}
	move.Finish(t)
	want("finished", "MOVED", "MOVED", "value")
	has(t, c, "{tag}2")
}
