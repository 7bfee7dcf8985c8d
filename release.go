package redislock

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/go-lynx/lynx-redis-lock/internal/script"
)

// Release leaves one level; the last one frees the lock. The hold ends, and its
// renewal stops, when the last level's release is sent. Under a context that has
// ended already it runs on one of its own, bounded by ScriptCallTimeout.
//
// The error Is ErrLockNotHeld when there is no hold, and ErrLockLost as well when the
// lease ended before. Any other error means that Redis did not answer: the last
// level's release may then be repeated (by Release only, or the next Acquire does
// it), and else the key runs out with its lease. A partial release without an
// answer has counted: do not repeat it.
func (rl *RedisLock) Release(ctx context.Context) error {
	if err := rl.ready(ctx); err != nil {
		return err
	}
	return rl.releaseHold(ctx, nil)
}

// releaseBehind frees the lock after fn, all levels that fn has left. Nobody can
// repeat it, the instance is not the caller's: what it cannot free is freed in the
// background.
func (rl *RedisLock) releaseBehind(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rl.callTime())
	defer cancel()
	h := rl.current()
	if h == nil || h.state() == released { // never taken, or released by fn
		return nil
	}
	h.manager.beginCall()
	done := rl.releaseGated(ctx, h, true)
	if h.state() == releasing {
		h.endRelease()
		h.clean(h.owesMark())
	}
	h.manager.endCall()
	return rl.finish(done)
}

// releaseHold is one release. only: of this hold, and not of one that the instance
// has taken since; nil: of whatever it holds.
func (rl *RedisLock) releaseHold(ctx context.Context, only *hold) error {
	return rl.finish(rl.releaseGated(ctx, only, false))
}

// releaseDone is what one release came to.
type releaseDone struct {
	hold   *hold
	result string
	err    error
	took   time.Duration
}

// finish takes the sample of a release and calls back, outside of every gate.
func (rl *RedisLock) finish(done releaseDone) error {
	recordUnlock(done.result, done.took)
	if done.result == resultFull {
		notify(func(c LockCallback) { c.OnLockReleased(rl.GetKey(), time.Since(done.hold.acquired)) })
	}
	return done.err
}

// releaseGated is the release itself, which no other call of this instance crosses.
// all: every level of the hold.
func (rl *RedisLock) releaseGated(ctx context.Context, only *hold, all bool) (done releaseDone) {
	if ctx.Err() != nil {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), rl.callTime())
		defer cancel()
		ctx = bounded
	}
	if err := rl.enter(ctx); err != nil {
		return rl.releaseOutside(only, all, err)
	}
	defer rl.leave()
	start := time.Now()
	defer func() { done.took = time.Since(start) }()
	h := rl.current()
	done.hold = h
	if h == nil || (only != nil && h != only) {
		done.result, done.err = resultNotHeld, rl.holdsNothing(nil)
		return done
	}
	h.manager.beginCall() // before the hold ends
	defer h.manager.endCall()
	if h.check(start) == nil && !all { // check ends a hold whose deadline has passed
		var over bool
		if done.result, done.err, over = rl.releasePartly(ctx, h); over {
			return done
		}
	}
	done.result, done.err = rl.releaseLast(ctx, h)
	return done
}

// releaseOutside is a release that could not be sent because another call of the
// instance took all of its time. It counts like one without an answer: the level
// is gone, or the hold has ended and is not renewed any more.
func (rl *RedisLock) releaseOutside(only *hold, all bool, cause error) releaseDone {
	cause = fmt.Errorf("another call on this instance is under way: %w", cause)
	h := rl.current()
	if h == nil || (only != nil && h != only) {
		return releaseDone{result: resultNotHeld, err: rl.holdsNothing(cause)}
	}
	consequence := "one level less is held, do not repeat it"
	if h.check(time.Now()) != nil || all || h.leaveLevel() == 0 {
		if _, ok := h.beginRelease(); !ok {
			return releaseDone{result: resultNotHeld, err: h.tell(notHeld(h.err()))}
		}
		consequence = "it is not renewed any more and runs out with its lease"
	}
	return releaseDone{result: resultError, err: releaseFailed(rl.GetKey(), consequence, cause)}
}

func (rl *RedisLock) holdsNothing(cause error) error {
	return newError(ErrLockNotHeld, cause, "releasing %q, which this instance does not hold", rl.GetKey())
}

// releasePartly leaves one of several levels. over: that was it, otherwise there is
// only one level and the lock is to be freed. It counts when it is sent: whatever
// the answer, the depth is one less, and the hold's next call settles Redis.
func (rl *RedisLock) releasePartly(ctx context.Context, h *hold) (result string, err error, over bool) {
	depth := h.leaveLevel()
	if depth == 0 {
		return "", nil, false
	}
	res := rl.sendDepth(ctx, h, depth)
	if h.gone(res) {
		return resultNotHeld, h.tell(notHeld(h.err())), true
	}
	if res.Err != nil {
		return resultError, releaseFailed(rl.GetKey(), "one level less is held, do not repeat it", res.Err), true
	}
	left := h.leftLevel(res)
	if left > 0 && left < depth { // the script has written a level too many
		rl.settleDepth(ctx, h, left)
	}
	return resultPartial, nil, left > 0
}

// settleDepth corrects the count in Redis after levels were unlocked by value
// elsewhere. Without an answer the hold's next call that changes the depth does it.
func (rl *RedisLock) settleDepth(ctx context.Context, h *hold, depth int) {
	h.gone(rl.sendDepth(ctx, h, depth))
}

