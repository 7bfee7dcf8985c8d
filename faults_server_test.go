package redislock_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// Rows about servers that refuse. Each has a server of its own.
var faultRowsServer = []faultRow{
	{name: "a full Redis still renews and releases", run: fullServer},
	{name: "the owner key is no string", run: ownerOfAnotherType},
	{name: "the count key is no string", run: countOfAnotherType},
	{name: "the counter is no number", run: counterOfAnotherType},
	{name: "too few replicas to write", run: func(t *testing.T, r *faultRig) {
		refusedForAWhile(t, r, "NOREPLICAS", func() { r.config(t, "min-replicas-to-write", "1") }, func() { r.config(t, "min-replicas-to-write", "0") })
	}},
	{name: "a script of somebody else keeps Redis busy", run: func(t *testing.T, r *faultRig) {
		refusedForAWhile(t, r, "BUSY", func() { r.keepBusy(t) }, func() { succeeds(t, "SCRIPT KILL", r.direct.ScriptKill(t.Context()).Err()) })
	}},
	{name: "a read-only replica", run: func(t *testing.T, r *faultRig) {
		refusedForAWhile(t, r, "READONLY", func() { r.demote(t) }, func() { r.promote(t) })
	}},
	{name: "no client more is let in", run: tooManyClients},
	{name: "Redis is loading its data", run: loadingServer},
	{name: "the application blocks the pool", run: blockedPool},
	{name: "a cleanup meets a full Redis", run: func(t *testing.T, r *faultRig) { cleanupRefused(t, r, "maxmemory") }},
	{name: "a cleanup meets a Redis with too few replicas", run: func(t *testing.T, r *faultRig) { cleanupRefused(t, r, "min-replicas-to-write") }},
	{name: "a release owes its mark to a full Redis", run: releaseOwesItsMark},
	{name: "a Renew that Redis refuses leaves the lease", run: refusedRenew},
	{name: "the server's clock steps forward", run: clockForward},
	{name: "the server's clock steps back", run: clockBack},
}

func (r *faultRig) config(t *testing.T, name, value string) {
	t.Helper()
	succeeds(t, "CONFIG SET "+name, r.direct.ConfigSet(t.Context(), name, value).Err())
}

func fullServer(t *testing.T, r *faultRig) {
	options := faultOptions(time.Second)
	lock := r.held(t, options)
	for range 2 {
		succeeds(t, "a reentry", lock.Acquire(t.Context()))
	}
	once := r.held(t, faultOptions(time.Minute), "-once")
	r.config(t, "maxmemory", "1")
	err := r.lock(t, r.ours, options, "-new").Acquire(t.Context())
	failsAs(t, "Acquire", err, redislock.ErrLockAcquireFailed)
	if !strings.Contains(err.Error(), "OOM") {
		t.Errorf("the error does not name OOM: %v", err)
	}
	failsAs(t, "a reentry", lock.Acquire(t.Context()), redislock.ErrLockAcquireFailed)
	renewals := faultEvents.renewals(r.key)
	becomes(t, patience, "renewals go on", func() bool { return faultEvents.renewals(r.key) > renewals+1 })
	succeeds(t, "Renew", lock.Renew(t.Context(), 2*time.Second))
	succeeds(t, "UnlockByValue", r.another.UnlockByValue(t.Context(), r.key+"-once", once.GetValue()))
	for range 2 {
		succeeds(t, "an inner release", lock.Release(t.Context()))
		r.isHeldHere(t, lock)
	}
	succeeds(t, "the last release", lock.Release(t.Context()))
	r.config(t, "maxmemory", "0")
	for _, suffix := range []string{"", "-once", "-new"} {
		if n := r.direct.Exists(t.Context(), redislock.HashTag(r.key+suffix)+":owner").Val(); n != 0 {
			t.Errorf("the owner key of %s%s is left", r.key, suffix)
		}
	}
}

// isHeldHere: Redis and the hold agree.
func (r *faultRig) isHeldHere(t *testing.T, lock *redislock.RedisLock) {
	t.Helper()
	succeeds(t, "the hold's Err", lock.Err())
	if owner := r.get(t, ":owner"); owner != lock.GetValue() {
		t.Fatalf("the owner key holds %q, the hold's value is %q", owner, lock.GetValue())
	}
}

// wrongType puts a list in the place of a key of the lock.
func (r *faultRig) wrongType(t *testing.T, suffix string) {
	t.Helper()
	succeeds(t, "DEL", r.direct.Del(t.Context(), r.redisKey(suffix)).Err())
	succeeds(t, "RPUSH", r.direct.RPush(t.Context(), r.redisKey(suffix), "x").Err())
}

// names checks that an error says which key it is about.
func (r *faultRig) names(t *testing.T, err error, suffix string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), r.redisKey(suffix)) {
		t.Errorf("the error does not name %s: %v", r.redisKey(suffix), err)
	}
}

