package redislock_test

import (
	"context"
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

var releaseContract = []behaviour{
	{"the_last_release_deletes_owner_and_count_and_keeps_the_counter", func(t *testing.T, b *bed) {
		lock := b.held(t)
		must(t, "Acquire", lock.Acquire(t.Context()))
		must(t, "Release", lock.Release(t.Context()))
		must(t, "Release", lock.Release(t.Context()))
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
		equal(t, "the count key", b.get(t, b.countKey()), "")
		equal(t, "the counter", b.get(t, b.tokenKey()), "1")
	}},
	{"after_the_release_the_instance_holds_nothing", func(t *testing.T, b *bed) {
		lock := b.held(t)
		done := lock.Done()
		must(t, "Release", lock.Release(t.Context()))
		closes(t, "Done", done)
		wantIs(t, lock.Err(), redislock.ErrLockNotHeld)
		wantNot(t, lock.Err(), redislock.ErrLockLost)
		equal(t, "GetValue", lock.GetValue(), "")
		equal(t, "GetToken", lock.GetToken(), 1)
		equal(t, "IsExpired", lock.IsExpired(), true)
		equal(t, "GetRemainingTime", lock.GetRemainingTime(), 0)
		locked, err := lock.IsLocked(t.Context())
		must(t, "IsLocked", err)
		equal(t, "IsLocked", locked, false)
		left, err := lock.TTL(t.Context())
		must(t, "TTL", err)
		equal(t, "TTL", left, 0)
	}},
	{"a_release_of_what_is_not_held_is_ErrLockNotHeld", func(t *testing.T, b *bed) {
		lock := b.lock(t)
		wantIs(t, lock.Release(t.Context()), redislock.ErrLockNotHeld)
		must(t, "Acquire", lock.Acquire(t.Context()))
		must(t, "Release", lock.Release(t.Context()))
		err := lock.Release(t.Context())
		wantIs(t, err, redislock.ErrLockNotHeld)
		wantNot(t, err, redislock.ErrLockLost)
	}},
	{"a_release_never_touches_the_next_owner", func(t *testing.T, b *bed) {
		lock := b.held(t)
		b.takenElsewhere(t, "a-peer", 2, 20*time.Second)
		wantIs(t, lock.Release(t.Context()), redislock.ErrLockNotHeld, redislock.ErrLockLost)
		equal(t, "the owner", b.get(t, b.ownerKey()), "a-peer")
		equal(t, "the count", b.get(t, b.countKey()), "2")
		between(t, "TTL of the owner key", b.pttl(t, b.ownerKey()), 0, 20*time.Second)
	}},
	{"a_release_that_gets_no_answer_ends_the_hold_and_the_next_acquire_is_a_new_one", func(t *testing.T, b *bed) {
		lock := b.held(t, timeout(callTimeout))
		old, done := lock.GetValue(), lock.Done()
		resume := b.wire.stall(t)
		err := closes(t, "Release returns", async(func() error { return lock.Release(t.Context()) }))
		wantIs(t, err, context.DeadlineExceeded)
		wantNot(t, err, redislock.ErrLockLost, redislock.ErrLockNotHeld)
		closes(t, "Done", done)
		wantIs(t, lock.Err(), redislock.ErrLockNotHeld)
		resume()
		eventually(t, "the lock can be taken again", func() bool { return lock.Acquire(t.Context()) == nil })
		if lock.GetValue() == old {
			t.Error("the new hold has the old value")
		}
		equal(t, "the owner", b.get(t, b.ownerKey()), lock.GetValue())
		equal(t, "the token", lock.GetToken(), 2)
		must(t, "the only Release", lock.Release(t.Context()))
	}},
	{"an_unanswered_release_can_be_repeated", func(t *testing.T, b *bed) {
		lock := b.held(t, timeout(callTimeout))
		b.wire.refuse()
		if err := lock.Release(t.Context()); err == nil {
			t.Error("Release on a refusing server is nil")
		}
		equal(t, "the owner key is there", b.get(t, b.ownerKey()) != "", true)
		b.wire.heal()
		must(t, "the repeated Release", lock.Release(t.Context()))
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
	}},
	{"a_partial_release_that_gets_no_answer_has_counted", func(t *testing.T, b *bed) {
		lock := b.held(t, timeout(callTimeout))
		must(t, "Acquire", lock.Acquire(t.Context()))
		b.wire.refuse()
		if err := lock.Release(t.Context()); err == nil {
			t.Error("Release on a refusing server is nil")
		}
		equal(t, "Err", lock.Err(), nil)
		b.wire.heal()
		must(t, "the outer Release", lock.Release(t.Context()))
		wantIs(t, lock.Err(), redislock.ErrLockNotHeld)
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
		wantIs(t, lock.Release(t.Context()), redislock.ErrLockNotHeld)
	}},
}

// replyContract is about replies that never come, and requests that run twice.
var replyContract = []behaviour{
	{"an_acquire_whose_reply_is_lost_counts_once", func(t *testing.T, b *bed) {
		lock := b.lock(t)
		b.wire.loseReplies(1)
		must(t, "Acquire", lock.Acquire(t.Context()))
		equal(t, "the token", lock.GetToken(), 1)
		must(t, "the only Release", lock.Release(t.Context()))
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
		must(t, "Acquire", lock.Acquire(t.Context()))
		equal(t, "the token", lock.GetToken(), 2)
	}},
	{"a_reentry_whose_reply_is_lost_counts_once", func(t *testing.T, b *bed) {
		lock := b.held(t)
		b.wire.loseReplies(1)
		must(t, "Acquire", lock.Acquire(t.Context()))
		equal(t, "the count", b.get(t, b.countKey()), "2")
		must(t, "Release", lock.Release(t.Context()))
		equal(t, "Err", lock.Err(), nil)
		must(t, "Release", lock.Release(t.Context()))
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
	}},
	{"a_nested_release_whose_reply_is_lost_counts_once", func(t *testing.T, b *bed) {
		lock := b.held(t)
		must(t, "Acquire", lock.Acquire(t.Context()))
		b.wire.loseReplies(1)
		must(t, "Release", lock.Release(t.Context()))
		equal(t, "Err", lock.Err(), nil)
		wantIs(t, b.lock(t).Acquire(t.Context()), redislock.ErrLockAcquireConflict)
		must(t, "the outer Release", lock.Release(t.Context()))
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
	}},
	{"a_last_release_whose_reply_is_lost_is_nil", func(t *testing.T, b *bed) {
		lock := b.held(t)
		b.wire.loseReplies(1)
		must(t, "Release", lock.Release(t.Context()))
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
	}},
	{"an_acquire_that_is_never_answered_leaves_no_key", func(t *testing.T, b *bed) {
		lock := b.lock(t)
		b.wire.loseReplies(2)
		wantIs(t, lock.Acquire(t.Context()), redislock.ErrLockAcquireFailed)
		wantIs(t, lock.Err(), redislock.ErrLockNotHeld)
		eventually(t, "the key is gone", func() bool { return b.get(t, b.ownerKey()) == "" })
		must(t, "Acquire of another", b.lock(t).Acquire(t.Context()))
	}},
	{"a_reply_later_than_the_lease_is_no_hold_and_fn_does_not_run", func(t *testing.T, b *bed) {
		b.wire.delayReplies(150 * time.Millisecond)
		lock := b.lock(t, expiration(100*time.Millisecond))
		wantIs(t, lock.Acquire(t.Context()), redislock.ErrLockAcquireFailed)
		wantIs(t, lock.Err(), redislock.ErrLockNotHeld)
		ran := false
		err := b.locks.LockWithOptions(t.Context(), b.key, options(expiration(100*time.Millisecond)), func() error {
			ran = true
			return nil
		})
		wantIs(t, err, redislock.ErrLockAcquireFailed)
		equal(t, "fn has run", ran, false)
	}},
	{"the_lease_counts_from_before_the_call", func(t *testing.T, b *bed) {
		const delay = 300 * time.Millisecond
		lock := b.lock(t, expiration(10*time.Second))
		b.wire.delayReplies(delay)
		trusted := func(what string, call func() error) {
			t.Helper()
			must(t, what, call())
			if latest := time.Now().Add(10*time.Second - delay); lock.GetExpiresAt().After(latest) {
				t.Errorf("after %s, GetExpiresAt is %s later than the lease", what, lock.GetExpiresAt().Sub(latest))
			}
		}
		trusted("Acquire", func() error { return lock.Acquire(t.Context()) })
		trusted("a reentry", func() error { return lock.Acquire(t.Context()) })
		trusted("Renew", func() error { return lock.Renew(t.Context(), 10*time.Second) })
	}},
}
