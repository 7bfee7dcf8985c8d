package fence_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/go-lynx/lynx-redis-lock/fence"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
	"github.com/go-lynx/lynx-redis-lock/internal/slot"
)

func TestAppliedKey(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"stock:42":     "applied-token:{stock:42}",
		"{stock:42}:n": "{stock:42}:n:applied-token",
		"{a}":          "{a}:applied-token",
		"a":            "applied-token:{a}",
		"a{b":          "applied-token:{a{b}",
		"a}b{c}":       "a}b{c}:applied-token",
	} {
		got, err := fence.AppliedKey(key)
		must(t, key, err)
		equal(t, key, got, want)
	}
	for key, want := range map[string]string{
		"":      `key "" must not be empty`,
		"a}":    `key "a}" must have a hash tag`,
		"{}a":   `key "{}a" must have a hash tag`,
		"{}{a}": `key "{}{a}" must have a hash tag`,
	} {
		_, err := fence.AppliedKey(key)
		invalid(t, err, want)
	}
}

// Both keys are in one slot, and no two resources share an applied token.
func FuzzAppliedKey(f *testing.F) {
	for _, key := range []string{"a", "{a}", "{a}:applied-token", "applied-token:{a}", "a{b}c", "{{a}}", "a{", "}", "{}", "\x00{\xff}"} {
		f.Add(key, "{"+key+"}")
		f.Add(key, strings.TrimSuffix(strings.TrimPrefix(key, "{"), "}"))
	}
	f.Fuzz(func(t *testing.T, key, other string) {
		applied, err := fence.AppliedKey(key)
		if err != nil {
			if !errors.Is(err, fence.ErrInvalid) {
				t.Fatalf("error %v", err)
			}
			return
		}
		if slot.Of(applied) != slot.Of(key) {
			t.Errorf("%q is in another slot than %q", applied, key)
		}
		if others, err := fence.AppliedKey(other); err == nil && others == applied && other != key {
			t.Errorf("%q and %q share %q", key, other, applied)
		}
		if applied == key {
			t.Errorf("%q is its own", key)
		}
	})
}

func TestNewRedisRefuses(t *testing.T) {
	t.Parallel()
	_, err := fence.NewRedis(nil)
	invalid(t, err, "client must not be nil")
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	t.Cleanup(func() { _ = ring.Close() })
	_, err = fence.NewRedis(ring)
	invalid(t, err, "Ring must not be used")
}

func TestInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	client := cluster.Client(t)
	fenced := newFence(t, client)

	t.Run("every key's applied token is in its slot", func(t *testing.T) {
		primaries := map[*redistest.Server]bool{}
		for n := range 60 {
			for _, key := range []string{fmt.Sprint("stock:", n), fmt.Sprintf("{order:%d}:state", n)} {
				must(t, key, fenced.Set(t.Context(), key, int64(n)+1, "v", 0))
				if n%20 == 0 {
					primaries[cluster.PrimaryFor(t, key)] = true
				}
			}
		}
		if len(primaries) < 2 {
			t.Errorf("all keys are on %d primary", len(primaries))
		}
	})
	t.Run("a further key in another slot is refused before anything is written", func(t *testing.T) {
		_, err := fenced.Run(t.Context(), "{a}:x", 1, addScript, []string{"{b}:x"}, 1)
		if !redis.HasErrorPrefix(err, "CROSSSLOT") {
			t.Errorf("error %v", err)
		}
		equal(t, "the applied token", get(t, client, "{a}:x:applied-token"), "")
	})
	t.Run("a failover keeps the value and its token", func(t *testing.T) {
		must(t, "Set", fenced.Set(t.Context(), "moved", 7, "seven", 0))
		cluster.Failover(t, "moved")
		stale(t, fenced.Set(t.Context(), "moved", 6, "six", 0), 6, 7)
		equal(t, "the value", get(t, client, "moved"), "seven")
	})
}
