package redislock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// Rows about batches. One worker, whose first renewal is answered late: what falls
// due meanwhile goes out together.
var faultRowsBatch = []faultRow{
	{name: "a batch answers for each lock", run: batchAnswersForEach},
	{name: "a batch runs twice", run: func(t *testing.T, r *faultRig) {
		r.proxy.DuplicateRequests(1<<30, requestsOf(t, "renew_many"))
		newBatch(t, r, 8).isRenewed(t)
	}},
	{name: "the reply of a batch is lost", run: batchReplyLost},
	{name: "the reply of a batch comes too late", run: func(t *testing.T, r *faultRig) {
		r.proxy.DelayReplies(2*batchCall, 1, requestsOf(t, "renew_many"))
		newBatch(t, r, 8).isRenewed(t)
	}},
	{name: "a release overtakes the batch its renewal is in", run: releaseOvertakesBatch},
	{name: "locks in a batch keep their own options", run: batchOwnOptions},
	{name: "the lease that ends first goes first", run: urgentGoFirst},
}

const (
	batchTTL  = 4 * time.Second // due after half of it
	batchCall = 1200 * time.Millisecond
	batchWait = 500 * time.Millisecond // of the worker, less than half of the call
)

func batchOptions() redislock.LockOptions {
	options := faultOptions(batchTTL)
	options.RenewalThreshold = 0.5
	options.WorkerPoolSize = 1
	options.RenewalConfig.CallTimeout = batchCall
	return options
}

// batch is locks that are renewed together.
type batch struct {
	rig   *faultRig
	keys  []string
	locks []*redislock.RedisLock
}

// newBatch takes n locks of the row's server, and one that keeps the worker busy when
// they fall due.
func newBatch(t *testing.T, r *faultRig, n int) *batch {
	t.Helper()
	b := &batch{rig: r}
	busy := b.take(t, batchOptions())
	r.proxy.DelayReplies(batchWait, 1, requestsOf(t, "renew", redislock.HashTag(busy.GetKey())+":owner"))
	b.keys, b.locks = nil, nil
	start := time.Now() // it has to fall due alone
	becomes(t, time.Second, "a head start", func() bool { return time.Since(start) > batchWait/4 })
	for range n {
		b.take(t, batchOptions())
	}
	return b
}

// take acquires one more lock on the row's server.
func (b *batch) take(t *testing.T, options redislock.LockOptions) *redislock.RedisLock {
	t.Helper()
	key := rigKey() + "-batched"
	for b.rig.servers.primary(t, key) != b.rig.server {
		key = rigKey() + "-batched"
	}
	lock, err := b.rig.ours.NewLock(t.Context(), key, options)
	succeeds(t, "NewLock", err)
	succeeds(t, "Acquire", lock.Acquire(t.Context()))
	b.keys, b.locks = append(b.keys, key), append(b.locks, lock)
	return lock
}

func (b *batch) owner(i int) string { return redislock.HashTag(b.keys[i]) + ":owner" }

// isRenewed waits until each has been renewed, none of them alone, and releases them.
func (b *batch) isRenewed(t *testing.T) {
	t.Helper()
	for i, lock := range b.locks {
		becomes(t, batchTTL, "every lock is renewed", func() bool { return faultEvents.renewals(b.keys[i]) > 0 })
		succeeds(t, "the hold's Err", lock.Err())
		if n := b.rig.proxy.Count(requestsOf(t, "renew", b.owner(i))); n > 0 {
			t.Errorf("lock %d was renewed alone", i)
		}
		if losses := faultEvents.losses(b.keys[i]); len(losses) > 0 {
			t.Errorf("lock %d: %v", i, losses)
		}
		succeeds(t, "the release", lock.Release(t.Context()))
	}
}

func batchAnswersForEach(t *testing.T, r *faultRig) {
	b := newBatch(t, r, 8)
	wrong, taken, vanished := b.owner(0), b.owner(3), b.owner(7)
	succeeds(t, "DEL", r.direct.Del(t.Context(), wrong).Err())
	succeeds(t, "RPUSH", r.direct.RPush(t.Context(), wrong, "no string").Err())
	succeeds(t, "SET", r.direct.Set(t.Context(), taken, "another", time.Minute).Err())
	succeeds(t, "DEL", r.direct.Del(t.Context(), vanished).Err())
	for i, reason := range map[int]redislock.LossReason{0: "taken", 3: "taken", 7: "vanished"} {
		becomes(t, batchTTL, "the loss is told", func() bool { return b.locks[i].Err() != nil })
		faultEvents.wantOneLoss(t, b.keys[i], reason)
	}
	left, err := r.direct.PTTL(t.Context(), taken).Result()
	succeeds(t, "PTTL", err)
	if left < 50*time.Second || left > time.Minute {
		t.Errorf("another's lease of a minute has %s left", left)
	}
	if n, err := r.direct.Exists(t.Context(), vanished).Result(); n > 0 || err != nil {
		t.Errorf("the vanished owner key is back (%v)", err)
	}
	rest := &batch{rig: r}
	for _, i := range []int{1, 2, 4, 5, 6} {
		rest.keys, rest.locks = append(rest.keys, b.keys[i]), append(rest.locks, b.locks[i])
	}
	rest.isRenewed(t)
}

