package redistest_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// through returns a proxy, a client that goes through it and tries once, and a
// client that goes straight to the server.
func through(t *testing.T, mod ...func(*redis.Options)) (p *redistest.Proxy, via, direct *redis.Client) {
	t.Helper()
	s := redistest.Start(t)
	p = redistest.StartProxy(t, s.Addr())
	mod = append(mod, oneTry, func(o *redis.Options) { o.Addr = p.Addr() })
	return p, s.Client(t, mod...), s.Client(t)
}

func eachProtocol(t *testing.T, test func(t *testing.T, protocol func(*redis.Options))) {
	for _, version := range []int{2, 3} {
		t.Run(fmt.Sprint("RESP", version), func(t *testing.T) {
			t.Parallel()
			test(t, func(o *redis.Options) { o.Protocol = version })
		})
	}
}

func TestAProxyWithoutFaultsIsInvisible(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, protocol func(*redis.Options)) {
		p, c, _ := through(t, protocol)
		ctx, big := t.Context(), strings.Repeat("\r\n$x", 200_000)
		if err := c.Set(ctx, "big", big, 0).Err(); err != nil {
			t.Fatal(err)
		}
		if got := c.Get(ctx, "big").Val(); got != big {
			t.Errorf("a value of %d bytes came back as %d", len(big), len(got))
		}
		if err := c.Get(ctx, "none").Err(); !errors.Is(err, redis.Nil) {
			t.Errorf("a missing key: %v", err)
		}
		got, err := c.Eval(ctx, `return {1, {'a', false}, redis.status_reply('OK')}`, nil).Result()
		if want := "[1 [a <nil>] OK]"; err != nil || fmt.Sprint(got) != want {
			t.Errorf("EVAL: %v, %v; want %s", got, err, want)
		}
		if m, err := c.ConfigGet(ctx, "port").Result(); err != nil || len(m) != 1 {
			t.Errorf("CONFIG GET: %v, %v", m, err)
		}
		if n := p.Count(redistest.Named("GET")); n != 2 {
			t.Errorf("counted %d GETs, want 2", n)
		}
		if all := p.Count(nil); all < 5 {
			t.Errorf("counted %d commands, want at least 5", all)
		}
	})
}

func TestDropRepliesLosesTheReplyOfACommandThatRan(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, protocol func(*redis.Options)) {
		p, via, direct := through(t, protocol)
		ctx := t.Context()
		p.DropReplies(2, redistest.Named("incr"))
		for i := range 2 {
			err := via.Incr(ctx, "n").Err()
			if netErr := net.Error(nil); err == nil || errors.As(err, &netErr) && netErr.Timeout() {
				t.Errorf("got %v; want a closed connection", err)
			}
			if n, _ := direct.Get(ctx, "n").Int(); n != i+1 {
				t.Errorf("n = %d when the client lost its connection, want %d", n, i+1)
			}
			if err := via.Ping(ctx).Err(); err != nil {
				t.Errorf("a command that does not match: %v", err)
			}
		}
		if n, err := via.Incr(ctx, "n").Result(); err != nil || n != 3 {
			t.Errorf("after the two faults: %d, %v; want 3", n, err)
		}
	})
}

func TestDelayRequestsDeliversLateEvenForAClientThatLeft(t *testing.T) {
	t.Parallel()
	p, via, direct := through(t)
	ctx, delay := t.Context(), 400*time.Millisecond
	p.DelayRequests(delay, 1, redistest.Named("incr"))
	start := time.Now()
	if err := via.Incr(within(t, 50*time.Millisecond), "n").Err(); err == nil {
		t.Fatal("answered within 50 ms")
	}
	if n := direct.Exists(ctx, "n").Val(); n != 0 && time.Since(start) < delay {
		t.Error("the command reached the server at once")
	}
	_ = via.Close()
	eventually(t, "the late command runs", func() bool { return direct.Get(ctx, "n").Val() == "1" })
	if late := time.Since(start); late < delay {
		t.Errorf("it ran after %v, want %v", late, delay)
	}
}

func TestDelayRepliesComesAfterTheCommandRan(t *testing.T) {
	t.Parallel()
	p, via, direct := through(t)
	ctx, delay := t.Context(), 400*time.Millisecond
	p.DelayReplies(delay, 1, redistest.Named("incr"))
	start, answered := time.Now(), make(chan time.Duration)
	go func() {
		via.Incr(ctx, "n")
		answered <- time.Since(start)
	}()
	eventually(t, "the command runs", func() bool { return direct.Get(ctx, "n").Val() == "1" })
	ran := time.Since(start)
	if took := <-answered; took < delay || ran >= took {
		t.Errorf("ran after %v, answered after %v; want the answer after %v", ran, took, delay)
	}
}

