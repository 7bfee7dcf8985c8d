package redislock_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// clockRig is a row's rig in front of a server whose clock can be stepped.
func clockRig(t *testing.T) (*faultRig, *redistest.ClockServer) {
	t.Helper()
	server := redistest.StartWithClock(t)
	return newRigOn(t, faultServers{
		primary: func(*testing.T, string) *redistest.Server { return server.Server },
		connect: func(dial dialer) redis.UniversalClient {
			return redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, Dialer: dial})
		},
	}), server
}

// clockForward: the key expires early. Another gets the lock at once; the holder learns
// of it by its next renewal, and trusts its lease no longer than that.
func clockForward(t *testing.T, _ *faultRig) {
	r, server := clockRig(t)
	const ttl = 2 * time.Second
	lock := r.held(t, faultOptions(ttl))
	token := lock.GetToken()
	server.Step(t, time.Minute)
	stepped := time.Now()
	other := r.lock(t, r.another, faultOptions(time.Minute))
	succeeds(t, "another's Acquire", other.Acquire(t.Context()))
	closes(t, "Done", lock.Done())
	overlap := time.Since(stepped)
	t.Logf("two holders for %s, with a lease of %s", overlap.Round(time.Millisecond), ttl)
	if limit := ttl + 500*time.Millisecond; overlap > limit {
		t.Errorf("told after %s, want at most %s", overlap, limit)
	}
	faultEvents.wantOneLoss(t, r.key, "taken")
	if other.GetToken() <= token {
		t.Errorf("token %d after %d", other.GetToken(), token)
	}
	failsAs(t, "Release", lock.Release(t.Context()), redislock.ErrLockNotHeld, redislock.ErrLockLost)
	succeeds(t, "another's Err", other.Err())
	succeeds(t, "another's Release", other.Release(t.Context()))
}

// clockBack: keys live longer. No holder trusts its lease longer for it, a release
// frees the lock as ever, and TokenClock still grows.
func clockBack(t *testing.T, _ *faultRig) {
	r, server := clockRig(t)
	options := faultOptions(time.Second)
	options.TokenMode = redislock.TokenClock
	released := r.held(t, options)
	options.RenewalEnabled = false
	forgotten := r.held(t, options, "-forgotten")
	server.Step(t, -time.Hour)
	closes(t, "Done of a lease that is not renewed", forgotten.Done())
	if left, err := r.direct.PTTL(t.Context(), redislock.HashTag(r.key+"-forgotten")+":owner").Result(); err != nil || left < 50*time.Minute {
		t.Errorf("Redis keeps the key for %s (%v): the clock was not stepped", left, err)
	}
	renewals := faultEvents.renewals(r.key)
	becomes(t, patience, "renewals go on", func() bool { return faultEvents.renewals(r.key) > renewals+1 })
	succeeds(t, "Err", released.Err())
	succeeds(t, "Release", released.Release(t.Context()))
	next := r.held(t, options)
	if next.GetToken() <= released.GetToken() {
		t.Errorf("token %d after %d", next.GetToken(), released.GetToken())
	}
	succeeds(t, "Release", next.Release(t.Context()))
}