func batchReplyLost(t *testing.T, r *faultRig) {
	many := requestsOf(t, "renew_many")
	b := newBatch(t, r, 8)
	r.proxy.DropReplies(1, many)
	b.isRenewed(t)
	// In a Cluster each slot has a request of its own, all in one packet. The client
	// is not to send them again by itself, which would be without a pause and at once.
	requests := 1
	if r.servers.cluster {
		requests = len(b.locks)
	}
	if n := r.proxy.Count(many); n > 2*requests {
		t.Errorf("%d requests, want %d and as many again", n, requests)
	}
}

func releaseOvertakesBatch(t *testing.T, r *faultRig) {
	const late = 900 * time.Millisecond // more than the first send's share of the call
	many := requestsOf(t, "renew_many")
	b := newBatch(t, r, 8)
	r.proxy.DelayRequests(late, 1, many)
	becomes(t, batchTTL, "the batch is on its way", func() bool { return r.proxy.Count(many) > 0 })
	noLonger(t, late/2, "the release", func(ctx context.Context) { succeeds(t, "the release", b.locks[2].Release(ctx)) })
	next := endingLock(t, r.another, b.keys[2], faultOptions(time.Minute))
	succeeds(t, "the next holder", next.Acquire(t.Context()))
	released := b.keys[2]
	b.keys, b.locks = append(b.keys[:2:2], b.keys[3:]...), append(b.locks[:2:2], b.locks[3:]...)
	b.isRenewed(t)
	succeeds(t, "the next holder", next.Err())
	if losses := faultEvents.losses(released); len(losses) > 0 || faultEvents.renewals(released) > 0 {
		t.Errorf("of the released hold was told: %d renewals, losses %v", faultEvents.renewals(released), losses)
	}
}

func batchOwnOptions(t *testing.T, r *faultRig) {
	b := newBatch(t, r, 3)
	longer := batchOptions()
	longer.Expiration += 500 * time.Millisecond
	longer.RenewalConfig.CallTimeout = batchCall + time.Millisecond
	for range 3 {
		b.take(t, longer)
	}
	nested := b.take(t, batchOptions()) // two levels: a count key as well
	succeeds(t, "the reentry", nested.Acquire(t.Context()))
	for i, lock := range b.locks {
		becomes(t, 2*batchTTL, "every lock is renewed", func() bool { return faultEvents.renewals(b.keys[i]) > 0 })
		left, err := r.direct.PTTL(t.Context(), b.owner(i)).Result()
		succeeds(t, "PTTL", err)
		if ttl := lock.GetExpiration(); left > ttl || left < ttl/2-batchWait {
			t.Errorf("the lease of %s has %s left", ttl, left)
		}
	}
	count, err := r.direct.PTTL(t.Context(), redislock.HashTag(nested.GetKey())+":count").Result()
	succeeds(t, "PTTL", err)
	if count < batchTTL/2-batchWait {
		t.Errorf("the count of the nested lock has %s left", count)
	}
	if r.servers.cluster {
		return // has a request for each slot anyhow
	}
	mixed := requestsOf(t, "renew_many", b.owner(0), b.owner(4))
	if n := r.proxy.Count(mixed); n > 0 {
		t.Error("locks with other CallTimeouts went out in one call")
	}
}

// urgentGoFirst: of a batch and a half that waits for the worker, the first batch
// begins with the lock whose lease ends first, although it was the last to come.
func urgentGoFirst(t *testing.T, r *faultRig) {
	var mu sync.Mutex
	var order [][]string // the batches, as they went out
	many := requestsOf(t, "renew_many")
	r.proxy.DelayRequests(0, 1, func(cmd []string) bool {
		if many(cmd) {
			mu.Lock()
			order = append(order, cmd)
			mu.Unlock()
		}
		return false
	})
	b := &batch{rig: r}
	options := batchOptions()
	options.Expiration = 2 * batchTTL
	options.RenewalEnabled = false
	for range 152 { // the worker's first, the urgent one, and the others
		b.take(t, options)
	}
	start := time.Now()
	becomes(t, options.Expiration, "the half of each lease is over", func() bool { return time.Since(start) > options.Expiration/2 })
	busy := requestsOf(t, "renew", b.owner(0))
	r.proxy.DelayReplies(batchWait, 1, busy)
	b.locks[0].EnableAutoRenew(options) // due at once, as all are
	becomes(t, batchWait, "the worker is busy", func() bool { return r.proxy.Count(busy) > 0 })
	others := b.locks[2:]
	for _, lock := range others {
		lock.EnableAutoRenew(options)
	}
	becomes(t, batchWait, "the others wait", func() bool { return redislock.GetStats()["worker_queue_len"] >= int64(len(others)) })
	b.locks[1].EnableAutoRenew(options)
	for _, key := range b.keys[1:] {
		becomes(t, batchTTL, "all are renewed", func() bool { return faultEvents.renewals(key) > 0 })
	}
	mu.Lock()
	defer mu.Unlock()
	if len(order) == 0 {
		t.Fatal("no batch went out")
	}
	if first := order[0][3]; first != b.owner(1) {
		t.Errorf("the first batch begins with %s, want %s", first, b.owner(1))
	}
}
