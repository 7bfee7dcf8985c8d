package redislock_test

import (
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// A mark that Redis refuses is left later: until then a late request could take the
// lock for nobody.

const owedDelay = 1500 * time.Millisecond // of an acquire, which meets Redis in good health

// wantNoGhost waits for the late acquires, and then a while for what they may have taken.
func (r *faultRig) wantNoGhost(t *testing.T, suffix string, sent time.Time) {
	t.Helper()
	time.Sleep(owedDelay + 300*time.Millisecond - time.Since(sent)) // the proxy holds them back
	if n := len(r.marks(t, suffix)); n == 0 {
		t.Error("there is no mark")
	}
	becomes(t, time.Second, "no key is owned", func() bool {
		return r.direct.Exists(t.Context(), redislock.HashTag(r.key+suffix)+":owner").Val() == 0
	})
}

func (r *faultRig) marks(t *testing.T, suffix string) []string {
	t.Helper()
	keys, err := r.direct.Keys(t.Context(), redislock.HashTag(r.key+suffix)+":mark:*").Result()
	succeeds(t, "KEYS", err)
	return keys
}

// cleanupRefused: the acquire is late, and the cleanup behind it finds nothing to free
// and may not leave its mark for a while.
func cleanupRefused(t *testing.T, r *faultRig, option string) {
	r.proxy.DelayRequests(owedDelay, 2, requestsOf(t, "acquire"))
	sent := time.Now()
	r.config(t, option, "1")
	failsAs(t, "Acquire", r.lock(t, r.ours, faultOptions(time.Minute)).Acquire(t.Context()), redislock.ErrLockAcquireFailed)
	becomes(t, time.Second, "the cleanup has been sent", func() bool { return r.proxy.Count(requestsOf(t, "release")) > 1 })
	r.config(t, option, "0")
	becomes(t, time.Second, "the mark is left", func() bool { return len(r.marks(t, "")) == 1 })
	r.wantNoGhost(t, "", sent)
}

// releaseOwesItsMark: the first send of the acquire is late, the second was used and
// released on a full Redis.
func releaseOwesItsMark(t *testing.T, r *faultRig) {
	r.proxy.DelayRequests(owedDelay, 1, requestsOf(t, "acquire"))
	sent := time.Now()
	lock := r.held(t, faultOptions(time.Minute))
	r.config(t, "maxmemory", "1")
	succeeds(t, "Release", lock.Release(t.Context()))
	r.config(t, "maxmemory", "0")
	r.wantNoGhost(t, "", sent)
}

// refusedRenew: a Renew that Redis answers with an error has changed nothing.
func refusedRenew(t *testing.T, r *faultRig) {
	r.server.ACLUser(t, "locker", "secret", leastRules...)
	locks := redislock.NewProvider(r.server.Client(t, asLocker))
	lock := r.lock(t, locks, faultOptions(time.Minute))
	succeeds(t, "Acquire", lock.Acquire(t.Context()))
	admin := r.server.Client(t)
	succeeds(t, "ACL", admin.Do(t.Context(), "ACL", "SETUSER", "locker", "-pexpire").Err())
	failsAs(t, "Renew", lock.Renew(t.Context(), time.Second), redislock.ErrLockRenewalFailed)
	succeeds(t, "ACL", admin.Do(t.Context(), "ACL", "SETUSER", "locker", "+pexpire").Err())
	if left := lock.GetRemainingTime(); left < 50*time.Second {
		t.Errorf("the lease is trusted for %s", left)
	}
	succeeds(t, "Release", lock.Release(t.Context()))
}
