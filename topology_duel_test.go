package redislock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// lateness is how much later than its deadline a loss may be told: timers and
// goroutines of a busy machine, and nothing that the lock would wait for.
const lateness = time.Second

// duel is one key that two sides take in turns: one of them holds it, the other
// waits for it. A quick one is given up every few hundred ms, the others only change
// hands when they are lost.
type duel struct {
	key   string
	quick bool
	sides [2]*redislock.RedisLock // over clients of their own

	mu       sync.Mutex // guards the rest
	holder   *redislock.RedisLock
	token    int64          // of the last hold
	turns    int            // holds so far
	next     chan struct{}  // closed by the next acquisition
	ended    map[int64]bool // the holds that are over, by token; true: lost
	lost     []int64        // the tokens of those lost, in order
	overlaps time.Time      // since when the hold that has not ended yet is not the only one
}

// arena is where some duels go on until the test ends.
type arena struct {
	t     *testing.T
	duels []*duel
	// lossless: the server loses no write it has answered, so that there is no
	// overlap and no token that was seen before.
	lossless bool
	players  sync.WaitGroup
	cancel   context.CancelFunc

	mu       sync.Mutex // guards the rest
	overlaps []time.Duration
}

// newArena starts the duels. Each lease is a little different, or all of them would
// be renewed at the same moment after the first failover.
func newArena(t *testing.T, lossless bool, keys []string, clients [2]redis.UniversalClient) *arena {
	t.Helper()
	a := &arena{t: t, lossless: lossless}
	providers := [2]redislock.Provider{redislock.NewProvider(clients[0]), redislock.NewProvider(clients[1])}
	for i, key := range keys {
		d := &duel{key: key, quick: i%2 == 0, next: make(chan struct{}), ended: map[int64]bool{}}
		options := redislock.DefaultLockOptions
		options.Expiration = 3500*time.Millisecond + time.Duration(i)*50*time.Millisecond
		for side, provider := range providers {
			lock, err := provider.NewLock(t.Context(), key, options)
			succeeds(t, "NewLock", err)
			d.sides[side] = lock
		}
		a.duels = append(a.duels, d)
	}
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	t.Cleanup(a.stop) // before the clients are closed
	for _, d := range a.duels {
		for side := range d.sides {
			a.players.Go(func() { a.play(ctx, d, side) }) // ends with stop
		}
	}
	return a
}

// stop has everybody release what they hold, and returns when they have.
func (a *arena) stop() {
	a.cancel()
	a.players.Wait()
}

// play is one side of a duel. A waiter waits until its context ends, whatever
// happens to the servers.
func (a *arena) play(ctx context.Context, d *duel, side int) {
	for ctx.Err() == nil {
		if err := d.sides[side].AcquireWait(ctx); err != nil {
			if ctx.Err() == nil {
				a.t.Errorf("%s: AcquireWait: %v", d.key, err)
			}
			return
		}
		next := a.acquired(d, side)
		a.hold(ctx, d, d.sides[side])
		select { // it is the other side's turn
		case <-next:
		case <-ctx.Done():
		}
	}
}

// acquired notes a new hold: the one before must have been told by now. The result
// is closed by the hold after it.
func (a *arena) acquired(d *duel, side int) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	lock, previous := d.sides[side], d.sides[1-side]
	if d.turns > 0 && previous.Err() == nil {
		if a.lossless {
			a.t.Errorf("%s was acquired while its last holder had not been told", d.key)
		}
		d.overlaps = time.Now()
	}
	if token := lock.GetToken(); a.lossless && token <= d.token {
		a.t.Errorf("%s: token %d after %d", d.key, token, d.token)
	}
	d.holder, d.token = lock, lock.GetToken()
	d.turns++
	close(d.next)
	d.next = make(chan struct{})
	return d.next
}

// hold keeps the lock until it is lost, or given up, and notes how it ended.
func (a *arena) hold(ctx context.Context, d *duel, lock *redislock.RedisLock) {
	lease, cancel := lock.Context(context.Background())
	defer cancel()
	var enough <-chan time.Time
	if d.quick {
		enough = time.After(200*time.Millisecond + rand.N(300*time.Millisecond))
	}
	select {
	case <-lock.Done():
	case <-enough:
	case <-ctx.Done():
	}
	over, found := time.Now(), lock.Err()
	if late := over.Sub(lock.GetExpiresAt()); late > lateness {
		a.t.Errorf("%s: the hold ended %s after its deadline", d.key, late)
	}
	a.release(d, lock)
	if found == nil { // a release that finds a loss has ended the lease context before
		found = lock.Err()
	} else {
		a.wasTold(d, lock, lease, found)
	}
	a.note(d, lock, over, errors.Is(found, redislock.ErrLockLost))
}