// sendDepth tells Redis which depth is left, above 0. A hold of several levels has
// written a count.
func (rl *RedisLock) sendDepth(ctx context.Context, h *hold, depth int) script.Result {
	res := h.manager.runner.Run(ctx, script.Call{
		Script: leaveScript, Keys: []string{rl.ownerKey(), rl.countKey()}, Timeout: rl.opts.ScriptCallTimeout,
		Args: []string{h.value, strconv.Itoa(depth)},
	})
	h.noteDepthCall(res)
	return res
}

// releaseLast ends the hold and frees the lock, or hands it to a waiter of this
// process, or repeats that after a release without an answer. Then, and on a
// re-send, a lock that is gone is one we freed.
func (rl *RedisLock) releaseLast(ctx context.Context, h *hold) (string, error) {
	repeat, ok := h.beginRelease()
	if !ok {
		return resultNotHeld, h.tell(notHeld(h.err()))
	}
	owes := h.owesMark()
	var quiet bool
	if !repeat && !owes {
		var next *offer
		led := h.ledBy()
		if next, quiet = h.manager.successor(h, led); next != nil {
			res := rl.handOver(ctx, h, next, led)
			if res.Err == nil || res.Unanswered || res.NotRun {
				return rl.released(h, res, false)
			} // what Redis refuses may be the waiter's affair: its rights, its FenceKey
		}
	} else {
		defer waiters.Freed(h.manager.line(rl.GetKey()))
	}
	var words releaseWords
	call := rl.releaseCall(&words, h.value, h.hasCount(), owes)
	call.Timeout = rl.opts.ScriptCallTimeout
	if quiet {
		words.args[2], words.args[3] = millis(keptAway), h.manager.hears(ctx, rl.GetKey())
		call.Args = words.args[:]
	}
	res := h.manager.runner.Run(ctx, call)
	refused := res.Err == nil && res.Reply.Code == script.Owed
	if refused {
		res.Reply = script.Reply{Code: res.Reply.N}
	}
	if refused || (res.Bare && owes) { // the mark is still owed, also without an answer
		h.clean(true)
	}
	return rl.released(h, res, repeat)
}

// released is what the answer to the last release means for the hold.
func (rl *RedisLock) released(h *hold, res script.Result, repeat bool) (string, error) {
	switch {
	case res.Err != nil:
		return resultError, releaseFailed(rl.GetKey(), "it is not renewed any more and runs out with its lease", res.Err)
	case res.Reply.Code == script.Done, res.Reply.Code == script.Freed, repeat, res.Resent:
		h.endRelease()
		return resultFull, nil
	}
	h.lose(releasing, reasonOf(res.Reply), time.Now())
	return resultNotHeld, h.tell(notHeld(h.err()))
}

// releaseWords is the memory for what a release says.
type releaseWords struct {
	keys [4]string
	args [4]string
}

// releaseCall frees what value owns. mark: a request of its acquire may still arrive.
func (rl *RedisLock) releaseCall(in *releaseWords, value string, counted, mark bool) script.Call {
	n := 2
	rl.names(in.keys[:], ownerSuffix, roomSuffix)
	in.args = [4]string{value, "0", "0"}
	if counted || mark {
		in.keys[n] = rl.countKey()
		n++
	}
	if mark {
		in.keys[n] = rl.markKey(value)
		n++
		in.args[1] = millis(rl.markTTL())
	}
	return script.Call{Script: releaseScript, Keys: in.keys[:n], Args: in.args[:3], Bare: 1}
}

// settleRelease repeats a release that got no answer, before a new acquisition: the
// key would refuse its own instance. A client that was closed will never send it, so
// that the hold is over then, but not freed: its key runs out.
func (rl *RedisLock) settleRelease(ctx context.Context, h *hold) (freed bool, err error) {
	if _, err = rl.releaseLast(ctx, h); isClosed(err) {
		h.endRelease()
		return false, nil
	}
	return err == nil, err
}

// notHeld says of a loss that the lock is not held; what says so already stays.
func notHeld(err error) error {
	if IsLockError(err, ErrCodeLockNotHeld) {
		return err
	}
	return newError(ErrLockNotHeld, err, "the lock is not held any more")
}

func releaseFailed(key, consequence string, cause error) error {
	if isClosed(cause) {
		return clientGone(cause)
	}
	return fmt.Errorf("redislock: releasing %q (%s): %w", key, consequence, cause)
}

// state is the phase the hold is in.
func (h *hold) state() phase {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.phase
}

// noteDepthCall remembers that a call which changes the depth may still arrive:
// from then on the count in Redis proves nothing against the local depth.
func (h *hold) noteDepthCall(res script.Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.depthUnsure = h.depthUnsure || res.Unanswered
}

// lowered is the depth Redis had when somebody elsewhere has unlocked a level by
// value, else the given one. Under mu.
func (h *hold) lowered(res script.Result, depth int32) int32 {
	if found := res.Reply.N; !h.depthUnsure && found > 0 && found < int64(depth) {
		return int32(found) //nolint:gosec // less than an int32
	}
	return depth
}

// enterLevel counts an answered reentry and returns the depth.
func (h *hold) enterLevel(res script.Result) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.depth = h.lowered(res, h.depth) + 1
	return int(h.depth)
}

// leaveLevel counts a partial release that is about to be sent, and returns the
// depth that is left; 0: this is the last level, which releaseLast ends.
func (h *hold) leaveLevel() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.depth <= 1 {
		return 0
	}
	h.depth--
	h.counted = true
	return int(h.depth)
}

// leftLevel settles an answered partial release and returns the depth that is left;
// 0: the level was the last one, because others were unlocked elsewhere.
func (h *hold) leftLevel(res script.Result) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	told := h.depth
	h.depth = h.lowered(res, told+1) - 1
	if told == 1 && !h.depthUnsure {
		h.counted = false // the script has deleted it
	}
	return int(h.depth)
}
