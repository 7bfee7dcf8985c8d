package nemesis

import (
	"syscall"
	"time"

	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
	"github.com/go-lynx/lynx-redis-lock/test/check"
	"github.com/go-lynx/lynx-redis-lock/test/history"
)

// Moves against one client and its network. Their names are what the history and the
// report call them.
const (
	CutMove       = "connections cut"
	RefuseMove    = "connections refused"
	BlackHoleMove = "black hole"
	LateRequests  = "requests delayed"
	LateReplies   = "replies delayed"
	Doubled       = "requests doubled"
	LostReplies   = "replies lost"
	FlushScripts  = "SCRIPT FLUSH"
)

var clientMoves = []move{
	{check.Stop, 6, (*Nemesis).stopClient},
	{CutMove, 2, (*Nemesis).cut},
	{RefuseMove, 2, (*Nemesis).refuse},
	{BlackHoleMove, 3, (*Nemesis).blackHole},
	{LateRequests, 5, func(n *Nemesis) {
		n.network(LateRequests, func(p *redistest.Proxy, count int) { p.DelayRequests(n.delay(), count, scripts) })
	}},
	{LateReplies, 5, func(n *Nemesis) {
		n.network(LateReplies, func(p *redistest.Proxy, count int) { p.DelayReplies(n.delay(), count, scripts) })
	}},
	{Doubled, 3, func(n *Nemesis) {
		n.network(Doubled, func(p *redistest.Proxy, count int) { p.DuplicateRequests(count, scripts) })
	}},
	{LostReplies, 4, func(n *Nemesis) {
		n.network(LostReplies, func(p *redistest.Proxy, count int) { p.DropReplies(count, scripts) })
	}},
	{FlushScripts, 2, func(n *Nemesis) {
		n.event(FlushScripts, "", history.Keeps, func() { n.each("SCRIPT", "FLUSH") })
	}},
}

// scripts are the lock's own requests.
var scripts = redistest.Named("evalsha", "eval")

// delay is shorter or longer than a call's time, and up to longer than a lease.
func (n *Nemesis) delay() time.Duration {
	if n.rng.IntN(4) > 0 {
		return n.between(5*time.Millisecond, 150*time.Millisecond)
	}
	return n.between(100*time.Millisecond, n.lease*3/2)
}

// victim is a client to which nothing lasting is done yet; nil: by chance none.
func (n *Nemesis) victim() *Victim {
	v := n.victims[n.rng.IntN(len(n.victims))]
	if n.busy(v.Name) {
		return nil
	}
	return v
}

// stopClient is for less than a lease or for more.
func (n *Nemesis) stopClient() {
	v := n.victim()
	if v == nil {
		return
	}
	n.lasting(check.Stop, v.Name, n.between(20*time.Millisecond, n.lease*2), func() {
		_ = v.Process.Signal(syscall.SIGSTOP)
	}, func() {
		_ = v.Process.Signal(syscall.SIGCONT)
	})
}

func (n *Nemesis) cut() {
	v := n.victims[n.rng.IntN(len(n.victims))]
	if n.busy(v.Name) {
		return
	}
	n.event(CutMove, v.Name, history.Keeps, func() {
		v.all(func(p *redistest.Proxy) { p.Refuse(true) })
		v.all(func(p *redistest.Proxy) { p.Refuse(false) })
	})
}

func (n *Nemesis) refuse() {
	v := n.victim()
	if v == nil {
		return
	}
	n.lasting(RefuseMove, v.Name, n.between(20*time.Millisecond, n.lease*3/2),
		func() { v.all(func(p *redistest.Proxy) { p.Refuse(true) }) },
		func() { v.all(func(p *redistest.Proxy) { p.Refuse(false) }) })
}

func (n *Nemesis) blackHole() {
	v := n.victim()
	if v == nil {
		return
	}
	n.lasting(BlackHoleMove, v.Name, n.between(20*time.Millisecond, n.lease*3/2),
		func() { v.all(func(p *redistest.Proxy) { p.BlackHole(true) }) },
		func() { v.all(func(p *redistest.Proxy) { p.BlackHole(false) }) })
}

// network disturbs the next few requests of one client.
func (n *Nemesis) network(kind string, order func(p *redistest.Proxy, count int)) {
	v := n.victims[n.rng.IntN(len(n.victims))]
	if v.Peer && kind == Doubled {
		return
	}
	count := 1 + n.rng.IntN(24)
	n.event(kind, v.Name, history.Keeps, func() {
		v.all(func(p *redistest.Proxy) { order(p, count) })
	})
}

func (v *Victim) all(do func(*redistest.Proxy)) {
	for _, p := range v.Proxies {
		do(p)
	}
}
