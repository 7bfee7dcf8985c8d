package redislock_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// asLocker is the user that tests of ACLs set up.
func asLocker(o *redis.Options) { o.Username, o.Password = "locker", "secret" }

// needs says which calls fail without each rule of leastRules, and so that every
// rule is needed. Of a call that is not named the lock does without.
var needs = map[string][]string{
	"~{lynx:lock:*": everyCall,
	"+evalsha":      everyCall,
	"+eval":         everyCall,
	"+script|load":  {"SCRIPT LOAD"}, // then each script's first call brings its source along
	"+get":          slices.DeleteFunc(slices.Clone(everyCall), onlyOfAFreeLock),
	"+set":          {"Acquire", "Acquire with TokenClock", "reentry"},
	"+del":          {"inner Release", "Release", "UnlockByValue"}, // and of an acquire that finds a stale count
	"+exists":       {"Acquire", "Acquire with TokenClock", "Acquire with a negative counter", "refused Acquire"},
	"+incr":         {"Acquire", "Acquire with a negative counter"},
	"+decr":         {"Acquire with a negative counter"},
	"+pttl":         {"Acquire", "Acquire with TokenClock", "refused Acquire", "reentry", "TTL"},
	"+pexpire":      {"Acquire", "Acquire with TokenClock", "reentry", "Renew"},
	"+time":         {"Acquire with TokenClock"},
}

var everyCall = []string{
	"Acquire", "Acquire with TokenClock", "Acquire with a negative counter", "refused Acquire", "reentry",
	"Renew", "TTL", "inner Release", "Release", "UnlockByValue",
}

// onlyOfAFreeLock: nothing is read, there is no owner and no re-send.
func onlyOfAFreeLock(call string) bool {
	return call == "Acquire" || call == "Acquire with a negative counter"
}

func TestACLs(t *testing.T) {
	if !strings.Contains(readFile(t, "README.md"), strings.Join(leastRules, " ")) {
		t.Error("the README's rules are not those of the tests")
	}
	if !strings.Contains(readFile(t, "README.md"), "\n"+strings.Join(wakeRules, " ")+"\n") {
		t.Error("the README's rules for waiters are not those of the tests")
	}
	for _, rule := range leastRules {
		t.Run("without "+rule, func(t *testing.T) {
			t.Parallel()
			fails, known := needs[rule]
			if !known {
				t.Fatal("nobody knows what this rule is for")
			}
			newRestricted(t, rule).check(t, fails)
		})
	}
}

// clusterRules are what a Cluster client needs beside leastRules: to find the nodes, and
// to follow a key of a slot that is being moved.
var clusterRules = []string{"+cluster|slots", "+asking"}

func TestACLsOfACluster(t *testing.T) {
	t.Parallel()
	if !strings.Contains(readFile(t, "README.md"), "`"+strings.Join(clusterRules, " ")+"`") {
		t.Error("the README's rules for a Cluster are not those of the tests")
	}
	cluster := redistest.StartCluster(t)
	allow := func(rules ...string) {
		for _, server := range cluster.Servers() {
			server.ACLUser(t, "locker", "secret", slices.Concat(leastRules, rules)...)
		}
	}
	locks := func() redislock.Provider {
		return redislock.NewProvider(cluster.Client(t, func(o *redis.ClusterOptions) { o.Username, o.Password = "locker", "secret" }))
	}
	m := &moving{bed: newBed(t, clusterEnv(t, cluster)), cluster: cluster}
	allow()
	wantIs(t, lockOf(t, locks(), m.key, timeout(callTimeout)).Acquire(t.Context()), redislock.ErrLockAcquireFailed)
	allow(clusterRules...)
	lock := lockOf(t, locks(), m.key, renewed, expiration(2*time.Second))
	must(t, "Acquire", lock.Acquire(t.Context()))
	m.beginMove(t)
	m.move.MoveKeys(t)
	m.renewals(t, "moved", lock)
	must(t, "Release", lock.Release(t.Context()))
	m.move.Finish(t)
}

// restricted is a lock whose user loses one rule.
type restricted struct {
	server *redistest.Server
	root   *redis.Client
	locks  redislock.Provider
	rules  []string // without the one
}

