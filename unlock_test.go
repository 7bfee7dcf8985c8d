package redislock_test

import (
	"context"
	"testing"
	"time"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// unlockElsewhere takes one level off, as UnlockByValue in another process does.
func (r *faultRig) unlockElsewhere(t *testing.T, value string) {
	t.Helper()
	depth := r.get(t, ":count")
	if depth == "" {
		depth = "1"
	}
	keys := []string{r.redisKey(":owner"), r.redisKey(":count")}
	must(t, "unlock", r.direct.Eval(t.Context(), luaSource(t, "unlock"), keys, value, depth).Err())
}

func TestALevelUnlockedElsewhereCountsInTheMiddleOfReleases(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	lock := r.held(t, faultOptions(600*time.Millisecond))
	must(t, "the second Acquire", lock.Acquire(t.Context()))
	must(t, "the third Acquire", lock.Acquire(t.Context()))
	r.unlockElsewhere(t, lock.GetValue())
	must(t, "Release", lock.Release(t.Context()))
	r.unlockElsewhere(t, lock.GetValue())
	r.ownerIsGone(t, 1500*time.Millisecond)
}

func TestALevelUnlockedElsewhereCountsBeforeAReentry(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	lock := r.held(t, faultOptions(600*time.Millisecond))
	must(t, "the second Acquire", lock.Acquire(t.Context()))
	must(t, "the third Acquire", lock.Acquire(t.Context()))
	r.unlockElsewhere(t, lock.GetValue())
	must(t, "the reentry", lock.Acquire(t.Context()))
	r.unlockElsewhere(t, lock.GetValue())
	r.unlockElsewhere(t, lock.GetValue())
	must(t, "Release", lock.Release(t.Context()))
	r.ownerIsGone(t, 1500*time.Millisecond)
}

func TestUnlockByValueOfACountThatIsNoDepthEnds(t *testing.T) {
	t.Parallel()
	r := newFaultRig(t)
	for _, count := range []string{"abc", "-5", "0", "1.5", "inf", "nan", "0x10", "1e3", "99999999999999999999"} {
		must(t, "SET", r.direct.Set(t.Context(), r.redisKey(":owner"), "v", time.Minute).Err())
		must(t, "SET", r.direct.Set(t.Context(), r.redisKey(":count"), count, time.Minute).Err())
		before := scriptCalls(t, r.direct)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		err := r.another.UnlockByValue(ctx, r.key, "v")
		cancel()
		if calls := scriptCalls(t, r.direct) - before; calls > 3 {
			t.Errorf("count %q: UnlockByValue made %d calls: %v", count, calls, err)
		}
	}
}

func TestALockFunctionThatDidNotRunIsAnError(t *testing.T) {
	r := newFaultRig(t)
	callBack(t, hooks{acquired: func() {
		if err := r.another.UnlockByValue(context.Background(), r.key, r.get(t, ":owner")); err != nil {
			t.Error(err)
		}
	}})
	ran := false
	err := r.ours.LockWithOptions(t.Context(), r.key, faultOptions(5*time.Second), func() error {
		ran = true
		return nil
	})
	equal(t, "the function ran", ran, false)
	wantIs(t, err, redislock.ErrLockNotHeld)
}
