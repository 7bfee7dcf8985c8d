package redistest

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy stands between clients and one server on loopback, reads the commands
// and replies that pass, and loses, delays or repeats those it is told to.
//
// Faults apply to commands read after they were ordered. match gets a command
// as it was sent, name first; nil means any command. It is called with the
// proxy's lock held and must not call the proxy.
//
// Limits: the bytes must be plain RESP, so no TLS, and commands that turn
// replies off (CLIENT REPLY) or have endless ones (MONITOR) break the pairing.
// Commands of the SUBSCRIBE family are answered by pushes, which pass as they
// are: a fault that concerns a reply has no effect on them.
type Proxy struct {
	// Fixed by StartProxy.
	tb     testing.TB
	target string
	port   int

	// wg counts the accept loop and two goroutines per connection; close waits.
	wg sync.WaitGroup

	// gate is the black hole: whatever the other end can see is done holding it
	// for reading, and BlackHole(true) keeps it for writing until the network is healed.
	gate sync.RWMutex

	// gateMu guards shut and orders calls of BlackHole.
	gateMu sync.Mutex
	shut   bool

	// refuseMu orders calls of Refuse. It is taken before mu.
	refuseMu sync.Mutex

	// mu guards the rest. No bytes are moved while it is held.
	mu     sync.Mutex
	ln     net.Listener // nil while refusing
	links  map[*link]bool
	faults []*fault
	seen   [][]string
}

// StartProxy opens a proxy in front of target, a host:port. It is closed with
// the test.
func StartProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	// Not port 0: the port must still be there after Refuse(false).
	port, err := ports.take()
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{tb: tb, target: target, port: port, links: map[*link]bool{}}
	tb.Cleanup(p.close)
	p.Refuse(false)
	return p
}

// Addr is the host:port for clients to dial.
func (p *Proxy) Addr() string { return hostPort(p.port) }

// Refuse(true) closes the proxy's port, so that dials are refused, and cuts
// every connection; what was on its way is lost. Refuse(false) opens it again.
func (p *Proxy) Refuse(on bool) {
	p.tb.Helper()
	p.refuseMu.Lock()
	defer p.refuseMu.Unlock()
	p.mu.Lock()
	open := p.ln != nil
	p.mu.Unlock()
	switch {
	case on && open:
		p.refuse()
	case !on && !open:
		p.listen()
	}
}

func (p *Proxy) refuse() {
	p.mu.Lock()
	_ = p.ln.Close()
	p.ln = nil
	for l := range p.links {
		l.cut()
	}
	p.mu.Unlock()
	// A child that is being forked holds a copy of the listening socket until
	// its exec, and would accept in our place for that moment.
	p.until("closing", func() error {
		conn, err := net.Dial("tcp", p.Addr())
		if err == nil {
			_ = conn.Close()
			return errors.New("dials are still accepted")
		}
		return nil
	})
}

func (p *Proxy) listen() {
	p.tb.Helper()
	var ln net.Listener
	// The copy in a child being forked (see refuse) can hold the port as well.
	p.until("opening", func() (err error) {
		ln, err = net.Listen("tcp", p.Addr())
		return err
	})
	if ln == nil {
		return
	}
	p.mu.Lock()
	p.ln = ln
	p.mu.Unlock()
	p.wg.Add(1)
	go p.accept(ln) // ends when refuse closes ln; close waits for it
}

func (p *Proxy) until(verb string, try func() error) {
	p.tb.Helper()
	deadline := time.Now().Add(startTimeout)
	for err := try(); err != nil; err = try() {
		if time.Now().After(deadline) {
			p.tb.Errorf("redistest: %s the proxy: %v", verb, err)
			return
		}
		time.Sleep(pollInterval)
	}
}

// BlackHole(true) lets nothing pass in either direction, while connections stay
// open and new ones are still accepted: the silence of a partition. When it
// returns, no byte is forwarded any more. BlackHole(false) heals the network
// and delivers everything that queued up, including the commands of clients
// that have given up: late packets. Replies to clients that left are dropped.
//
// One command per connection is read ahead, and so counted, during the silence.
func (p *Proxy) BlackHole(on bool) {
	p.gateMu.Lock()
	defer p.gateMu.Unlock()
	switch {
	case on && !p.shut:
		p.gate.Lock()
	case !on && p.shut:
		p.gate.Unlock()
	}
	p.shut = on
}

func (p *Proxy) accept(ln net.Listener) {
	defer p.wg.Done()
	for {
		client, err := ln.Accept()
		if err != nil {
			return
		}
		// A server that refuses shows as a connection closed at once. The dial
		// cannot hang: it stays on loopback.
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.join(ln, newLink(p, client, server))
	}
}

// join starts a connection, unless ln was closed while it was being accepted.
func (p *Proxy) join(ln net.Listener, l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ln != ln {
		l.cut()
		return
	}
	p.links[l] = true
	p.wg.Add(2)
	go l.requests() // both end when the link is cut; close waits for them
	go l.replies()
}

// Connections says how many connections the proxy carries, those included that
// their client has given up while the network was silent. Each has two goroutines.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

func (p *Proxy) leave(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// close ends every goroutine of the proxy. The cut comes before the heal, so
// that a test's leftovers do not reach the server after it.
func (p *Proxy) close() {
	p.Refuse(true)
	p.BlackHole(false)
	p.wg.Wait()
	ports.free(p.port)
}