func newRestricted(t *testing.T, rule string) *restricted {
	t.Helper()
	r := &restricted{server: redistest.Start(t)}
	r.rules = slices.DeleteFunc(slices.Clone(leastRules), func(other string) bool { return other == rule })
	r.server.ACLUser(t, "locker", "secret", leastRules...)
	r.root = r.server.Client(t)
	r.locks = redislock.NewProvider(r.server.Client(t, asLocker))
	return r
}

func (r *restricted) restrict(t *testing.T) { r.server.ACLUser(t, "locker", "secret", r.rules...) }

// check makes every call with all rules up to it, and then it without the rule.
func (r *restricted) check(t *testing.T, fails []string) {
	t.Helper()
	user := r.server.Client(t, asLocker)
	calls := r.calls(t)
	calls["SCRIPT LOAD"] = func(ctx context.Context) error { r.restrict(t); return user.ScriptLoad(ctx, "return 1").Err() }
	for name, call := range calls {
		must(t, "SCRIPT FLUSH", r.root.ScriptFlush(t.Context()).Err()) // so that +eval is asked for
		err := call(t.Context())
		r.server.ACLUser(t, "locker", "secret", leastRules...)
		switch {
		case !slices.Contains(fails, name):
			must(t, name, err)
		case err == nil:
			t.Errorf("%s does not need the rule", name)
		case name != "SCRIPT LOAD" && !strings.Contains(err.Error(), "ACL LOG"):
			t.Errorf("%s: the error does not say what to do: %v", name, err)
		}
		wantNot(t, err, redislock.ErrLockLost, redislock.ErrLockNotHeld) // nobody knows
		for _, key := range r.root.Keys(t.Context(), "*").Val() {
			if r.root.PTTL(t.Context(), key).Val() == -1 {
				t.Errorf("%s has left %s without a TTL", name, key)
			}
		}
		must(t, "FLUSHALL", r.root.FlushAll(t.Context()).Err())
	}
	for name := range needs {
		for _, call := range needs[name] {
			if calls[call] == nil {
				t.Errorf("%s is not tried", call)
			}
		}
	}
}

// calls are the lock's calls, each of which prepares what it needs, then loses the
// rule and gives its error.
func (r *restricted) calls(t *testing.T) map[string]func(context.Context) error {
	t.Helper()
	lock := func(mods ...option) *redislock.RedisLock { return lockOf(t, r.locks, "job", mods...) }
	held := func(ctx context.Context, levels int) *redislock.RedisLock {
		l := lock()
		for range levels {
			must(t, "Acquire", l.Acquire(ctx))
		}
		return l
	}
	then := func(levels int, call func(context.Context, *redislock.RedisLock) error) func(context.Context) error {
		return func(ctx context.Context) error {
			l := held(ctx, levels)
			must(t, "SCRIPT FLUSH", r.root.ScriptFlush(ctx).Err())
			r.restrict(t)
			return call(ctx, l)
		}
	}
	acquire := func(ctx context.Context, l *redislock.RedisLock) error { return l.Acquire(ctx) }
	release := func(ctx context.Context, l *redislock.RedisLock) error { return l.Release(ctx) }
	return map[string]func(context.Context) error{
		"Acquire": then(0, acquire),
		"reentry": then(1, acquire),
		"refused Acquire": then(1, func(ctx context.Context, _ *redislock.RedisLock) error {
			err := lock().Acquire(ctx)
			if redislock.IsLockError(err, redislock.ErrCodeLockAcquireConflict) {
				return nil // refused, as it should be
			}
			return err
		}),
		"Acquire with a negative counter": func(ctx context.Context) error {
			must(t, "SET", r.root.Set(ctx, redislock.HashTag("job")+":token", -7, time.Minute).Err())
			r.restrict(t)
			err := lock().Acquire(ctx)
			if err != nil && strings.Contains(err.Error(), "below 0") {
				return nil // the rule was enough to say so
			}
			return err
		},
		"Acquire with TokenClock": func(ctx context.Context) error {
			r.restrict(t)
			return lock(func(o *redislock.LockOptions) { o.TokenMode = redislock.TokenClock }).Acquire(ctx)
		},
		"Renew": then(1, func(ctx context.Context, l *redislock.RedisLock) error { return l.Renew(ctx, 30*time.Second) }),
		"TTL": then(1, func(ctx context.Context, l *redislock.RedisLock) error {
			_, err := l.TTL(ctx)
			return err
		}),
		"inner Release": then(2, release),
		"Release":       then(1, release),
		"UnlockByValue": func(ctx context.Context) error { // of a hold elsewhere
			must(t, "SET", r.root.Set(ctx, redislock.HashTag("job")+":owner", "x", time.Minute).Err())
			r.restrict(t)
			return r.locks.UnlockByValue(ctx, "job", "x")
		},
	}
}

