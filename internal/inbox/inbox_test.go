package inbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/go-lynx/lynx-redis-lock/internal/inbox"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

// told is what the handlers were called for.
type told struct {
	messages chan string
	missed   chan struct{}
	ended    chan struct{}
}

func newTold() (*told, inbox.Handlers) {
	c := &told{make(chan string, 100), make(chan struct{}, 100), make(chan struct{}, 1)}
	return c, inbox.Handlers{
		Message: func(payload string) { c.messages <- payload },
		Missed:  func() { c.missed <- struct{}{} },
		Ended:   func() { c.ended <- struct{}{} },
	}
}

func comes[T any](t *testing.T, what string, c <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-c:
	case <-time.After(patience):
		t.Fatalf("not within %s: %s", patience, what)
	}
	return got
}

func wantReady(t *testing.T, b *inbox.Inbox) {
	t.Helper()
	if ready, err := b.Ready(t.Context(), patience); !ready || err != nil {
		t.Fatalf("ready: %t (%v)", ready, err)
	}
}

// closed ends the inbox and waits for its end.
func closed(t *testing.T, b *inbox.Inbox, c *told) {
	t.Helper()
	b.Close()
	comes(t, "the end", c.ended)
}

func TestItHearsWhatIsPublished(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	c, handlers := newTold()
	b := inbox.Open(client, "news", handlers)
	wantReady(t, b)
	if heard := client.Publish(t.Context(), b.Channel(), "one").Val(); heard != 1 {
		t.Fatalf("%d have heard it", heard)
	}
	if got := comes(t, "the message", c.messages); got != "one" {
		t.Fatalf("heard %q", got)
	}
	if len(c.missed) > 0 {
		t.Fatal("something was missed")
	}
	closed(t, b, c)
	for end := time.Now().Add(patience); client.Publish(t.Context(), b.Channel(), "two").Val() > 0; {
		if time.Now().After(end) {
			t.Fatal("somebody still listens")
		}
	}
}

func TestItGoesOnAfterItsConnectionWasKilledAndSaysSo(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	c, handlers := newTold()
	b := inbox.Open(client, "news", handlers)
	wantReady(t, b)
	for range 5 {
		client.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub")
		comes(t, "word that something may be missing", c.missed)
		client.Publish(t.Context(), "news", "again")
		comes(t, "a message", c.messages)
	}
	closed(t, b, c)
}

func TestItWaitsForAServerThatIsAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	server.Stop()
	c, handlers := newTold()
	b := inbox.Open(client, "news", handlers)
	if ready, err := b.Ready(t.Context(), time.Millisecond); ready || err != nil {
		t.Fatalf("ready: %t (%v)", ready, err)
	}
	server.Restart(t)
	wantReady(t, b)
	closed(t, b, c)
}

func TestASilentConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	client := server.Client(t, func(o *redis.Options) { o.Addr = proxy.Addr() })
	c, handlers := newTold()
	const quiet = 800 * time.Millisecond // a busy machine answers in it
	b := inbox.OpenQuiet(client, "news", handlers, quiet)
	wantReady(t, b)
	// A negative: it is asked, and answers.
	select {
	case <-c.missed:
		t.Fatal("a connection that answers was replaced")
	case <-time.After(3 * quiet):
	}
	before := proxy.Count(redistest.Named("subscribe"))
	proxy.BlackHole(true)
	time.Sleep(5 * quiet / 2) // for it to ask and to give up
	proxy.BlackHole(false)
	comes(t, "word that something may be missing", c.missed)
	if proxy.Count(redistest.Named("subscribe")) == before {
		t.Fatal("it has not subscribed again")
	}
	closed(t, b, c)
}

func TestWhatAnACLForbidsIsSaidAndEndsIt(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.ACLUser(t, "deaf", "secret", "+ping")
	client := server.Client(t, func(o *redis.Options) { o.Username, o.Password = "deaf", "secret" })
	c, handlers := newTold()
	b := inbox.Open(client, "news", handlers)
	if ready, err := b.Ready(t.Context(), patience); ready || !redis.HasErrorPrefix(err, "NOPERM") {
		t.Fatalf("ready: %t (%v)", ready, err)
	}
	comes(t, "the end", c.ended)
	b.Close()
}

func TestAClosedClientEndsIt(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	_ = client.Close()
	c, handlers := newTold()
	b := inbox.Open(client, "news", handlers)
	if ready, err := b.Ready(t.Context(), patience); ready || err == nil {
		t.Fatalf("ready: %t (%v)", ready, err)
	}
	comes(t, "the end", c.ended)
}

func TestReadyEndsWithItsContext(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Pause()
	c, handlers := newTold()
	b := inbox.Open(server.Client(t), "news", handlers)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if ready, err := b.Ready(ctx, time.Hour); ready || err != nil {
		t.Fatalf("ready: %t (%v)", ready, err)
	}
	server.Resume()
	closed(t, b, c)
}
