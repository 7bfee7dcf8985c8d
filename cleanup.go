package redislock

import (
	"context"
	"strconv"
	"time"

	"github.com/go-lynx/lynx-redis-lock/internal/script"
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

// cleanup frees a lock that its owner value may or may not have taken: its
// acquire had no answer, or an answer nobody wanted any more.
type cleanup struct {
	lock  *RedisLock
	value string
	mark  time.Duration // TTL of the mark that stops a late request of this value; 0: none
	since time.Time
	at    time.Time
	pause time.Duration
}

// cleanups is the manager's list of them; guarded by manager.mu.
type cleanups struct {
	waiting []*cleanup
	running int
}

func (c *cleanups) idle() bool { return len(c.waiting) == 0 && c.running == 0 }

// next is when the first one is due; zero: none can be started.
func (c *cleanups) next() (at time.Time) {
	if c.running >= maxCleaners {
		return at // the one that ends arms the timer
	}
	for _, one := range c.waiting {
		if at.IsZero() || one.at.Before(at) {
			at = one.at
		}
	}
	return at
}

// clean frees what value holds of the lock, in the background and until it is
// answered. late: a send of its acquire was not answered and may still arrive; a
// mark is left, so that it takes nothing then.
func (m *manager) clean(lock *RedisLock, value string, late bool) {
	c := &cleanup{lock: lock, value: value}
	if late {
		c.mark = lock.markTTL()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.cleanups.waiting) >= maxCleanups {
		logWarn("redislock: %d cleanups are waiting for Redis: %q stays locked until its lease ends", maxCleanups, c.lock.key)
		return
	}
	c.since, c.pause = time.Now(), firstRecheck
	c.at = c.since
	m.cleanups.waiting = append(m.cleanups.waiting, c)
	process.enlistAnyway(m)
	m.arm()
}

// startCleaners starts what is due, at most maxCleaners at once. Under mu.
func (m *manager) startCleaners(now time.Time) {
	kept := m.cleanups.waiting[:0]
	for _, c := range m.cleanups.waiting {
		if c.at.After(now) || m.cleanups.running >= maxCleaners {
			kept = append(kept, c)
			continue
		}
		m.cleanups.running++
		go m.runCleanup(m.workContext(), c) // one call; a drain cancels it
	}
	clear(m.cleanups.waiting[len(kept):])
	m.cleanups.waiting = kept
}

func (m *manager) runCleanup(ctx context.Context, c *cleanup) {
	res := m.runner.Run(ctx, script.Call{
		Script:  releaseScript,
		Keys:    []string{c.lock.ownerKey(), c.lock.countKey(), c.lock.markKey(c.value)},
		Bare:    1,
		Args:    []any{c.value, "0", strconv.FormatInt(c.mark.Milliseconds(), 10)},
		Timeout: c.lock.callTime(),
	})
	retry := res.Err != nil && (res.NotRun || res.Unanswered) && !isClosed(res.Err) && ctx.Err() == nil
	if res.Err == nil && res.Bare { // freed; the mark has to wait until the slot has moved
		retry = ctx.Err() == nil && time.Since(c.since) < c.mark
	}
	if res.Err != nil && !retry && !isClosed(res.Err) && ctx.Err() == nil {
		logWarn("redislock: %q could not be cleaned up and stays locked until its lease ends: %v", c.lock.key, res.Err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cleanups.running--
	if retry {
		c.at, c.pause = time.Now().Add(c.pause), min(2*c.pause, longestPause)
		m.cleanups.waiting = append(m.cleanups.waiting, c)
	}
	m.arm()
	m.settle()
}
