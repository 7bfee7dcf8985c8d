package redislock_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

func wait(d time.Duration) option {
	return func(o *redislock.LockOptions) { o.WaitTimeout = d }
}

// waiting starts a waiter and returns once it is in the line: a later one is
// behind it. The first of a line is known by what it sends; the others send
// nothing, and are given time to get there.
func waiting(t *testing.T, b *bed, call func() error) <-chan error {
	t.Helper()
	b.wire.reset()
	got := async(call)
	for end := time.Now().Add(30 * time.Millisecond); b.wire.scripts() == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	return got
}

var waitContract = []behaviour{
	{"AcquireWait_takes_a_free_lock_at_once", func(t *testing.T, b *bed) {
		lock := b.lock(t)
		must(t, "AcquireWait", lock.AcquireWait(t.Context()))
		equal(t, "the owner", b.get(t, b.ownerKey()), lock.GetValue())
	}},
	{"AcquireWait_gets_the_lock_after_the_release_long_before_the_lease_ends", func(t *testing.T, b *bed) {
		holder, waiter := b.held(t, expiration(10*time.Minute)), b.lock(t)
		got := waiting(t, b, func() error { return waiter.AcquireWait(t.Context()) })
		must(t, "Release", holder.Release(t.Context()))
		must(t, "AcquireWait", closes(t, "the waiter has it", got))
		equal(t, "the owner", b.get(t, b.ownerKey()), waiter.GetValue())
		equal(t, "the token", waiter.GetToken(), 2)
	}},
	{"eight_waiters_are_served_in_the_order_of_their_arrival", func(t *testing.T, b *bed) {
		holder := b.held(t)
		var mu sync.Mutex
		var served []int
		var all []<-chan error
		for i := range 8 {
			lock := b.lock(t)
			all = append(all, waiting(t, b, func() error {
				if err := lock.AcquireWait(t.Context()); err != nil {
					return err
				}
				mu.Lock()
				served = append(served, i)
				mu.Unlock()
				return lock.Release(t.Context())
			}))
			time.Sleep(20 * time.Millisecond) // apart, so that they arrive in this order on a busy machine too
		}
		must(t, "Release", holder.Release(t.Context()))
		for _, got := range all {
			must(t, "a waiter", closes(t, "a waiter ends", got))
		}
		if want := []int{0, 1, 2, 3, 4, 5, 6, 7}; !slices.Equal(served, want) {
			t.Errorf("served in the order %v, want %v", served, want)
		}
	}},
	{"a_waiter_that_leaves_blocks_nobody", func(t *testing.T, b *bed) {
		holder, first, second := b.held(t), b.lock(t), b.lock(t)
		ctx, cancel := context.WithCancel(t.Context())
		left := waiting(t, b, func() error { return first.AcquireWait(ctx) })
		got := waiting(t, b, func() error { return second.AcquireWait(t.Context()) })
		cancel()
		wantIs(t, closes(t, "the first leaves", left), context.Canceled)
		must(t, "Release", holder.Release(t.Context()))
		must(t, "AcquireWait", closes(t, "the second has it", got))
		wantIs(t, first.Err(), redislock.ErrLockNotHeld)
	}},
	{"a_waiter_deep_in_the_line_leaves_at_its_deadline", func(t *testing.T, b *bed) {
		b.held(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first, second := b.lock(t), b.lock(t)
		_ = waiting(t, b, func() error { return first.AcquireWait(ctx) })
		short, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer end()
		err := closes(t, "the second leaves", async(func() error { return second.AcquireWait(short) }))
		wantIs(t, err, context.DeadlineExceeded, redislock.ErrLockAcquireTimeout)
	}},
	{"a_waiter_of_3_s_sends_at_most_3_commands", func(t *testing.T, b *bed) {
		must(t, "SCRIPT LOAD", b.locks.Lock(t.Context(), b.key, time.Minute, func() error { return nil }))
		b.takenElsewhere(t, "a-peer", 1, 10*time.Minute)
		b.wire.reset()
		err := b.locks.LockWithOptions(t.Context(), b.key, options(wait(3*time.Second)), func() error { return nil })
		wantIs(t, err, redislock.ErrLockAcquireTimeout)
		if n := b.wire.scripts(); n > 3 {
			t.Errorf("sent %d scripts, want at most 3", n)
		}
		left := b.pttl(t, b.roomKey())
		between(t, "TTL of what it leaves", left, 0, 10*time.Minute)
	}},
	{"a_waiter_that_sees_holders_change_without_a_word_looks_more_often", func(t *testing.T, b *bed) {
		b.takenElsewhere(t, "a-peer", 1, 10*time.Minute)
		lock := b.lock(t)
		got := async(func() error { return lock.AcquireWait(t.Context()) })
		n := 0
		eventually(t, "twenty tries", func() bool { // every 2 s would be too seldom
			n++
			b.set(t, b.tokenKey(), strconv.Itoa(n), time.Hour) // the published version uses an owner value again
			return b.wire.scripts() >= 20
		})
		b.wire.reset()
		time.Sleep(3 * time.Second) // a negative: beside one holder that stays it calms down
		if n := b.wire.scripts(); n > 8 {
			t.Errorf("sent %d scripts in 3 s beside the same holder, want at most 8", n)
		}
		b.del(t, b.ownerKey(), b.countKey())
		must(t, "AcquireWait", closes(t, "AcquireWait returns", got))
		must(t, "Release", lock.Release(t.Context()))

		b.takenElsewhere(t, "a-peer", 1, 10*time.Minute)
		b.wire.reset()
		err := b.locks.LockWithOptions(t.Context(), b.key, options(wait(2*time.Second)), func() error { return nil })
		wantIs(t, err, redislock.ErrLockAcquireTimeout)
		if n := b.wire.scripts(); n < 4 {
			t.Errorf("the next waiter sent %d scripts in 2 s, want at least 4: it does not know of those holders", n)
		}
	}},
	{"a_waiter_gets_a_lock_whose_holder_died_when_its_lease_ends", func(t *testing.T, b *bed) {
		b.takenElsewhere(t, "a-peer", 1, 300*time.Millisecond)
		started, lock := time.Now(), b.lock(t)
		must(t, "AcquireWait", closes(t, "the waiter has it", async(func() error { return lock.AcquireWait(t.Context()) })))
		between(t, "time of the wait", time.Since(started), 200*time.Millisecond, patience)
	}},
	{"a_waiter_gets_a_lock_that_was_released_without_a_notification", func(t *testing.T, b *bed) {
		b.takenElsewhere(t, "a-peer", 1, 5*time.Second)
		lock := b.lock(t)
		got := waiting(t, b, func() error { return lock.AcquireWait(t.Context()) })
		b.del(t, b.ownerKey(), b.countKey()) // as the published version releases
		must(t, "AcquireWait", closes(t, "the waiter has it", got))
	}},
	{"waiters_of_several_clients_all_get_it", func(t *testing.T, b *bed) {
		holder := b.held(t)
		var all []<-chan error
		for range 4 {
			lock := lockOf(t, b.provider(t), b.key)
			all = append(all, async(func() error {
				if err := lock.AcquireWait(t.Context()); err != nil {
					return err
				}
				return lock.Release(t.Context())
			}))
		}
		must(t, "Release", holder.Release(t.Context()))
		for _, got := range all {
			must(t, "a waiter", closes(t, "a waiter ends", got))
		}
	}},
	{"another_waiter_of_the_same_instance_reenters_when_its_hold_begins", func(t *testing.T, b *bed) {
		holder, lock := b.held(t), b.lock(t)
		one := waiting(t, b, func() error { return lock.AcquireWait(t.Context()) })
		two := waiting(t, b, func() error { return lock.AcquireWait(t.Context()) })
		must(t, "Release", holder.Release(t.Context()))
		must(t, "the one", closes(t, "the one has it", one))
		must(t, "the other", closes(t, "the other has it", two))
		equal(t, "the count", b.get(t, b.countKey()), "2")
		equal(t, "the token", lock.GetToken(), 2)
	}},
	{"WaitTimeout_that_runs_out_is_ErrLockAcquireTimeout_and_a_conflict", func(t *testing.T, b *bed) {
		b.held(t)
		started := time.Now()
		err := b.locks.LockWithOptions(t.Context(), b.key, options(wait(400*time.Millisecond)), func() error { t.Error("fn has run"); return nil })
		wantIs(t, err, redislock.ErrLockAcquireTimeout, redislock.ErrLockAcquireConflict)
		wantNot(t, err, redislock.ErrMaxRetriesExceeded, context.Canceled)
		between(t, "time of the wait", time.Since(started), 400*time.Millisecond, patience)
	}},
	{"WaitTimeout_that_runs_out_behind_another_waiter_is_the_same", func(t *testing.T, b *bed) {
		b.held(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first := b.lock(t)
		_ = waiting(t, b, func() error { return first.AcquireWait(ctx) })
		err := b.locks.LockContext(t.Context(), b.key, options(wait(400*time.Millisecond)), func(context.Context, *redislock.RedisLock) error {
			t.Error("fn has run")
			return nil
		})
		wantIs(t, err, redislock.ErrLockAcquireTimeout, redislock.ErrLockAcquireConflict)
	}},
	{"WaitTimeout_waits_for_the_release_whatever_the_strategy_says", func(t *testing.T, b *bed) {
		for _, limit := range []time.Duration{-1, time.Minute} {
			holder := b.held(t)
			ran := false
			got := waiting(t, b, func() error {
				return b.locks.LockWithOptions(t.Context(), b.key, options(wait(limit)), func() error { ran = true; return nil })
			})
			equal(t, "the call has returned", isClosed(got), false)
			must(t, "Release", holder.Release(t.Context()))
			must(t, "LockWithOptions", closes(t, "LockWithOptions returns", got))
			equal(t, "fn has run", ran, true)
		}
	}},
	{"a_deadline_before_WaitTimeout_is_DeadlineExceeded_and_ErrLockAcquireTimeout", func(t *testing.T, b *bed) {
		b.held(t)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err := b.locks.LockWithOptions(ctx, b.key, options(wait(time.Minute)), func() error { return errors.New("fn has run") })
		wantIs(t, err, context.DeadlineExceeded, redislock.ErrLockAcquireTimeout)
	}},
	{"AcquireWait_knows_no_WaitTimeout", func(t *testing.T, b *bed) {
		holder, lock := b.held(t), b.lock(t, wait(20*time.Millisecond))
		got := async(func() error { return lock.AcquireWait(t.Context()) })
		time.Sleep(100 * time.Millisecond) // a negative: it does not give up
		equal(t, "AcquireWait has returned", isClosed(got), false)
		must(t, "Release", holder.Release(t.Context()))
		must(t, "AcquireWait", closes(t, "AcquireWait returns", got))
	}},
	{"a_wait_survives_a_Redis_that_is_away_for_a_while", func(t *testing.T, b *bed) {
		lock := b.lock(t, timeout(callTimeout))
		b.wire.refuse()
		got := async(func() error { return lock.AcquireWait(t.Context()) })
		eventually(t, "a few tries", func() bool { return b.wire.scripts() >= 3 })
		b.wire.heal()
		must(t, "AcquireWait", closes(t, "AcquireWait returns", got))
	}},
}
