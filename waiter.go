package redislock

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/go-lynx/lynx-redis-lock/internal/timeheap"
	"github.com/go-lynx/lynx-redis-lock/internal/waitq"
)

// waitKey names a line of waiters: those of this process for one key of one client.
type waitKey struct {
	client any
	key    string
}

func (m *manager) line(key string) waitKey { return waitKey{m.id, key} }

var waiters waitq.Queues[waitKey, *offer]

// waiter is one call that waits, in its place of the process's line for the key.
type waiter struct {
	lock    *RedisLock
	manager *manager
	place   *waitq.Place[waitKey, *offer]
	box     *mailbox      // where it is told; nil: nowhere yet
	queued  bool          // its channel is in the room, as far as it knows
	told    bool          // that the lock may be free, and Redis has not been asked since
	woken   bool          // its last try followed a word
	refused error         // by the last holder that it saw; nil: none yet
	rest    time.Duration // to sleep before the next try
	offer   *offer        // that stands; nil: none
	untold  untold
	untuned bool // its subscription did not come about in time: it polls
	relied  bool // it has slept on a holder of this process that it never asked Redis about
	giveUp  <-chan struct{}
	stopped bool // by a drain, after which nothing is sent any more
}

// wait takes its place in the line and tries when its turn has come. What it waits
// for never keeps another goroutine of this instance out.
func (rl *RedisLock) wait(ctx context.Context) error {
	if h := rl.current(); h != nil && (h.trusted() || h.untoldLoss()) {
		if tried := rl.try(ctx, nil); !tried.again {
			return tried.err
		}
	}
	m, err := rl.source.manager()
	if err != nil {
		return err
	}
	giveUp, err := m.startWaiting()
	if err != nil {
		return err
	}
	defer m.endWaiting()
	w := &waiter{lock: rl, manager: m, giveUp: giveUp, place: waiters.Join(m.line(rl.GetKey())), box: m.listen(ctx, rl.GetKey(), true)}
	defer w.leave()
	if seen := timeheap.Moment(m.untold.Load()); seen != 0 && time.Since(seen.Time()) < untoldMemory {
		w.untold.nap = longestPoll / 2
	}
	return w.wait(ctx)
}

func (w *waiter) wait(ctx context.Context) error {
	for {
		tried, err := w.step(ctx)
		if err != nil {
			return err
		}
		if tried == nil {
			continue
		}
		if over, err := w.over(ctx, *tried); over {
			return err
		}
	}
}

// step is a try, of its own or of a release in this process, or (nil) a sleep without one.
func (w *waiter) step(ctx context.Context) (*attempt, error) {
	begun := w.lock.nextHold()
	first, answer, err := w.turn(ctx, begun)
	if err != nil || answer != nil {
		return answer, err
	}
	nap, local := w.rest, false
	w.rest = 0
	if first && nap == 0 {
		nap, local = w.outlook()
	}
	if first && nap > 0 {
		return w.sleep(ctx, nap, local, begun), nil
	}
	if answer := w.withdraw(ctx); answer != nil {
		return answer, nil
	}
	tried := w.try(ctx)
	if first && tried.again && !w.tuneIn(ctx, tried) { // else once more, now that it is told
		w.rest = w.nap(tried)
	}
	return &tried, nil
}

// turn waits until it is the first of the line. It is false, without waiting, when
// the instance holds the lock by now: the try is a reentry. Its offer stands
// meanwhile: whoever is before it may be done before it has woken up.
func (w *waiter) turn(ctx context.Context, begun <-chan struct{}) (first bool, answer *attempt, err error) {
	if w.lock.Err() == nil {
		return false, nil, nil
	}
	select {
	case <-w.place.Turn():
		first = true
	default:
		w.stand(ctx)
		select {
		case <-w.place.Turn():
			first = true
		case answer := <-w.offer.answer:
			return true, w.take(answer), nil
		case <-begun:
		case <-w.giveUp:
		case <-ctx.Done():
		}
	}
	if err = w.ends(ctx); err != nil {
		if answer = w.withdraw(ctx); answer != nil && answer.err == nil {
			return first, answer, nil
		}
	}
	return first, nil, err
}

// ends is why it waits no longer.
func (w *waiter) ends(ctx context.Context) error {
	select {
	case <-w.giveUp: // also when that Shutdown is over
		w.stopped = true
		return stopping()
	default:
	}
	if ended(ctx) != nil {
		return endedBy(ctx, w.lock.GetKey(), w.refused)
	}
	return nil
}

// outlook is for how long it need not try, because this process leaves the lock to
// others, or (local) because one of its own holds it and will hand it over.
func (w *waiter) outlook() (nap time.Duration, local bool) {
	held, away := w.place.Outlook()
	now := time.Now()
	switch {
	case away.After(now):
		return away.Sub(now), false
	case !w.told && !w.relied && w.refused == nil && held.After(now) && w.lock.settled():
		w.relied = true // once: then it asks
		return min(held.Sub(now), longestNap), true
	}
	return 0, false
}

