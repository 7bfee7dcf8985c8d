package redislock_test

import (
	"slices"
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// stats is GetStats, checked for its keys.
func stats(t *testing.T) map[string]int64 {
	t.Helper()
	got := redislock.GetStats()
	var names []string
	for name := range got {
		names = append(names, name)
	}
	slices.Sort(names)
	want := []string{
		"active_locks", "renew_latency_count", "renew_latency_ns", "renew_lateness_count", "renew_lateness_ns", "renewal_count", "renewal_errors",
		"skipped_renewals", "total_locks", "worker_queue_cap", "worker_queue_len",
	}
	if !slices.Equal(names, want) {
		t.Fatalf("GetStats has %v, want %v", names, want)
	}
	return got
}

// grown are the numbers that have changed since, without the time, which nobody
// knows beforehand.
func grown(t *testing.T, before map[string]int64) map[string]int64 {
	t.Helper()
	changes := map[string]int64{}
	for name, n := range stats(t) {
		if n != before[name] && name != "renew_latency_ns" {
			changes[name] = n - before[name]
		}
	}
	return changes
}

func wantGrown(t *testing.T, before, want map[string]int64) {
	t.Helper()
	got := grown(t, before)
	for name := range want {
		equal(t, name, got[name], want[name])
	}
	for name := range got {
		equal(t, name, got[name], want[name])
	}
}

var statsContract = []behaviour{
	{"active_locks_and_total_locks_count_the_holds_under_renewal", func(t *testing.T, b *bed) {
		before := stats(t)
		lock := b.held(t, renewed)
		wantGrown(t, before, map[string]int64{"active_locks": 1, "total_locks": 1})
		must(t, "a reentry", lock.Acquire(t.Context()))
		lock.EnableAutoRenew(options())
		wantGrown(t, before, map[string]int64{"active_locks": 1, "total_locks": 1})
		must(t, "a partial Release", lock.Release(t.Context()))
		wantGrown(t, before, map[string]int64{"active_locks": 1, "total_locks": 1})
		must(t, "Release", lock.Release(t.Context()))
		wantGrown(t, before, nil)
		plain := b.held(t)
		wantGrown(t, before, nil)
		plain.EnableAutoRenew(options())
		wantGrown(t, before, map[string]int64{"active_locks": 1, "total_locks": 1})
		must(t, "UnlockByValue", b.locks.UnlockByValue(t.Context(), b.key, plain.GetValue()))
		wantGrown(t, before, nil)
	}},
	{"a_lost_lock_is_not_in_active_locks", func(t *testing.T, b *bed) {
		before := stats(t)
		lock := b.held(t, renewed)
		b.del(t, b.ownerKey())
		_, _ = lock.IsLocked(t.Context())
		wantGrown(t, before, nil)
	}},
	{"a_release_without_an_answer_is_not_in_active_locks", func(t *testing.T, b *bed) {
		before := stats(t)
		lock := b.held(t, renewed, timeout(callTimeout))
		b.wire.refuse()
		_ = lock.Release(t.Context())
		b.wire.heal()
		wantGrown(t, before, nil)
	}},
	{"renewals_and_their_errors_are_counted", func(t *testing.T, b *bed) {
		before := stats(t)
		lock := b.held(t, timeout(callTimeout))
		must(t, "Renew", lock.Renew(t.Context(), time.Minute))
		wantGrown(t, before, map[string]int64{"renewal_count": 1, "renew_latency_count": 1})
		if stats(t)["renew_latency_ns"] <= before["renew_latency_ns"] {
			t.Error("renew_latency_ns has not grown")
		}
		b.wire.refuse()
		_ = lock.Renew(t.Context(), time.Minute)
		b.wire.heal()
		wantGrown(t, before, map[string]int64{"renewal_count": 1, "renewal_errors": 1, "renew_latency_count": 2})
	}},
	{"worker_queue_cap_is_the_size_of_the_pool", func(t *testing.T, b *bed) {
		equal(t, "worker_queue_len", stats(t)["worker_queue_len"], 0)
		if size := stats(t)["worker_queue_cap"]; size < 1 {
			t.Errorf("worker_queue_cap %d", size)
		}
		lock := b.held(t, renewed, func(o *redislock.LockOptions) { o.WorkerPoolSize = 77 })
		if size := stats(t)["worker_queue_cap"]; size < 77 {
			t.Errorf("worker_queue_cap %d with a pool of 77", size)
		}
		must(t, "Release", lock.Release(t.Context()))
	}},
}