func ownerOfAnotherType(t *testing.T, r *faultRig) {
	lock := r.held(t, faultOptions(900*time.Millisecond))
	r.wrongType(t, ":owner")
	faultEvents.wantOneLoss(t, r.key, "taken")
	failsAs(t, "Release", lock.Release(t.Context()), redislock.ErrLockNotHeld, redislock.ErrLockLost)
	err := r.lock(t, r.ours, faultOptions(time.Second)).Acquire(t.Context())
	failsAs(t, "Acquire", err, redislock.ErrLockAcquireFailed)
	r.names(t, err, ":owner")
	if kind := r.direct.Type(t.Context(), r.redisKey(":owner")).Val(); kind != "list" {
		t.Errorf("the foreign key is a %s now", kind)
	}
}

func countOfAnotherType(t *testing.T, r *faultRig) {
	lock := r.held(t, faultOptions(900*time.Millisecond))
	r.wrongType(t, ":count")
	err := lock.Acquire(t.Context())
	failsAs(t, "a reentry", err, redislock.ErrLockAcquireFailed)
	r.names(t, err, ":count")
	renewals := faultEvents.renewals(r.key)
	becomes(t, patience, "renewals go on", func() bool { return faultEvents.renewals(r.key) > renewals })
	r.isHeldHere(t, lock)
	succeeds(t, "Release", lock.Release(t.Context()))
	if owner := r.get(t, ":owner"); owner != "" {
		t.Errorf("the owner key holds %q", owner)
	}
	next := r.held(t, faultOptions(time.Second)) // a count without an owner means nothing
	succeeds(t, "Release", next.Release(t.Context()))
}

func counterOfAnotherType(t *testing.T, r *faultRig) {
	for _, spoil := range []func(){
		func() { r.wrongType(t, ":token") },
		func() { succeeds(t, "SET", r.direct.Set(t.Context(), r.redisKey(":token"), "abc", 0).Err()) },
		func() {
			succeeds(t, "SET", r.direct.Set(t.Context(), r.redisKey(":token"), "9223372036854775807", 0).Err())
		},
	} {
		spoil()
		err := r.lock(t, r.ours, faultOptions(time.Second)).Acquire(t.Context())
		failsAs(t, "Acquire", err, redislock.ErrLockAcquireFailed)
		r.names(t, err, ":token")
		if owner := r.get(t, ":owner"); owner != "" {
			t.Errorf("the owner key holds %q", owner)
		}
	}
}

// refusedForAWhile: Redis answers with an error that passes by itself. A lock that is
// held outlives it, an acquire that has the time for it succeeds, another says why not.
func refusedForAWhile(t *testing.T, r *faultRig, code string, begin, end func()) {
	t.Helper()
	lock := r.held(t, faultOptions(3*time.Second))
	begin()
	err := r.lock(t, r.ours, faultOptions(time.Minute), "-new").Acquire(t.Context())
	failsAs(t, "Acquire", err, redislock.ErrLockAcquireFailed, context.DeadlineExceeded)
	if !strings.Contains(err.Error(), code) {
		t.Errorf("the error does not name %s: %v", code, err)
	}
	renewals := r.proxy.Count(requestsOf(t, "renew"))
	becomes(t, patience, "a renewal is repeated", func() bool { return r.proxy.Count(requestsOf(t, "renew")) > renewals+2 })
	patient := faultOptions(time.Minute)
	patient.ScriptCallTimeout = patience
	later := r.lock(t, r.ours, patient, "-later")
	acquires := r.proxy.Count(requestsOf(t, "acquire"))
	acquired := async(func() error { return later.Acquire(t.Context()) })
	becomes(t, patience, "an acquire is repeated", func() bool { return r.proxy.Count(requestsOf(t, "acquire")) > acquires+1 })
	end()
	succeeds(t, "the acquire with time", closes(t, "it ends", acquired))
	succeeds(t, "its release", later.Release(t.Context()))
	was := faultEvents.renewals(r.key)
	becomes(t, patience, "renewed afterwards", func() bool { return faultEvents.renewals(r.key) > was || lock.Err() != nil })
	r.isHeldOnce(t, lock)
}

// keepBusy runs a script without end. Redis answers BUSY from 100 ms on.
func (r *faultRig) keepBusy(t *testing.T) {
	t.Helper()
	r.config(t, "busy-reply-threshold", "100")
	busy := r.server.Client(t, func(o *redis.Options) { o.MaxRetries, o.ReadTimeout = -1, -1 })
	ended := make(chan struct{})
	go func() { // ends when the script is killed
		defer close(ended)
		_ = busy.Eval(context.Background(), "while true do end", nil).Err()
	}()
	t.Cleanup(func() {
		_ = r.direct.ScriptKill(context.Background()).Err()
		<-ended
	})
	becomes(t, patience, "Redis says BUSY", func() bool {
		return redis.HasErrorPrefix(r.direct.Ping(t.Context()).Err(), "BUSY")
	})
}

