package redislock

import (
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lynx/lynx-redis-lock/internal/lease"
	"github.com/go-lynx/lynx-redis-lock/internal/script"
	"github.com/go-lynx/lynx-redis-lock/internal/timeheap"
)

// phase is where a hold is in its life; it only goes forward.
type phase uint8

const (
	held      phase = iota
	releasing       // the last-level release was sent; without an answer it may be repeated
	released
	lost
)

// hold is one acquisition with all its levels. It has an owner value of its own,
// so that nothing late, of this hold or of another, can touch the next one.
type hold struct {
	// Fixed after construction.
	lock     *RedisLock
	manager  *manager
	value    string
	token    int64
	acquired time.Time

	// Guarded by mu. No Redis call, callback or channel send happens under it,
	// and manager.mu is never taken under it.
	mu          sync.Mutex
	phase       phase
	told        bool // Acquire or Release has reported the loss
	counted     bool // this hold has written a count key
	depthUnsure bool // a call that changes the depth was not answered
	mark        bool // a send of the acquire was never answered: the end leaves a mark in Redis
	depth       int32
	era         uint32        // a renewal sent in an earlier era lengthens nothing any more
	lease       time.Duration // what renewals ask for
	until       time.Time     // trusted up to here
	done        chan struct{} // made by the first Done
	seldom      *seldom       // what most holds never have; nil: none of it

	// Guarded by manager.mu.
	renewal renewal
	wake    timeheap.Item[*hold] // when the manager looks at it next
	ready   timeheap.Item[*hold] // waits for a worker, the most urgent first
}

// seldom is the part of a hold that most have not: of 100,000 it would be 8 MB.
type seldom struct {
	lost     error         // after a loss: Is ErrLockLost
	pending  time.Duration // the lease of a Renew in flight: it may arrive at any moment; 0: none
	ceiling  time.Duration // no lease is believed longer; 0: none. See Renew.
	contexts map[*leaseContext]struct{}
	run      run // of hand-overs in this process that led to the hold
}

// seldomPart makes it when it is not there; under mu.
func (h *hold) seldomPart() *seldom {
	if h.seldom == nil {
		h.seldom = new(seldom)
	}
	return h.seldom
}

// prefix is the part of the owner values that is the same in the whole process.
var prefix = sync.OnceValue(func() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	ip := "0.0.0.0"
	if addrs, err := net.InterfaceAddrs(); err == nil {
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil {
				ip = n.IP.String()
				break
			}
		}
	}
	return host + "-" + ip + "-" + strconv.Itoa(os.Getpid()) + "-"
})

var sequence atomic.Uint64

// newValue is a fresh owner value: <host>-<ip>-<pid>-<sequence>-<random>. The
// random part tells apart processes that share the rest, such as containers.
func newValue() string {
	const digits = 36
	b := make([]byte, 0, len(prefix())+28)
	b = append(b, prefix()...)
	b = strconv.AppendUint(b, sequence.Add(1), digits)
	b = append(b, '-')
	return string(strconv.AppendUint(b, rand.Uint64(), digits))
}

// check is nil while the hold is trusted. Whoever finds its deadline passed ends it.
func (h *hold) check(now time.Time) error {
	h.mu.Lock()
	expired := h.phase == held && lease.Left(h.until, now) <= 0
	err := h.errLocked()
	h.mu.Unlock()
	if expired {
		h.lose(held, lossExpired, now)
		return h.err()
	}
	return err
}

// trusted is check at this moment.
func (h *hold) trusted() bool { return h.check(time.Now()) == nil }

// err is what is known without looking at the clock.
func (h *hold) err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.errLocked()
}

func (h *hold) errLocked() error {
	switch h.phase {
	case held:
		return nil
	case lost:
		return h.seldom.lost
	default:
		return ErrLockNotHeld
	}
}

// lose ends the hold as lost, once, and tells everybody. In a later phase than
// latest it does nothing: what a renewal or a question hears after our own release
// is no loss. Only the release itself, on its first send, may find one then.
func (h *hold) lose(latest phase, reason LossReason, now time.Time) bool {
	h.mu.Lock()
	if h.phase > latest {
		h.mu.Unlock()
		return false
	}
	if h.phase == held && lease.Left(h.until, now) <= 0 {
		reason = lossExpired // what an answer says after the deadline is no news
	}
	h.phase = lost
	lost := newError(ErrLockLost, &LostError{Key: h.lock.GetKey(), Token: h.token, Reason: reason, At: now}, "lock lost")
	h.seldomPart().lost = lost
	recordLost(reason)
	if renewed := h.finish(); renewed && reason == lossExpired { // unlocks
		recordRenewGivenUp()
	}
	dispatch.failed(h.lock.GetKey(), newError(ErrLockRenewalFailed, lost, "renewing %q", h.lock.GetKey()))
	waiters.Freed(h.manager.line(h.lock.GetKey()))
	return true
}

