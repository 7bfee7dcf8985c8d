package redislock

import (
	"context"
	"time"

	"github.com/go-lynx/lynx-redis-lock/internal/script"
	"github.com/go-lynx/lynx-redis-lock/internal/timeheap"
)

// Bounds of the cleanups of one client.
const (
	maxCleanups   = 4096 // beyond it a key stays until its lease ends
	maxCleaners   = 8
	firstRecheck  = 25 * time.Millisecond
	longestPause  = 400 * time.Millisecond
	minMark       = time.Minute
	cleanupCaller = time.Second // bounds a cleanup's call when the lock has no timeout
)

// cleanup is a call that nobody waits for, until it is answered: it frees a lock that
// its owner value may or may not have taken, because its acquire had no answer, or
// an answer nobody wanted any more; or it passes on what this process was told.
type cleanup struct {
	key   string
	call  script.Call
	mark  bool          // it leaves a mark, which stops a late request of this value
	worth time.Duration // how long it can still free something
	since time.Time
	pause time.Duration
	wake  timeheap.Item[*cleanup]
}

// cleanups is the manager's list of them; guarded by manager.mu.
type cleanups struct {
	waiting timeheap.Heap[*cleanup]
	running int
	full    bool // it was, and has not yet drained: one warning is enough
}

func (c *cleanups) idle() bool { return c.waiting.Len() == 0 && c.running == 0 }

// next is when the first one is due; zero: none can be started.
func (c *cleanups) next() (at time.Time) {
	if first := c.waiting.Min(); first != nil && c.running < maxCleaners { // else the one that ends arms the timer
		at = first.At()
	}
	return at
}

// put takes one in; it is false when there are too many.
func (c *cleanups) put(one *cleanup, at time.Time) bool {
	switch n := c.waiting.Len(); {
	case n >= maxCleanups:
		if !c.full {
			logWarn("redislock: %d cleanups wait for Redis: %q, and what else comes now, may stay locked until its lease ends", n, one.key)
		}
		c.full = true
		return false
	case n < maxCleanups/2:
		c.full = false
	}
	c.waiting.Set(&one.wake, at)
	return true
}

// clean frees what value holds of the lock, in the background and until it is
// answered. late: a send of its acquire was not answered and may still arrive; a
// mark is left, so that it takes nothing then. lease is what Redis may have given it.
func (m *manager) clean(lock *RedisLock, value string, late bool, lease time.Duration) {
	call := lock.releaseCall(new(releaseWords), value, true, late)
	call.Timeout = lock.callTime()
	m.later(&cleanup{key: lock.GetKey(), call: call, mark: late, worth: max(lock.markTTL(), lease)})
}

// later makes the call in the background.
func (m *manager) later(c *cleanup) {
	c.since, c.pause = time.Now(), firstRecheck
	c.wake.Value = c
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cleanups.put(c, c.since) {
		process.enlistAnyway(m)
		m.arm()
	}
}

// startCleaners starts what is due, at most maxCleaners at once. Under mu.
func (m *manager) startCleaners(now time.Time) {
	c := &m.cleanups
	for first := c.waiting.Min(); first != nil && !first.At().After(now) && c.running < maxCleaners; first = c.waiting.Min() {
		c.waiting.Remove(first)
		c.running++
		go m.runCleanup(m.workContext(), first.Value) // one call; a drain cancels it
	}
}

func (m *manager) runCleanup(ctx context.Context, c *cleanup) {
	res := m.runner.Run(ctx, c.call)
	again := res.Err != nil && (res.NotRun || res.Unanswered) && !isClosed(res.Err)
	if res.Err == nil && c.mark { // freed; but a slot that is being moved, or a full Redis, has no mark yet
		again = res.Bare || res.Reply.Code == script.Owed
	}
	retry := again && ctx.Err() == nil && time.Since(c.since) < c.worth
	if res.Err != nil && !again && !isClosed(res.Err) && ctx.Err() == nil {
		logWarn("redislock: %q could not be cleaned up and stays locked until its lease ends: %v", c.key, res.Err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cleanups.running--
	if retry {
		m.cleanups.put(c, time.Now().Add(c.pause))
		c.pause = min(2*c.pause, longestPause)
	}
	m.arm()
	m.settle()
}