// demote makes the server a replica of one that is not there, so that it keeps its data.
func (r *faultRig) demote(t *testing.T) {
	t.Helper()
	gone := redistest.Start(t)
	gone.Stop()
	host, port, _ := strings.Cut(gone.Addr(), ":")
	succeeds(t, "REPLICAOF", r.direct.Do(t.Context(), "REPLICAOF", host, port).Err())
}

func (r *faultRig) promote(t *testing.T) {
	t.Helper()
	succeeds(t, "REPLICAOF NO ONE", r.direct.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())
}

func tooManyClients(t *testing.T, r *faultRig) {
	lock := r.held(t, faultOptions(3*time.Second))
	hungry := r.server.Client(t)   // Redis says no before it is asked, which the proxy would not pass on
	r.config(t, "maxclients", "1") // those that are connected stay
	err := r.lock(t, redislock.NewProvider(hungry), faultOptions(time.Minute), "-new").Acquire(t.Context())
	failsAs(t, "Acquire", err, redislock.ErrLockAcquireFailed, context.DeadlineExceeded)
	if !strings.Contains(err.Error(), "no connection to Redis") { // why, Redis says before it is asked; go-redis does not look
		t.Errorf("the error does not say that there was no connection: %v", err)
	}
	patient := faultOptions(time.Minute)
	patient.ScriptCallTimeout = patience
	later := r.lock(t, redislock.NewProvider(hungry), patient, "-later")
	acquired := async(func() error { return later.Acquire(t.Context()) })
	r.config(t, "maxclients", "1000")
	succeeds(t, "the acquire with time", closes(t, "it ends", acquired))
	succeeds(t, "its release", later.Release(t.Context()))
	r.isHeldOnce(t, lock)
}

// loadingSeen counts the commands that Redis has answered with LOADING.
type loadingSeen struct{ atomic.Int64 }

func (*loadingSeen) DialHook(next redis.DialHook) redis.DialHook { return next }
func (*loadingSeen) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l *loadingSeen) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if redis.HasErrorPrefix(err, "LOADING") {
			l.Add(1)
		}
		return err
	}
}

func loadingServer(t *testing.T, _ *faultRig) {
	// 300 keys at 5 ms each; it looks at its clients after every kilobyte.
	r := newRigOn(t, aloneServers(t, "--key-load-delay", "5000", "--loading-process-events-interval-bytes", "1024"))
	seen := new(loadingSeen)
	r.direct.AddHook(seen) // past the proxy, which accepts dials for a server that refuses them
	for range 300 {
		succeeds(t, "SET", r.direct.Set(t.Context(), rigKey(), strings.Repeat("x", 1000), 0).Err())
	}
	options := faultOptions(20 * time.Second)
	options.ScriptCallTimeout = patience
	options.RenewalThreshold = 1
	lock := r.lock(t, r.another, options)
	succeeds(t, "Acquire", lock.Acquire(t.Context()))
	succeeds(t, "SAVE", r.direct.Save(t.Context()).Err())
	r.server.Stop()
	next := r.lock(t, r.another, options, "-next")
	acquired := async(func() error { return next.Acquire(t.Context()) })
	r.server.Restart(t)
	succeeds(t, "the acquire", closes(t, "it ends", acquired))
	if seen.Load() == 0 {
		t.Error("nobody was told LOADING")
	}
	succeeds(t, "its release", next.Release(t.Context()))
	r.isHeldHere(t, lock)
	succeeds(t, "Release", lock.Release(t.Context()))
}

func blockedPool(t *testing.T, r *faultRig) {
	client := redis.NewClient(&redis.Options{Addr: r.proxy.Addr(), ContextTimeoutEnabled: true, PoolSize: 1})
	defer func() { _ = client.Close() }()
	locks := redislock.NewProvider(client)
	lock := r.lock(t, locks, faultOptions(700*time.Millisecond))
	succeeds(t, "Acquire", lock.Acquire(t.Context()))
	blocked := async(func() error { return client.BLPop(t.Context(), 2*time.Second, rigKey()).Err() })
	closes(t, "Done", lock.Done())
	faultEvents.wantOneLoss(t, r.key, "expired")
	failsAs(t, "Acquire", r.lock(t, locks, faultOptions(time.Minute), "-new").Acquire(t.Context()), redislock.ErrLockAcquireFailed, context.DeadlineExceeded)
	if err := closes(t, "BLPOP ends", blocked); !errors.Is(err, redis.Nil) {
		t.Fatalf("BLPOP: %v", err)
	}
	failsAs(t, "the first Acquire after the loss", lock.Acquire(t.Context()), redislock.ErrLockLost)
	succeeds(t, "the next", lock.Acquire(t.Context()))
	succeeds(t, "Release", lock.Release(t.Context()))
}