func (w *waiter) try(ctx context.Context) attempt {
	said := &announcement{channel: w.channel(ctx)}
	switch {
	case said.channel == "":
		if !w.untuned && !w.box.deaf() {
			said.how = announceSoon // it is no poller
		}
	case !w.box.proven.Load():
		said.how = announceProbe
	}
	w.woken = w.told
	tried := w.lock.try(ctx, said)
	if tried.err == nil || tried.sure {
		w.told = tried.promised
	}
	w.queued = tried.queued
	switch {
	case tried.queued:
		w.box.proven.Store(true)
	case tried.sure && said.channel != "" && IsLockError(tried.err, ErrCodeLockAcquireConflict):
		w.manager.pollInstead(w.box, errors.New("publishing, or a command on lists"))
	}
	return tried
}

// channel is where it would hear of a release; "": nowhere.
func (w *waiter) channel(ctx context.Context) string {
	if w.manager.moved(ctx, w.box, w.lock.GetKey()) {
		w.manager.unlisten(w.box)
		w.box = w.manager.listen(ctx, w.lock.GetKey(), false)
	}
	return w.box.hears(ctx)
}

// tuneIn subscribes after the first refusal. It is true when that is worth a try:
// the lock may have been freed before anybody could tell.
func (w *waiter) tuneIn(ctx context.Context, tried attempt) bool {
	if tried.queued || !tried.sure || w.box.deaf() {
		return false
	}
	patience := inboxPatience
	if w.untuned {
		patience = 0 // once is enough, it polls meanwhile
	}
	w.untuned = true
	if w.box == nil {
		w.box = w.manager.listen(ctx, w.lock.GetKey(), false)
	}
	if w.box == nil {
		return false
	}
	ready, refused := w.box.Ready(ctx, patience)
	if isClosed(refused) { // its node left the Cluster
		w.manager.forget(w.box)
		w.box = nil
	} else if refused != nil {
		w.manager.pollInstead(w.box, refused)
	}
	w.untuned = !ready
	return ready && !w.box.deaf()
}

// over is what ends the wait.
func (w *waiter) over(ctx context.Context, tried attempt) (bool, error) {
	if IsLockError(tried.err, ErrCodeLockAcquireConflict) {
		w.refused = tried.err
	}
	switch {
	case tried.err == nil:
		w.served(tried)
		return true, nil
	case ended(ctx) != nil:
		return true, endedBy(ctx, w.lock.GetKey(), cmp.Or(w.refused, tried.err))
	case !tried.again:
		return true, tried.err
	}
	return false, nil
}

// served counts how it came by the lock; a free one that nobody had is no hand-over.
func (w *waiter) served(tried attempt) {
	switch {
	case tried.handed:
		recordHandOver(handedLocal)
	case w.woken:
		recordHandOver(handedWoken)
	case w.refused != nil:
		recordHandOver(handedFallback)
	}
}

// nap is how long to sleep after a refusal, unless it is told: up to the end of the
// holder's lease, so that a holder that has died blocks nobody.
func (w *waiter) nap(tried attempt) time.Duration {
	switch {
	case tried.promised:
		return tried.left + time.Millisecond
	case !tried.queued:
		return poll(tried.left)
	case tried.left < 0:
		return noTTLNap
	}
	longest := longestNap * time.Duration(1+waiters.Len()/napLines)
	if w.untold.note(tried.holder, w.woken) {
		w.manager.untold.Store(int64(timeheap.MomentOf(time.Now())))
	}
	if w.untold.nap > 0 {
		longest = min(longest, w.untold.nap)
	}
	return min(tried.left, longest) + rand.N(napJitter)
}

// sleep ends after the nap, when it is told, or when a hold of the instance begins.
// Meanwhile a release in this process may hand the lock over: then there is an
// answer. local: the nap relies on such a release.
func (w *waiter) sleep(ctx context.Context, nap time.Duration, local bool, begun <-chan struct{}) *attempt {
	if held := w.stand(ctx); !local || !held.IsZero() {
		t := time.NewTimer(nap)
		defer t.Stop()
		select {
		case answer := <-w.offer.answer:
			return w.take(answer)
		case <-w.place.Told():
			w.told = true
		case <-begun:
		case <-w.giveUp:
		case <-t.C:
		case <-ctx.Done():
		}
	}
	return w.withdraw(ctx)
}

// leave gives the place up. What it was told and did not follow is for the next one,
// in this process or another.
func (w *waiter) leave() {
	served := w.lock.Err() == nil
	if w.told && !served {
		waiters.Tell(w.manager.line(w.lock.GetKey()))
	}
	if unheard := w.place.Leave(served); unheard && !w.stopped && w.manager.admits() == nil {
		channel := ""
		if w.box != nil {
			channel = w.box.Channel()
		}
		w.manager.passOn(w.lock.GetKey(), channel)
	}
	if w.box != nil {
		w.manager.unlisten(w.box)
	}
}