func TestDuplicateRequestsRunTwiceAndAreAnsweredOnce(t *testing.T) {
	t.Parallel()
	eachProtocol(t, func(t *testing.T, protocol func(*redis.Options)) {
		p, via, direct := through(t, protocol)
		ctx := t.Context()
		p.DuplicateRequests(1, redistest.Named("incr"))
		if n, err := via.Incr(ctx, "n").Result(); err != nil || n != 1 {
			t.Errorf("INCR = %d, %v; want the first reply, 1", n, err)
		}
		if got := via.Echo(ctx, "mine").Val(); got != "mine" {
			t.Errorf("the next command got %q", got)
		}
		if n, _ := direct.Get(ctx, "n").Int(); n != 2 {
			t.Errorf("n = %d, want 2", n)
		}
	})
}

func TestFaultsCombineOnOneCommandAndNilMatchesAny(t *testing.T) {
	t.Parallel()
	p, via, direct := through(t)
	ctx := t.Context()
	via.Ping(ctx) // the connection's own commands are over
	p.DuplicateRequests(1, nil)
	p.DropReplies(1, nil)
	if err := via.Incr(ctx, "n").Err(); err == nil {
		t.Error("the reply arrived")
	}
	eventually(t, "the command runs twice", func() bool { return direct.Get(ctx, "n").Val() == "2" })
}

func TestABlackHoleIsSilentAndDeliversLateWhenHealed(t *testing.T) {
	t.Parallel()
	p, via, direct := through(t)
	ctx := t.Context()
	sub := via.Subscribe(ctx, "c")
	defer func() { _ = sub.Close() }()
	if _, err := sub.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	fresh := redis.NewClient(&redis.Options{Addr: p.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	defer func() { _ = fresh.Close() }()
	via.Ping(ctx)

	p.BlackHole(true)
	p.BlackHole(true)
	if err := via.Incr(within(t, 100*time.Millisecond), "n").Err(); err == nil {
		t.Error("an open connection was answered")
	}
	if err := fresh.Ping(within(t, 100*time.Millisecond)).Err(); err == nil {
		t.Error("a new connection was answered")
	}
	direct.Publish(ctx, "c", "news")
	if msg, err := sub.ReceiveTimeout(ctx, 100*time.Millisecond); err == nil {
		t.Errorf("a message came through: %v", msg)
	}
	if n := direct.Exists(ctx, "n").Val(); n != 0 {
		t.Error("a command came through")
	}

	p.BlackHole(false)
	p.BlackHole(false)
	eventually(t, "the command of the client that gave up arrives", func() bool {
		return direct.Get(ctx, "n").Val() == "1"
	})
	if msg, err := sub.ReceiveMessage(within(t, 5*time.Second)); err != nil || msg.Payload != "news" {
		t.Errorf("the message that queued up: %v, %v", msg, err)
	}
	if err := via.Ping(ctx).Err(); err != nil {
		t.Error(err)
	}
}

func TestRefuseCutsConnectionsAndRefusesDialsUntilItIsLifted(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.StartProxy(t, s.Addr())
	conn := dial(t, p.Addr())
	conn.send("PING one")
	conn.until("one")
	for range 3 {
		p.Refuse(true)
		p.Refuse(true)
		if !refuses(p.Addr()) {
			t.Fatal("a dial was accepted")
		}
		if line, err := conn.r.ReadString('\n'); err == nil {
			t.Fatalf("the connection still delivers %q", line)
		}
		p.Refuse(false)
		p.Refuse(false)
		conn = dial(t, p.Addr())
		conn.send("PING again")
		conn.until("again")
	}
}

func TestADeadServerShowsAsAClosedConnection(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.StartProxy(t, s.Addr())
	conn := dial(t, p.Addr())
	conn.send("PING one")
	conn.until("one")
	s.Stop()
	if _, err := conn.r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("reading after the server's death: %v", err)
	}
	if _, err := dial(t, p.Addr()).r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("reading from a new connection: %v", err)
	}
}

func TestAProxyEndsWithItsTestWhateverItIsHolding(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var addr string
	start := time.Now()
	t.Run("inner", func(t *testing.T) {
		p := redistest.StartProxy(t, s.Addr())
		addr = p.Addr()
		p.DelayRequests(time.Hour, 1, redistest.Named("ping"))
		p.DelayReplies(time.Hour, 1, redistest.Named("echo"))
		dial(t, addr).send("PING one")
		dial(t, addr).send("ECHO one")
		eventually(t, "both are held", func() bool { return p.Count(nil) == 2 })
		p.BlackHole(true)
		dial(t, addr).send("SET leftover 1")
		eventually(t, "it is held", func() bool { return p.Count(nil) == 3 })
	})
	if !refuses(addr) || time.Since(start) > time.Minute {
		t.Error("the proxy outlived its test")
	}
	if s.Client(t).Exists(t.Context(), "leftover").Val() != 0 {
		t.Error("a held command reached the server after the test")
	}
}