// note keeps how a hold ended, and since when it had not been the only one.
func (a *arena) note(d *duel, lock *redislock.RedisLock, over time.Time, lost bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.overlaps.IsZero() && d.holder != lock {
		took := over.Sub(d.overlaps)
		if took > lock.GetExpiration()+lateness {
			a.t.Errorf("%s: two holders overlapped for %s, with a lease of %s", d.key, took, lock.GetExpiration())
		}
		a.noteOverlap(took)
		d.overlaps = time.Time{}
	}
	d.ended[lock.GetToken()] = lost
	if lost {
		d.lost = append(d.lost, lock.GetToken())
	}
}

// release repeats a release without an answer, as its documentation allows. One that
// finds the hold lost says so, and then there is nothing to release.
func (a *arena) release(d *duel, lock *redislock.RedisLock) {
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		err := lock.Release(context.Background())
		if err == nil || errors.Is(err, redislock.ErrLockNotHeld) {
			return
		}
		if time.Now().After(end) {
			a.t.Errorf("%s: Release got no answer for a minute: %v", d.key, err)
			return
		}
	}
}

// wasTold checks what the holder sees of its loss; the callback is counted at the end.
func (a *arena) wasTold(d *duel, lock *redislock.RedisLock, lease context.Context, err error) {
	select {
	case <-lease.Done():
	case <-time.After(lateness):
		a.t.Errorf("%s: the lease context of a lost hold has not ended", d.key)
	}
	if cause := context.Cause(lease); !errors.Is(cause, redislock.ErrLockLost) {
		a.t.Errorf("%s: the cause of the lease context is %v", d.key, cause)
	}
	if !isClosed(lock.Done()) {
		a.t.Errorf("%s: Done of a lost hold is open", d.key)
	}
	var loss *redislock.LostError
	if !errors.As(err, &loss) || loss.Token != lock.GetToken() {
		a.t.Errorf("%s: the loss of token %d reads %v", d.key, lock.GetToken(), err)
	}
}

func (a *arena) noteOverlap(took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.overlaps = append(a.overlaps, took)
}

// everyLossWasToldOnce compares the callbacks with what the holders have seen.
func (a *arena) everyLossWasToldOnce() {
	a.t.Helper()
	told := func(d *duel) (tokens []int64) {
		for _, err := range faultEvents.losses(d.key) {
			var loss *redislock.LostError
			if errors.As(err, &loss) {
				tokens = append(tokens, loss.Token)
			}
		}
		return slices.Sorted(slices.Values(tokens))
	}
	for _, d := range a.duels {
		lost := slices.Sorted(slices.Values(d.lost))
		becomes(a.t, time.Minute, "OnLockRenewalFailed for each loss", func() bool { return len(told(d)) >= len(lost) })
		if got := told(d); !slices.Equal(got, lost) {
			a.t.Errorf("%s: OnLockRenewalFailed was told of the tokens %v, lost were %v", d.key, got, lost)
		}
	}
}

// standing is a hold at the moment of a failure.
type standing struct {
	*duel
	lock  *redislock.RedisLock
	token int64
}

// standing are the holds of these keys that are trusted now.
func (a *arena) standing(of func(key string) bool) (all []standing) {
	for _, d := range a.duels {
		d.mu.Lock()
		if s := (standing{d, d.holder, d.token}); of(d.key) && s.lock != nil && s.lock.Err() == nil {
			all = append(all, s)
		}
		d.mu.Unlock()
	}
	return all
}

// fate is what became of a hold that stood at the failure: a lease survives when it
// was renewed after it.
func (s standing) fate(failed time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lost, over := s.ended[s.token]
	switch {
	case over && lost:
		return "lost"
	case over:
		return "released"
	case s.lock.Err() == nil && s.lock.GetExpiresAt().After(failed.Add(s.lock.GetExpiration())):
		return "survived"
	}
	return "" // not decided yet
}

// goesOn waits until every hold of before is decided and every key has a holder again,
// who has it from a server that serves; then it says what became of those.
func (a *arena) goesOn(before []standing, failed time.Time) map[string]int {
	a.t.Helper()
	fates := map[string]int{}
	for _, s := range before {
		fate := ""
		becomes(a.t, time.Minute, s.key+" is renewed, lost or released", func() bool {
			fate = s.fate(failed)
			return fate != ""
		})
		fates[fate]++
	}
	for _, d := range a.duels {
		turns := a.turns(d)
		becomes(a.t, time.Minute, d.key+" has a holder", func() bool {
			if d.quick {
				return a.turns(d) > turns
			}
			return len(a.standing(func(key string) bool { return key == d.key })) == 1
		})
	}
	return fates
}

func (a *arena) turns(d *duel) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.turns
}
