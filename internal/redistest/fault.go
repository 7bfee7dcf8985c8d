package redistest

import (
	"slices"
	"strings"
	"time"
)

// exchange is a command on its way through a proxy, and what is to happen to it
// and to its reply.
type exchange struct {
	cmd          []string
	delayRequest time.Duration
	duplicate    bool
	delayReply   time.Duration
	dropReply    bool // and close the client's connection in its place
	swallow      bool // the second reply to a duplicate
}

// fault is one order given to a proxy, for the next left matching commands.
type fault struct {
	left  int
	match func(cmd []string) bool
	apply func(*exchange)
}

// Named matches commands by name, in any case: Named("evalsha", "eval").
func Named(names ...string) func(cmd []string) bool {
	return func(cmd []string) bool {
		return len(cmd) > 0 && slices.ContainsFunc(names, func(name string) bool {
			return strings.EqualFold(name, cmd[0])
		})
	}
}

func matches(match func(cmd []string) bool, cmd []string) bool {
	return match == nil || match(cmd)
}

// DropReplies has the next n matching commands carried out, their replies
// swallowed and the client's connection closed in its place: an unknown outcome
// that did happen. The close comes after the server's reply, so the command has
// run by the time the client notices.
func (p *Proxy) DropReplies(n int, match func(cmd []string) bool) {
	p.addFault(n, match, func(e *exchange) { e.dropReply = true })
}

// DelayRequests holds the next n matching commands back for d before the server
// gets them. A client that gives up and closes in the meantime changes nothing:
// its command arrives all the same, late. What the same connection sends after
// it waits behind it, as TCP keeps the order.
func (p *Proxy) DelayRequests(d time.Duration, n int, match func(cmd []string) bool) {
	p.addFault(n, match, func(e *exchange) { e.delayRequest += d })
}

// DelayReplies carries the next n matching commands out at once and holds their
// replies, and the later ones on the same connection, back for d.
func (p *Proxy) DelayReplies(d time.Duration, n int, match func(cmd []string) bool) {
	p.addFault(n, match, func(e *exchange) { e.delayReply += d })
}

// DuplicateRequests sends each of the next n matching commands to the server
// twice in a row. The client gets the first reply, the second is swallowed.
func (p *Proxy) DuplicateRequests(n int, match func(cmd []string) bool) {
	p.addFault(n, match, func(e *exchange) { e.duplicate = true })
}

func (p *Proxy) addFault(n int, match func(cmd []string) bool, apply func(*exchange)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, &fault{left: n, match: match, apply: apply})
}

// Count says how many matching commands the proxy has read from its clients,
// forwarded or not. A nil match counts all, which includes what go-redis says
// by itself on a new connection (HELLO, CLIENT SETINFO).
func (p *Proxy) Count(match func(cmd []string) bool) int {
	p.mu.Lock()
	seen := p.seen // append-only, so the elements need no lock
	p.mu.Unlock()
	n := 0
	for _, cmd := range seen {
		if matches(match, cmd) {
			n++
		}
	}
	return n
}

// admit counts a command and decides, once, what will happen to it. Several
// faults may apply to one command; each of them is used up by one.
func (p *Proxy) admit(cmd []string) *exchange {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, cmd)
	e := &exchange{cmd: cmd}
	for _, flt := range p.faults {
		if flt.left > 0 && matches(flt.match, cmd) {
			flt.left--
			flt.apply(e)
		}
	}
	return e
}
