package client

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/test/history"
)

// player is one instance of our lock and the goroutine that uses it.
type player struct {
	*scribe
	key      Key
	lease    time.Duration
	renewed  bool
	lock     *redislock.RedisLock
	locks    redislock.Provider
	register register
	direct   *redis.Client // nil: Inspect is not asked for

	// The hold that is under way.
	depth  int
	slow   bool // its acquire was answered late
	belief history.Belief
	told   chan int64 // when its Done closed
}

func newPlayer(s *scribe, locks redislock.Provider, r register) (*player, error) {
	p := &player{
		scribe: s, locks: locks, register: r, renewed: s.thread/len(s.cfg.Keys)%2 == 0,
		key: s.cfg.Keys[s.thread%len(s.cfg.Keys)], lease: s.cfg.Leases[s.rng.IntN(len(s.cfg.Leases))],
	}
	if s.cfg.Direct != "" {
		p.direct = redis.NewClient(&redis.Options{Addr: s.cfg.Direct, ContextTimeoutEnabled: true})
	}
	options := redislock.LockOptions{
		Expiration: p.lease, RenewalEnabled: p.renewed,
		ScriptCallTimeout: s.between(100*time.Millisecond, 300*time.Millisecond),
		RenewalConfig:     redislock.RenewalConfig{BaseDelay: 10 * time.Millisecond, MaxDelay: 100 * time.Millisecond, CallTimeout: 150 * time.Millisecond},
	}
	if p.key.Clock {
		options.TokenMode = redislock.TokenClock
	}
	var err error
	p.lock, err = locks.NewLock(context.Background(), p.key.Name, options)
	return p, err
}

func (p *player) play(ctx context.Context) {
	for ctx.Err() == nil {
		if !p.acquire() {
			nap(ctx, p.between(5*time.Millisecond, 40*time.Millisecond))
			continue
		}
		// A late answer is where a wrong deadline shows: such a hold is kept to its end.
		if p.renewed || !p.slow {
			p.use(ctx)
		}
		p.giveUp(ctx)
		nap(ctx, p.between(0, 15*time.Millisecond))
	}
}

// acquire tries to begin a hold, in one of three ways.
func (p *player) acquire() bool {
	op := history.Op{Do: history.Acquire, Key: p.key.Name, Lease: int64(p.lease), Call: history.Now()}
	var err error
	switch n := p.rng.IntN(100); {
	case n < 45:
		op.Via = "Acquire"
		err = p.bounded(time.Second, p.lock.Acquire)
	case n < 85:
		op.Via = "AcquireWait"
		err = p.bounded(p.between(50*time.Millisecond, 400*time.Millisecond), p.lock.AcquireWait)
	default:
		op.Via = "AcquireWithRetry"
		strategy := redislock.RetryStrategy{MaxRetries: 3, RetryDelay: 20 * time.Millisecond}
		err = p.bounded(time.Second, func(ctx context.Context) error { return p.lock.AcquireWithRetry(ctx, strategy) })
	}
	op.Return, op.Error = history.Now(), text(err)
	switch {
	case err == nil:
		p.begin(&op)
	case errors.Is(err, redislock.ErrLockLost): // the last hold's end, and nothing was tried
		op.Result = history.Lost
	case errors.Is(err, redislock.ErrLockAcquireConflict) && !errors.Is(err, redislock.ErrLockAcquireFailed):
		op.Result = history.Refused
	default:
		op.Result = history.Unknown
	}
	p.op(op)
	return err == nil
}

func (p *player) bounded(d time.Duration, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return call(ctx)
}

// begin notes a new hold.
func (p *player) begin(op *history.Op) {
	p.depth, p.slow = 1, op.Via == "Acquire" && op.Return-op.Call > int64(20*time.Millisecond)
	op.Result, op.Hold, op.Value, op.Token = history.OK, p.newHold(), p.lock.GetValue(), p.lock.GetToken()
	op.Depth, op.Until = 1, history.At(p.lock.GetExpiresAt())
	p.belief = history.Belief{
		Key: op.Key, Hold: op.Hold, Token: op.Token, Clock: p.key.Clock, Call: op.Call, From: op.Return,
		Seen: op.Call, Lease: op.Lease,
	}
	done, told := p.lock.Done(), make(chan int64, 1)
	go func() { // ends with the hold
		<-done
		told <- history.Now()
	}()
	p.told = told
}

// trusted is whether the lock says that it is held.
func (p *player) trusted() bool {
	at := history.Now()
	if p.lock.Err() != nil {
		return false
	}
	p.belief.Seen = at
	return true
}

