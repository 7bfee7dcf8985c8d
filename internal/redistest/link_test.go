package redistest_test

import (
	"fmt"
	"math"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

func TestPubSubPassesTheProxyAndKeepsItsPairing(t *testing.T) {
	t.Parallel()
	for _, hello := range []string{"HELLO 2", "HELLO 3"} {
		t.Run(hello, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			p := redistest.StartProxy(t, s.Addr())
			conn := dial(t, p.Addr())
			conn.send(hello, "SUBSCRIBE a b")
			conn.until("proto", "subscribe", "subscribe")
			s.Client(t).Publish(t.Context(), "a", "news")
			conn.until("message")

			// A push that comes while a command is under way is not its reply,
			// and an empty line has none.
			p.DuplicateRequests(1, redistest.Named("ping"))
			s.Pause()
			conn.send("SUBSCRIBE c", "", "PING one")
			eventually(t, "PING is under way", func() bool { return p.Count(redistest.Named("ping")) == 1 })
			s.Resume()
			conn.until("subscribe", "one")
			s.Client(t).Publish(t.Context(), "c", "more")
			conn.until("message")
			conn.send("PING two")
			conn.until("two")

			// Nor does a fault that waits for the reply hit the push.
			p.DropReplies(1, redistest.Named("ping"))
			s.Pause()
			conn.send("SUBSCRIBE d", "PING three")
			eventually(t, "PING is under way", func() bool { return p.Count(redistest.Named("ping")) == 3 })
			s.Resume()
			conn.until("subscribe")
			if line, err := conn.r.ReadString('\n'); err == nil {
				t.Errorf("the reply arrived: %q", line)
			}
		})
	}
}

func TestAClientThatLeavesStillGetsItsReplyAndIsGoneAtTheServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p, direct := redistest.StartProxy(t, s.Addr()), s.Client(t)
	p.DelayReplies(100*time.Millisecond, 1, redistest.Named("echo"))
	conn := dial(t, p.Addr())
	conn.send("ECHO one")
	if err := conn.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	conn.until("one")
	eventually(t, "only the direct client is left", func() bool {
		return strings.Count(direct.ClientList(t.Context()).Val(), "\n") == 1
	})
}

// Two replies, because only the second write to a closed connection fails.
func TestALateCommandIsDeliveredThoughEarlierRepliesFindNobody(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p, direct := redistest.StartProxy(t, s.Addr()), s.Client(t)
	p.DelayReplies(50*time.Millisecond, 2, redistest.Named("echo"))
	p.DelayRequests(300*time.Millisecond, 1, redistest.Named("incr"))
	conn := dial(t, p.Addr())
	conn.send("ECHO one", "ECHO two", "INCR n")
	_ = conn.Close()
	eventually(t, "the late command runs", func() bool { return direct.Get(t.Context(), "n").Val() == "1" })
}

// Whatever the network does, a reply that arrives is the reply to its command,
// and a command that was answered has run.
func TestNoReplyIsMispairedUnderConcurrentFaults(t *testing.T) {
	t.Parallel()
	p, via, direct := through(t)
	p.DropReplies(20, redistest.Named("incr"))
	p.DuplicateRequests(math.MaxInt, redistest.Named("echo"))
	p.DelayReplies(time.Millisecond, 100, nil)
	const enough = 100
	var workers sync.WaitGroup
	for w := range 8 {
		key := fmt.Sprint("w", w)
		workers.Go(func() {
			for answered := 0; answered < enough && t.Context().Err() == nil; {
				got, err := via.Echo(t.Context(), key).Result()
				if err == nil && got != key {
					t.Errorf("ECHO %s = %s", key, got)
				}
				if via.Incr(t.Context(), key).Err() == nil {
					answered++
				} else {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	for range 20 {
		p.BlackHole(true)
		p.Count(nil)
		p.BlackHole(false)
		p.Refuse(true)
		p.Refuse(false)
	}
	workers.Wait()
	for w := range 8 {
		if n, err := direct.Get(t.Context(), fmt.Sprint("w", w)).Int(); err != nil || n < enough {
			t.Errorf("w%d = %d, %v; want at least the %d that were answered", w, n, err, enough)
		}
	}
}
