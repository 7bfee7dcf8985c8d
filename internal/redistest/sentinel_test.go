package redistest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// put writes a key, whatever fails over meanwhile.
func put(t *testing.T, c redis.UniversalClient, key string) {
	t.Helper()
	eventually(t, "a write of "+key, func() bool { return c.Set(t.Context(), key, key, 0).Err() == nil })
}

// spread waits until every one of these servers has the key.
func spread(t *testing.T, servers []*redistest.Server, key string) {
	t.Helper()
	for _, s := range servers {
		c := s.Client(t)
		eventually(t, s.Addr()+" has "+key, func() bool { return c.Get(t.Context(), key).Val() == key })
	}
}

// has wants the keys that were put before.
func has(t *testing.T, c redis.UniversalClient, keys ...string) {
	t.Helper()
	for _, key := range keys {
		var got string
		eventually(t, "a read of "+key, func() bool {
			var err error
			got, err = c.Get(t.Context(), key).Result()
			return err == nil || errors.Is(err, redis.Nil)
		})
		if got != key {
			t.Errorf("%s is lost, GET = %q", key, got)
		}
	}
}

// role is what a server says of itself.
func role(t *testing.T, s *redistest.Server) string {
	t.Helper()
	reply, err := s.Client(t).Do(t.Context(), "ROLE").Slice()
	if err != nil {
		t.Fatal(err)
	}
	return reply[0].(string)
}

// plausible: a time that is not measured from the cause is far below the time
// after which a silent primary is given up, or far above.
func plausible(t *testing.T, what string, took, least time.Duration) {
	t.Helper()
	t.Logf("%s: %v", what, took)
	if took < least || took > 50*time.Second {
		t.Errorf("%s took %v", what, took)
	}
}

func TestSentinelFailsOverAgainAndAgain(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	s := redistest.StartSentinel(t)
	t.Log("start:", time.Since(begin))
	c := s.Client(t)
	var keys []string
	for round := range 3 {
		for _, forced := range []bool{false, true} {
			key := fmt.Sprint("key", round, forced)
			put(t, c, key)
			spread(t, s.Servers(), key)
			keys = append(keys, key)
			old := s.Primary(t)
			if forced {
				plausible(t, "forced", s.Failover(t), time.Millisecond)
			} else {
				if killed := s.KillPrimary(t); killed != old || !refuses(old.Addr()) {
					t.Fatalf("killed %s, want the primary %s", killed.Addr(), old.Addr())
				}
				took := s.AwaitFailover(t, old)
				plausible(t, "killed", took, 500*time.Millisecond)
				if again := s.AwaitFailover(t, old); again != took {
					t.Errorf("a failover of %v took %v when it was asked again", took, again)
				}
			}
			begin = time.Now()
			s.Heal(t)
			t.Log("heal:", time.Since(begin))
			succeeded(t, s, old)
			has(t, c, keys...)
		}
	}
}

// succeeded wants one primary, and not the old one.
func succeeded(t *testing.T, s *redistest.Sentinel, old *redistest.Server) {
	t.Helper()
	primary := s.Primary(t)
	if primary == old {
		t.Error("the primary is the same")
	}
	for _, server := range s.Servers() {
		if got := role(t, server); (got == "master") != (server == primary) {
			t.Errorf("%s is a %s, the primary is %s", server.Addr(), got, primary.Addr())
		}
	}
}

func TestSentinelHealsWhatIsFrozenOrDead(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	c := s.Client(t)
	put(t, c, "before")
	spread(t, s.Servers(), "before")
	frozen := s.Primary(t)
	frozen.Pause()
	s.Sentinels()[0].Stop()
	plausible(t, "frozen", s.AwaitFailover(t, frozen), 500*time.Millisecond)
	s.Heal(t)
	if got := role(t, frozen); got != "slave" {
		t.Errorf("the frozen primary is a %s after Heal", got)
	}
	put(t, c, "after")
	spread(t, s.Servers(), "after")
	has(t, c, "before", "after")
	// Two can only be a majority if the one that was dead is well again.
	s.Sentinels()[1].Pause()
	s.KillPrimary(t)
	s.Heal(t) // which waits for the failover, or all would be lost
	has(t, c, "before", "after")
	for _, server := range s.Servers() {
		server.Stop()
	}
	s.Heal(t)
	put(t, c, "later")
}

func TestAServerUnderSentinelRemembersItsRole(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	old := s.Primary(t)
	s.Failover(t)
	old.Restart(t)
	if got := role(t, old); got != "slave" {
		t.Errorf("the old primary is a %s after a restart", got)
	}
	s.Heal(t)
	fresh := s.Primary(t)
	fresh.Restart(t)
	if got := role(t, fresh); got != "master" {
		t.Errorf("the new primary is a %s after a restart", got)
	}
}

func TestSentinelTakesServerOptionsAndNamesItself(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, "--min-replicas-to-write", "2")
	addrs := s.Addrs()
	for _, watcher := range s.Sentinels() {
		if !slices.Contains(addrs, watcher.Addr()) {
			t.Errorf("%s is not in %v", watcher.Addr(), addrs)
		}
	}
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: addrs[2]})
	t.Cleanup(func() { _ = sentinel.Close() })
	master, err := sentinel.GetMasterAddrByName(t.Context(), s.MasterName()).Result()
	if err != nil || strings.Join(master, ":") != s.Primary(t).Addr() {
		t.Errorf("the Sentinel names %v, %v", master, err)
	}
	if err := s.Client(t).Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Error(err) // the primary counts both replicas at once
	}
	replica := s.Servers()[1]
	if err := replica.Client(t, oneTry).Set(t.Context(), "k", "v", 0).Err(); !redis.IsReadOnlyError(err) {
		t.Errorf("a replica said %v to a write", err)
	}
	if got := failsWith(t, func(tb testing.TB) { s.AwaitFailover(tb, replica) }); !strings.Contains(got, "never stopped") {
		t.Errorf("failed with %q", got)
	}
}