// use does a few things under the lock.
func (p *player) use(ctx context.Context) {
	for n := p.rng.IntN(6); n > 0 && ctx.Err() == nil && p.trusted(); n-- {
		switch k := p.rng.IntN(100); {
		case k < 20 && p.depth < 4:
			p.reenter()
		case k < 40:
			p.renew()
		case k < 65:
			p.register.write(p.scribe, p.key.Name, p.belief.Hold, p.belief.Token)
		case k < 80 && p.direct != nil:
			p.inspect()
		case k < 94:
			nap(ctx, p.between(0, 20*time.Millisecond))
		case p.renewed: // long enough for several renewals
			nap(ctx, p.between(p.lease/2, 2*p.lease))
		default: // near the end of the lease
			nap(ctx, p.between(p.lease/2, p.lease+p.lease/10))
		}
	}
}

func (p *player) reenter() {
	op := history.Op{Do: history.Reenter, Call: history.Now()}
	err := p.bounded(time.Second, p.lock.Acquire)
	if err == nil {
		p.depth++
	}
	p.did(op, err)
}

// renew asks for a longer or a shorter lease.
func (p *player) renew() {
	ttl := p.between(p.lease*2/5, p.lease*9/5)
	p.belief.Lease = max(p.belief.Lease, int64(ttl))
	op := history.Op{Do: history.Renew, Lease: int64(ttl), Call: history.Now()}
	p.did(op, p.bounded(time.Second, func(ctx context.Context) error { return p.lock.Renew(ctx, ttl) }))
}

// did notes a call of a hold.
func (p *player) did(op history.Op, err error) {
	op.Return, op.Key, op.Hold, op.Depth = history.Now(), p.key.Name, p.belief.Hold, p.depth
	switch {
	case err == nil:
		op.Result = history.OK
	case errors.Is(err, redislock.ErrLockLost), errors.Is(err, redislock.ErrLockNotHeld):
		op.Result = history.Lost
	default:
		op.Result = history.Unknown
	}
	op.Error, op.Until = text(err), history.At(p.lock.GetExpiresAt())
	now := p.lock.Err() // a loss is no release
	op.Held = now == nil || errors.Is(now, redislock.ErrLockLost)
	p.op(op)
}

// inspect reads the owner key past the proxy: it is the hold's while the lock says so
// before and after.
func (p *player) inspect() {
	want := p.lock.GetValue()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	op := history.Op{Do: history.Inspect, Key: p.key.Name, Hold: p.belief.Hold, Call: history.Now()}
	value, err := p.direct.Get(ctx, redislock.HashTag(p.key.Name)+":owner").Result()
	op.Return, op.Value, op.Error = history.Now(), value, text(err)
	switch {
	case err != nil && !errors.Is(err, redis.Nil):
		op.Result = history.Unknown
	case value == want && want != "":
		op.Result = history.OK
	default:
		op.Result = history.Lost
	}
	op.Held = p.trusted()
	p.op(op)
}

// giveUp ends the hold: by its releases, or now and then by its deadline.
func (p *player) giveUp(ctx context.Context) {
	if !p.renewed && (p.slow || p.chance(25)) {
		nap(ctx, p.lease+p.lease/2)
	}
	const enough = 20 // a lock that is still held then cannot be released
	for n := 0; p.trusted() && n < enough; n++ {
		p.release()
	}
	p.end()
	for n := 0; n < 2 && p.belief.Why == history.Released && p.chance(50); n++ {
		p.repeat()
	}
}

// release leaves one level. It ends the belief when it is sent, if it is the last.
func (p *player) release() {
	via, call := "", p.lock.Release
	if value := p.lock.GetValue(); value != "" && p.chance(15) {
		via, call = "unlock", func(ctx context.Context) error { return p.locks.UnlockByValue(ctx, p.key.Name, value) }
	}
	p.depth--
	until := history.At(p.lock.GetExpiresAt())
	op := history.Op{Do: history.Release, Via: via, Call: history.Now()}
	err := p.bounded(time.Second, call)
	p.did(op, err)
	if p.lock.Err() != nil {
		p.belief.To = min(op.Call, until)
	}
}

// repeat is the release of a hold that has ended, which only matters after one that
// got no answer.
func (p *player) repeat() {
	op := history.Op{Do: history.Release, Via: "repeat", Call: history.Now()}
	p.did(op, p.bounded(time.Second, p.lock.Release))
}

// end writes down what was believed of the hold.
func (p *player) end() {
	b := &p.belief
	until := history.At(p.lock.GetExpiresAt())
	if b.To == 0 {
		b.To = until
	}
	b.To, b.Why = min(b.To, until), history.Released
	var lost *redislock.LostError
	if errors.As(p.lock.Err(), &lost) {
		// The news of a loss is as old as it says only to within a few instructions,
		// in which the lock may still have read "valid".
		at := max(history.At(lost.At), b.Seen)
		b.To, b.Why = min(b.To, at), history.Expired
		if lost.Reason != redislock.LossReason("expired") && at < until {
			b.Why, b.News = history.Gone, at
		}
	}
	select {
	case b.Told = <-p.told:
	case <-time.After(5 * time.Second): // 0: never
	}
	p.scribe.belief(*b)
}
