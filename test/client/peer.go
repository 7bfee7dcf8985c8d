package client

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/internal/v163"
	"github.com/go-lynx/lynx-redis-lock/test/history"
)

// peer is a holder of the published version, written by hand from what it sends. It
// believes up to the lease's end, counted from the send.
type peer struct {
	*scribe
	client   redis.UniversalClient
	register register
	key      string
	lease    time.Duration

	// The hold that is under way.
	value  string
	depth  int
	until  int64
	belief history.Belief
}

// slack is taken off the belief of a peer: Redis counts in whole milliseconds.
const slack = int64(2 * time.Millisecond)

func newPeer(s *scribe, r register) *peer {
	var keys []string
	for _, key := range s.cfg.Keys {
		if !key.Clock {
			keys = append(keys, key.Name)
		}
	}
	return &peer{
		scribe: s, client: s.cfg.connect(), register: r, key: keys[s.thread%len(keys)],
		lease: s.cfg.Leases[s.rng.IntN(len(s.cfg.Leases))],
	}
}

func (p *peer) run(script *redis.Script, args ...any) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	tag := redislock.HashTag(p.key)
	keys := []string{tag + ":owner", tag + ":count", tag + ":token"}
	return script.Run(ctx, p.client, keys, append([]any{p.value}, args...)...).Int64()
}

func (p *peer) play(ctx context.Context) {
	for ctx.Err() == nil {
		if !p.acquire() {
			nap(ctx, p.between(5*time.Millisecond, 40*time.Millisecond))
			continue
		}
		for n := p.rng.IntN(4); n > 0 && p.depth > 0 && p.trusted(); n-- {
			switch k := p.rng.IntN(100); {
			case k < 20 && p.cfg.Kind == "standalone": // a Cluster's client may send it twice, and it counts
				p.reenter()
			case k < 40:
				p.renew()
			case k < 70:
				p.register.write(p.scribe, p.key, p.belief.Hold, p.belief.Token)
			default:
				nap(ctx, p.between(0, 20*time.Millisecond))
			}
		}
		p.giveUp()
		nap(ctx, p.between(0, 30*time.Millisecond))
	}
}

func (p *peer) trusted() bool {
	now := history.Now()
	if now >= p.until {
		return false
	}
	p.belief.Seen = now
	return true
}

func (p *peer) acquire() bool {
	hold := p.newHold()
	p.value = fmt.Sprintf("peer-%d-%s", os.Getpid(), hold)
	op := history.Op{Do: history.Acquire, Via: "peer", Key: p.key, Lease: int64(p.lease), Call: history.Now()}
	token, err := p.run(v163.Acquire, p.lease.Milliseconds(), (24 * time.Hour).Milliseconds())
	op.Return, op.Error = history.Now(), text(err)
	p.until = op.Call + op.Lease - slack
	switch {
	case err != nil:
		op.Result = history.Unknown
	case token == 0:
		op.Result = history.Refused
	case op.Return >= p.until: // too late to be of use; its key runs out
		op.Result = history.Unknown
	default:
		op.Result, op.Hold, op.Value, op.Token, op.Depth, op.Until = history.OK, hold, p.value, token, 1, p.until
		p.depth = 1
		p.belief = history.Belief{Key: p.key, Hold: hold, Token: token, Call: op.Call, From: op.Return, Seen: op.Call, Lease: op.Lease}
	}
	p.op(op)
	return op.Result == history.OK
}

// did notes a call of a hold; lost: Redis says that another has it, or nobody.
func (p *peer) did(op history.Op, err error, lost bool) string {
	op.Return, op.Key, op.Hold, op.Depth, op.Error = history.Now(), p.key, p.belief.Hold, p.depth, text(err)
	switch {
	case err != nil:
		op.Result = history.Unknown
	case lost:
		op.Result = history.Lost
	default:
		op.Result = history.OK
	}
	op.Held, op.Until = p.depth > 0, p.until
	p.op(op)
	return op.Result
}

func (p *peer) reenter() {
	op := history.Op{Do: history.Reenter, Lease: int64(p.lease), Call: history.Now()}
	token, err := p.run(v163.Acquire, p.lease.Milliseconds(), (24 * time.Hour).Milliseconds())
	if err == nil && token != 0 {
		p.depth++
	}
	p.extended(op, p.did(op, err, token == 0 || token != p.belief.Token))
}

func (p *peer) renew() {
	ttl := p.between(p.lease, 2*p.lease)
	op := history.Op{Do: history.Renew, Lease: int64(ttl), Call: history.Now()}
	reply, err := p.run(v163.Renew, ttl.Milliseconds())
	p.extended(op, p.did(op, err, reply < 0))
}

// extended believes a longer lease only when Redis has answered in time. After a call
// without an answer the depth is not known any more, so the hold is left to run out.
func (p *peer) extended(op history.Op, result string) {
	switch {
	case result == history.OK && history.Now() < p.until:
		p.until = max(p.until, op.Call+op.Lease-slack)
		p.belief.Lease = max(p.belief.Lease, op.Lease)
	case result == history.Lost && history.Now() < p.until:
		p.close(history.Gone, history.Now())
	default:
		p.close(history.Expired, history.Now())
	}
}

// giveUp releases what is held, or what the server still counts of it.
func (p *peer) giveUp() {
	if p.depth > 0 && !p.trusted() {
		p.close(history.Expired, p.until)
	}
	for p.depth > 0 {
		p.depth--
		op := history.Op{Do: history.Release, Call: history.Now()}
		left, err := p.run(v163.Release)
		result := p.did(op, err, left < 0)
		switch {
		case p.depth == 0:
			p.close(history.Released, op.Call)
		case result == history.Lost && history.Now() < p.until:
			p.close(history.Gone, history.Now())
		case result != history.OK:
			p.close(history.Expired, op.Call)
		}
		for n := 0; p.depth == 0 && err == nil && left > 0 && n < 5; n++ { // a request ran twice
			left, err = p.run(v163.Release)
		}
	}
}

// close writes down what was believed.
func (p *peer) close(why string, at int64) {
	p.depth = 0
	p.belief.To, p.belief.Why = min(at, p.until), why
	p.belief.Told, p.belief.News = p.belief.To, history.Now()
	p.scribe.belief(p.belief)
}
