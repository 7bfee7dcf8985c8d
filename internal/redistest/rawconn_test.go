package redistest_test

import (
	"bufio"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// rawConn speaks inline commands, so that a test sees exactly what passes.
type rawConn struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, addr string) *rawConn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	return &rawConn{t, conn, bufio.NewReader(conn)}
}

func (c *rawConn) send(commands ...string) {
	c.t.Helper()
	if _, err := c.Write([]byte(strings.Join(commands, "\r\n") + "\r\n")); err != nil {
		c.t.Fatal(err)
	}
}

// until reads one frame per word and fails unless each contains its word.
func (c *rawConn) until(words ...string) {
	c.t.Helper()
	for _, word := range words {
		raw, _, err := redistest.ReadFrameRaw(c.r)
		if err != nil || !strings.Contains(string(raw), word) {
			c.t.Fatalf("got %q, %v; want a frame with %q", raw, err, word)
		}
	}
}