// withoutTTLs is a server whose user may do all that waiters need but set a TTL.
func withoutTTLs(t *testing.T) (admin, user *redis.Client) {
	t.Helper()
	server := redistest.Start(t)
	rules := slices.DeleteFunc(slices.Concat(leastRules, wakeRules), func(rule string) bool { return rule == "+pexpire" })
	server.ACLUser(t, "locker", "secret", rules...)
	return server.Client(t), server.Client(t, asLocker)
}

func TestAWaiterThatMaySetNoTTLLeavesNoRoom(t *testing.T) {
	t.Parallel()
	admin, user := withoutTTLs(t)
	key := rigKey()
	must(t, "SET", admin.Set(t.Context(), redislock.HashTag(key)+":owner", "elsewhere", time.Minute).Err())
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	wantIs(t, lockOf(t, redislock.NewProvider(user), key).AcquireWait(ctx), context.DeadlineExceeded)
	equal(t, "rooms", admin.Exists(t.Context(), redislock.HashTag(key)+":room").Val(), 0)
}

func TestAReleaseThatMaySetNoTTLLeavesNoRoom(t *testing.T) {
	t.Parallel()
	admin, user := withoutTTLs(t)
	for _, waits := range []bool{false, true} { // in the room itself
		tag, channel := redislock.HashTag(rigKey()), "lynx:lock:wake:a"
		must(t, "SET", admin.Set(t.Context(), tag+":owner", "old", time.Minute).Err())
		if waits {
			must(t, "RPUSH", admin.RPush(t.Context(), tag+":room", channel).Err())
			must(t, "PEXPIRE", admin.PExpire(t.Context(), tag+":room", time.Minute).Err())
		}
		keys := []string{tag + ":owner", tag + ":room"}
		must(t, "release", user.Eval(t.Context(), luaSource(t, "release"), keys, "old", "0", "60", channel).Err())
		equal(t, "keys that are left", admin.Exists(t.Context(), keys...).Val(), 0)
	}
}

// The waiter has asked nobody so far: it relies on the holder, who gives it the lock.
func TestAWaiterWithoutRightsSpoilsNoRelease(t *testing.T) {
	server := redistest.Start(t)
	server.ACLUser(t, "locker", "secret", slices.Concat(leastRules, wakeRules)...)
	admin, key := server.Client(t), rigKey()
	locks := redislock.NewProvider(server.Client(t, asLocker))
	elsewhere, holder := lockOf(t, redislock.NewProvider(admin), key), lockOf(t, locks, key)
	waiter := lockOf(t, locks, key, func(o *redislock.LockOptions) { o.FenceKey = "forbidden" })
	must(t, "Acquire", elsewhere.Acquire(t.Context()))
	held := async(func() error { return holder.AcquireWait(t.Context()) })
	awaitQueued(t, admin, key, 1)
	got := async(func() error { return waiter.AcquireWait(t.Context()) })
	time.Sleep(100 * time.Millisecond) // the one behind sends nothing that could be seen
	must(t, "Release", elsewhere.Release(t.Context()))
	must(t, "AcquireWait", closes(t, "the first has it", held))
	awaitAsleep(t, 1)
	succeeds(t, "Release", holder.Release(t.Context()))
	wantIs(t, closes(t, "the waiter ends", got), redislock.ErrLockAcquireFailed)
	equal(t, "owners", admin.Exists(t.Context(), redislock.HashTag(key)+":owner").Val(), 0)
}
