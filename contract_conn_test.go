package redislock_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// conn is a connection of a client whose wire can hold script calls back and lose
// or delay their replies. Everything else passes as it is. A client under test uses
// a connection for one call at a time.
type conn struct {
	net.Conn
	wire *wire

	// Guarded by wire.mu.
	held   []byte // a request that the server has not got yet
	closed bool   // by the client, while a request is held
	called bool   // a script call was sent, its reply has not come
}

// client is a client with the wire in it.
func (w *wire) client(t *testing.T, b *bed, mods ...func(*redis.UniversalOptions)) redis.UniversalClient {
	t.Helper()
	client := b.NewClient(t, append(mods, w.wired)...)
	client.AddHook(w)
	return client
}

// wired makes the connections of a client conns.
func (w *wire) wired(o *redis.UniversalOptions) {
	dial := o.Dialer
	if dial == nil {
		dial = redis.NewDialer(&redis.Options{TLSConfig: o.TLSConfig, DialTimeout: 5 * time.Second})
	}
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		raw, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &conn{Conn: raw, wire: w}, nil
	}
}

func (c *conn) Write(b []byte) (int, error) {
	if !bytes.Contains(b, []byte("\r\nevalsha\r\n")) && !bytes.Contains(b, []byte("\r\neval\r\n")) {
		return c.Conn.Write(b)
	}
	c.wire.mu.Lock()
	c.called = true
	if c.wire.stalled {
		c.held = append(c.held, b...)
		if !slices.Contains(c.wire.held, c) {
			c.wire.held = append(c.wire.held, c)
		}
		c.wire.mu.Unlock()
		return len(b), nil
	}
	c.wire.mu.Unlock()
	return c.Conn.Write(b)
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.wire.mu.Lock()
	reply := n > 0 && c.called
	c.called = c.called && !reply
	lost := reply && c.wire.lose > 0 && !bytes.HasPrefix(b[:n], []byte("-NOSCRIPT"))
	if lost {
		c.wire.lose--
	}
	var delay time.Duration
	if reply {
		delay = c.wire.delay
	}
	c.wire.mu.Unlock()
	if lost {
		_ = c.Conn.Close()
		return 0, io.EOF
	}
	time.Sleep(delay) // the fault itself, nothing is waited for
	return n, err
}

// Close lets a request that is held arrive first, when the stall ends.
func (c *conn) Close() error {
	c.wire.mu.Lock()
	defer c.wire.mu.Unlock()
	if len(c.held) > 0 {
		c.closed = true
		return c.SetReadDeadline(time.Now()) // lets go of who reads
	}
	return c.Conn.Close()
}

// stall holds the script calls back, as a silent server does, until resume is
// called, at the latest at the end of the test. Then they arrive, late, also those
// whose callers have given up.
func (w *wire) stall(t *testing.T) (resume func()) {
	t.Helper()
	w.mu.Lock()
	w.stalled = true
	w.mu.Unlock()
	resume = sync.OnceFunc(func() {
		w.mu.Lock()
		held := w.held
		w.stalled, w.held = false, nil
		w.mu.Unlock()
		for _, c := range held {
			c.arrive()
		}
	})
	t.Cleanup(resume)
	return resume
}

// arrive sends what was held back. Where nobody waits for the reply any more it is
// read here, so that the call has run when arrive returns.
func (c *conn) arrive() {
	c.wire.mu.Lock()
	defer c.wire.mu.Unlock()
	_ = c.SetWriteDeadline(time.Now().Add(patience))
	_, _ = c.Conn.Write(c.held)
	c.held = nil
	if c.closed {
		_ = c.SetReadDeadline(time.Now().Add(patience))
		_, _ = c.Conn.Read(make([]byte, 1024))
		_ = c.Conn.Close()
	}
}