// finish closes what watches the hold and takes it out of the manager. It is
// called with mu locked, by the one that ended the hold, and unlocks it. renewed:
// the hold was under renewal.
func (h *hold) finish() (renewed bool) {
	cause := h.errLocked()
	var contexts map[*leaseContext]struct{}
	if h.seldom != nil {
		contexts, h.seldom.contexts = h.seldom.contexts, nil
	}
	if h.done != nil && h.done != closedChan { // a release may find a loss
		close(h.done)
	}
	h.done = closedChan
	leaveMark := h.phase == lost && h.mark
	h.mu.Unlock()
	for c := range contexts {
		c.cancel(cause)
	}
	renewed = h.manager.remove(h)
	if leaveMark {
		h.clean(true)
	}
	return renewed
}

// beginRelease ends the hold for its last-level release, or allows to repeat one
// that was not answered. repeat: this is not the first one.
func (h *hold) beginRelease() (repeat, ok bool) {
	h.mu.Lock()
	switch h.phase {
	case held:
		h.phase = releasing
		h.finish() // unlocks
		return false, true
	case releasing:
		h.mu.Unlock()
		return true, true
	default:
		h.mu.Unlock()
		return false, false
	}
}

// endRelease notes that the last-level release is answered.
func (h *hold) endRelease() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase == releasing {
		h.phase = released
	}
}

// clean frees in the background what the hold may still have in Redis.
func (h *hold) clean(late bool) { h.manager.clean(h.lock, h.value, late, h.currentLease()) }

// owesNothing is called by a drain: what the hold's end would leave to do in the
// background is not done any more.
func (h *hold) owesNothing() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mark = false
}

// owesMark says whether the hold's end leaves a mark.
func (h *hold) owesMark() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mark
}

// tell notes that the caller is about to get err, so that no later Acquire
// reports the loss again.
func (h *hold) tell(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = true
	return err
}

// untoldLoss says whether the hold was lost and no call has reported it yet.
func (h *hold) untoldLoss() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.phase == lost && !h.told
}

// gone ends the hold when a script has found it gone from Redis.
func (h *hold) gone(res script.Result) bool {
	if res.Err != nil || res.Reply.Code == script.Done {
		return false
	}
	h.lose(held, reasonOf(res.Reply), time.Now())
	return true
}

func reasonOf(reply script.Reply) LossReason {
	if reply.Code == script.Absent {
		return lossVanished
	}
	return lossTaken
}

// lengthen believes an answered renewal or reentry that was sent in the given era,
// unless the answer came after the deadline.
func (h *hold) lengthen(sent time.Time, ttl time.Duration, era uint32) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase == held && h.era == era && lease.Left(h.until, now) > 0 {
		h.until = lease.Later(h.until, lease.Until(sent, h.believed(ttl)))
	}
}

// believed is how long a lease of ttl may be trusted in this hold; under mu.
func (h *hold) believed(ttl time.Duration) time.Duration {
	if h.seldom == nil {
		return ttl
	}
	for _, limit := range []time.Duration{h.seldom.pending, h.seldom.ceiling} {
		if limit > 0 {
			ttl = min(ttl, limit)
		}
	}
	return ttl
}

// keys are those this hold has written; an absent key named in a script makes a
// slot that is being moved refuse it.
func (h *hold) keys() []string {
	if h.hasCount() {
		return []string{h.lock.ownerKey(), h.lock.countKey()}
	}
	return []string{h.lock.ownerKey()}
}

func (h *hold) hasCount() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counted
}

// doneChan is closed when the hold ends.
func (h *hold) doneChan() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done == nil {
		h.done = make(chan struct{})
	}
	return h.done
}

// currentLease is what renewals ask for.
func (h *hold) currentLease() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lease
}

// expiry is the moment up to which the hold is trusted.
func (h *hold) expiry() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until
}
