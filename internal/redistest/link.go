package redistest

import (
	"bufio"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// link is one client's connection through a proxy. One goroutine carries the
// commands, one the replies; Redis answers in order, so a queue of the commands
// under way says which reply is whose.
type link struct {
	proxy  *Proxy
	client net.Conn
	server net.Conn
	once   sync.Once
	done   chan struct{} // closed by cut

	// mu guards the fields below.
	mu         sync.Mutex
	waiting    []*exchange // sent and not yet answered, oldest first
	subscribed bool
}

func newLink(p *Proxy, client, server net.Conn) *link {
	return &link{proxy: p, client: client, server: server, done: make(chan struct{})}
}

// cut breaks both connections at once. It may be called twice, from anywhere.
func (l *link) cut() {
	l.once.Do(func() {
		close(l.done)
		_ = l.client.Close()
		_ = l.server.Close()
	})
}

// requests carries commands until the client leaves. Then it half-closes the
// server's side only: what was sent must still reach the server, and a full
// close might reset the connection under it.
func (l *link) requests() {
	defer l.proxy.wg.Done()
	defer l.pass(func() { _ = l.server.(*net.TCPConn).CloseWrite() })
	r := bufio.NewReader(l.client)
	for {
		f, err := readCommand(r)
		if err != nil {
			return
		}
		e := l.proxy.admit(f.items)
		if !l.sleep(e.delayRequest) {
			return
		}
		raw := f.raw
		if e.duplicate {
			raw = slices.Concat(raw, raw)
		}
		l.expect(e) // before the write, or the reply could be back first
		l.pass(func() { _, err = l.server.Write(raw) })
		if err != nil {
			return
		}
	}
}

// replies carries replies until the server closes, and then cuts the link. A
// client that has left does not end it: its late commands are still answered,
// into the void.
func (l *link) replies() {
	defer l.proxy.wg.Done()
	defer l.proxy.leave(l)
	defer l.pass(l.cut)
	r := bufio.NewReader(l.server)
	for {
		f, err := readFrame(r)
		if err != nil {
			return
		}
		e := l.answered(f)
		if !l.sleep(e.delayReply) {
			return
		}
		switch {
		case e.swallow:
		case e.dropReply:
			l.pass(func() { _ = l.client.Close() })
		default:
			l.pass(func() { _, _ = l.client.Write(f.raw) })
		}
	}
}

// expect queues the replies that a command will get.
func (l *link) expect(e *exchange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(e.cmd) == 0 {
		return // Redis ignores an empty line
	}
	if isSubscribing(e.cmd[0]) {
		l.subscribed = true
		return
	}
	l.waiting = append(l.waiting, e)
	if e.duplicate {
		l.waiting = append(l.waiting, &exchange{swallow: true})
	}
}

// answered finds the command that a reply belongs to. A push belongs to none,
// and nothing happens to it.
func (l *link) answered(f frame) *exchange {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.kind == '>' || (l.subscribed && isPush2(f)) || len(l.waiting) == 0 {
		return &exchange{}
	}
	e := l.waiting[0]
	l.waiting = l.waiting[1:]
	return e
}

// pass does what the other end can see. In a black hole it waits first.
func (l *link) pass(visible func()) {
	l.proxy.gate.RLock()
	defer l.proxy.gate.RUnlock()
	visible()
}

// sleep says false when the link was cut meanwhile.
func (l *link) sleep(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.done:
		return false
	}
}

var pubsubVerbs = []string{"subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe"}

func isSubscribing(verb string) bool {
	return slices.Contains(pubsubVerbs, strings.ToLower(verb))
}

// isPush2 tells RESP2's pub/sub messages, which are plain arrays, from replies.
// On a connection that has subscribed, RESP2 allows no command whose reply
// could look like one.
func isPush2(f frame) bool {
	if f.kind != '*' || len(f.items) == 0 {
		return false
	}
	return isSubscribing(f.items[0]) || slices.Contains([]string{"message", "pmessage", "smessage"}, f.items[0])
}
