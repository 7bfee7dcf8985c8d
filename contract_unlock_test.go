package redislock_test

import (
	"context"
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

var unlockContract = []behaviour{
	{"UnlockByValue_of_a_hold_of_this_process_is_its_release", func(t *testing.T, b *bed) {
		lock := b.held(t)
		done, ctx := lock.Done(), lock
		must(t, "UnlockByValue", b.locks.UnlockByValue(t.Context(), b.key, lock.GetValue()))
		equal(t, "Done is closed at once", isClosed(done), true)
		wantIs(t, ctx.Err(), redislock.ErrLockNotHeld)
		wantNot(t, ctx.Err(), redislock.ErrLockLost)
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
		wantIs(t, lock.Release(t.Context()), redislock.ErrLockNotHeld)
		must(t, "Acquire right after it", lock.Acquire(t.Context()))
	}},
	{"UnlockByValue_through_another_provider_finds_the_hold_of_this_process", func(t *testing.T, b *bed) {
		lock := b.held(t)
		done := lock.Done()
		must(t, "UnlockByValue", b.provider(t).UnlockByValue(t.Context(), b.key, lock.GetValue()))
		equal(t, "Done is closed at once", isClosed(done), true)
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
	}},
	{"UnlockByValue_takes_one_level_of_a_hold_of_this_process", func(t *testing.T, b *bed) {
		lock := b.held(t)
		must(t, "Acquire", lock.Acquire(t.Context()))
		value := lock.GetValue()
		must(t, "UnlockByValue", b.locks.UnlockByValue(t.Context(), b.key, value))
		equal(t, "Err", lock.Err(), nil)
		equal(t, "the owner", b.get(t, b.ownerKey()), value)
		must(t, "Release", lock.Release(t.Context()))
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
		wantIs(t, b.locks.UnlockByValue(t.Context(), b.key, value), redislock.ErrLockNotHeld)
	}},
	{"UnlockByValue_takes_one_level_of_a_hold_elsewhere", func(t *testing.T, b *bed) {
		b.takenElsewhere(t, "a-peer", 3, 20*time.Second)
		for _, left := range []string{"2", "1"} {
			must(t, "UnlockByValue", b.locks.UnlockByValue(t.Context(), b.key, "a-peer"))
			equal(t, "the owner", b.get(t, b.ownerKey()), "a-peer")
			equal(t, "the count", b.get(t, b.countKey()), left)
			between(t, "TTL of the owner key", b.pttl(t, b.ownerKey()), time.Second, 20*time.Second)
			between(t, "TTL of the count key", b.pttl(t, b.countKey()), time.Second, 20*time.Second)
		}
		must(t, "UnlockByValue", b.locks.UnlockByValue(t.Context(), b.key, "a-peer"))
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
		equal(t, "the count key", b.get(t, b.countKey()), "")
		wantIs(t, b.locks.UnlockByValue(t.Context(), b.key, "a-peer"), redislock.ErrLockNotHeld)
	}},
	{"UnlockByValue_frees_a_hold_elsewhere_that_has_no_count", func(t *testing.T, b *bed) {
		b.set(t, b.ownerKey(), "a-peer", 20*time.Second)
		must(t, "UnlockByValue", b.locks.UnlockByValue(t.Context(), b.key, "a-peer"))
		equal(t, "the owner key", b.get(t, b.ownerKey()), "")
	}},
	{"UnlockByValue_with_a_wrong_or_empty_value_is_ErrLockNotHeld_and_changes_nothing", func(t *testing.T, b *bed) {
		lock := b.held(t)
		owner := lock.GetValue()
		for _, value := range []string{"wrong", "", owner + "x"} {
			wantIs(t, b.locks.UnlockByValue(t.Context(), b.key, value), redislock.ErrLockNotHeld)
		}
		wantIs(t, b.locks.UnlockByValue(t.Context(), b.key+":2", owner), redislock.ErrLockNotHeld)
		equal(t, "the owner", b.get(t, b.ownerKey()), owner)
		equal(t, "Err", lock.Err(), nil)
	}},
	{"UnlockByValue_of_a_past_hold_does_not_touch_the_next", func(t *testing.T, b *bed) {
		lock := b.held(t)
		old := lock.GetValue()
		must(t, "Release", lock.Release(t.Context()))
		must(t, "Acquire", lock.Acquire(t.Context()))
		wantIs(t, b.locks.UnlockByValue(t.Context(), b.key, old), redislock.ErrLockNotHeld)
		equal(t, "Err", lock.Err(), nil)
		equal(t, "the owner", b.get(t, b.ownerKey()), lock.GetValue())
	}},
	{"UnlockByValue_of_a_free_lock_is_ErrLockNotHeld", func(t *testing.T, b *bed) {
		wantIs(t, b.locks.UnlockByValue(t.Context(), b.key, "a-peer"), redislock.ErrLockNotHeld)
		b.set(t, b.countKey(), "2", time.Minute) // a count without an owner means nothing
		wantIs(t, b.locks.UnlockByValue(t.Context(), b.key, "a-peer"), redislock.ErrLockNotHeld)
	}},
	{"a_holder_learns_of_an_unlock_elsewhere_by_its_next_call", func(t *testing.T, b *bed) {
		lock := b.held(t)
		b.del(t, b.ownerKey(), b.countKey()) // as the unlock in another process does
		wantIs(t, lock.Renew(t.Context(), time.Minute), redislock.ErrLockLost)
		wantIs(t, lock.Err(), redislock.ErrLockLost)
	}},
	{"a_holder_learns_of_an_unlock_elsewhere_by_its_next_renewal", func(t *testing.T, b *bed) {
		lock := b.held(t, renewed, expiration(600*time.Millisecond))
		done := lock.Done()
		b.del(t, b.ownerKey(), b.countKey())
		closes(t, "Done", done)
		wantIs(t, lock.Err(), redislock.ErrLockLost)
	}},
	{"UnlockByValue_is_bounded_by_the_default_ScriptCallTimeout", func(t *testing.T, b *bed) {
		b.takenElsewhere(t, "a-peer", 1, time.Minute)
		b.wire.stall(t)
		started := time.Now()
		err := closes(t, "UnlockByValue returns", async(func() error {
			return b.locks.UnlockByValue(context.Background(), b.key, "a-peer")
		}))
		if took := time.Since(started); took < redislock.DefaultLockOptions.ScriptCallTimeout/2 {
			t.Errorf("gave up after %s, before its time", took)
		}
		wantIs(t, err, context.DeadlineExceeded)
		wantNot(t, err, redislock.ErrLockNotHeld)
	}},
}
