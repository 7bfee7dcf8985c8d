package redislock_test

import (
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

func tokenTTL(d time.Duration) option {
	return func(o *redislock.LockOptions) { o.TokenTTL = d }
}

func clock(o *redislock.LockOptions) { o.TokenMode = redislock.TokenClock }

// hold acquires and releases a new instance, and gives the token it had.
func (b *bed) hold(t *testing.T, mods ...option) int64 {
	t.Helper()
	lock := b.held(t, mods...)
	token := lock.GetToken()
	must(t, "Release", lock.Release(t.Context()))
	equal(t, "the token after the end", lock.GetToken(), token)
	return token
}

var tokenContract = []behaviour{
	{"TokenCounter_counts_1_2_3", func(t *testing.T, b *bed) {
		for want := range int64(3) {
			equal(t, "the token", b.hold(t), want+1)
		}
		equal(t, "the counter", b.get(t, b.tokenKey()), "3")
	}},
	{"before_the_first_hold_the_token_is_0", func(t *testing.T, b *bed) {
		equal(t, "GetToken", b.lock(t).GetToken(), 0)
	}},
	{"a_refused_acquire_mints_nothing", func(t *testing.T, b *bed) {
		b.held(t)
		for range 3 {
			_ = b.lock(t).Acquire(t.Context())
		}
		equal(t, "the counter", b.get(t, b.tokenKey()), "1")
	}},
	{"LockWithToken_gives_the_token_of_the_hold", func(t *testing.T, b *bed) {
		b.set(t, b.tokenKey(), "41", time.Minute)
		var got int64
		must(t, "LockWithToken", b.locks.LockWithToken(t.Context(), b.key, time.Minute, func(token int64) error { got = token; return nil }))
		equal(t, "the token", got, 42)
	}},
	{"the_counter_outlives_the_lease_by_TokenTTL", func(t *testing.T, b *bed) {
		lock := b.held(t, tokenTTL(time.Hour))
		if left := b.pttl(t, b.tokenKey()); left < time.Hour {
			t.Errorf("the counter lives for %s, want %s after the lease", left, time.Hour)
		}
		must(t, "Release", lock.Release(t.Context()))
		if left := b.pttl(t, b.tokenKey()); left < time.Hour {
			t.Errorf("the counter lives for %s after the release, want %s", left, time.Hour)
		}
	}},
	{"a_TokenTTL_of_0_is_seven_days", func(t *testing.T, b *bed) {
		b.held(t)
		between(t, "TTL of the counter", b.pttl(t, b.tokenKey()), 7*24*time.Hour-time.Minute, 9*24*time.Hour)
	}},
	{"a_shorter_TokenTTL_never_shortens", func(t *testing.T, b *bed) {
		b.hold(t, tokenTTL(24*time.Hour))
		lock := b.held(t, tokenTTL(time.Second))
		least := func(what string) {
			t.Helper()
			if left := b.pttl(t, b.tokenKey()); left < 23*time.Hour {
				t.Errorf("after %s the counter lives for %s", what, left)
			}
		}
		least("Acquire")
		must(t, "Acquire", lock.Acquire(t.Context()))
		least("a reentry")
		must(t, "Renew", lock.Renew(t.Context(), 30*time.Second))
		least("Renew")
		must(t, "Release", lock.Release(t.Context()))
		must(t, "Release", lock.Release(t.Context()))
		least("Release")
	}},
	{"a_reentry_and_Renew_keep_the_counter_alive", func(t *testing.T, b *bed) {
		lock := b.held(t, tokenTTL(time.Minute))
		for what, call := range map[string]func() error{
			"a reentry": func() error { return lock.Acquire(t.Context()) },
			"Renew":     func() error { return lock.Renew(t.Context(), 2*time.Minute) },
		} {
			b.pexpire(t, b.tokenKey(), 10*time.Second)
			must(t, what, call())
			if left := b.pttl(t, b.tokenKey()); left < time.Minute {
				t.Errorf("after %s the counter lives for %s", what, left)
			}
		}
	}},
	{"a_lost_TokenCounter_starts_again_at_1", func(t *testing.T, b *bed) {
		b.hold(t)
		b.hold(t)
		b.del(t, b.tokenKey())
		equal(t, "the token", b.hold(t), 1)
	}},
	{"TokenClock_is_the_servers_time_in_microseconds", func(t *testing.T, b *bed) {
		before := time.Now().Add(-time.Minute).UnixMicro() // the server's clock is this machine's, about
		token := b.hold(t, clock)
		if after := time.Now().Add(time.Minute).UnixMicro(); token < before || token > after {
			t.Errorf("the token %d is not within %d and %d", token, before, after)
		}
		equal(t, "the counter", b.counter(t, b.tokenKey()), token)
	}},
	{"TokenClock_still_grows_after_its_counter_was_lost", func(t *testing.T, b *bed) {
		last := b.hold(t, clock)
		for range 3 {
			b.del(t, b.tokenKey())
			token := b.hold(t, clock)
			if token <= last {
				t.Errorf("the token %d is not above %d", token, last)
			}
			last = token
		}
	}},
	{"TokenClock_is_one_more_than_a_counter_ahead_of_the_clock", func(t *testing.T, b *bed) {
		ahead := time.Now().Add(24 * time.Hour).UnixMicro()
		must(t, "SET", b.control.Set(t.Context(), b.tokenKey(), ahead, time.Hour).Err())
		equal(t, "the token", b.hold(t, clock), ahead+1)
		equal(t, "the next token", b.hold(t, clock), ahead+2)
	}},
	{"TokenClock_goes_on_from_a_TokenCounter", func(t *testing.T, b *bed) {
		b.hold(t)
		first := b.hold(t, clock)
		if first < time.Now().Add(-time.Minute).UnixMicro() {
			t.Errorf("the token %d does not follow the clock", first)
		}
		equal(t, "the next token of a TokenCounter", b.hold(t), first+1)
	}},
	{"TokenClock_keeps_the_TTL_of_its_counter", func(t *testing.T, b *bed) {
		b.hold(t, clock, tokenTTL(24*time.Hour))
		b.hold(t, clock, tokenTTL(time.Second))
		between(t, "TTL of the counter", b.pttl(t, b.tokenKey()), 23*time.Hour, 48*time.Hour)
	}},
	{"tokens_are_exact_beyond_2_to_the_53", func(t *testing.T, b *bed) {
		b.set(t, b.tokenKey(), "9007199254740992", time.Hour)
		equal(t, "the token", b.hold(t), 9007199254740993)
		equal(t, "the next token", b.hold(t), 9007199254740994)
	}},
}
