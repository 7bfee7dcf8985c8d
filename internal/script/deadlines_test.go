package script_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
	"github.com/go-lynx/lynx-redis-lock/internal/script"
)

func TestAContextThatEndsSoonEndsNotBeforeItsTimeAndSaysSo(t *testing.T) {
	t.Parallel()
	type key struct{}
	parent := context.WithValue(t.Context(), key{}, "kept")
	for _, left := range []time.Duration{0, time.Millisecond, 35 * time.Millisecond, 120 * time.Millisecond} {
		start := time.Now()
		limit := start.Add(left)
		for _, c := range []context.Context{script.Deadline(parent, limit), script.Deadline(parent, limit)} {
			if at, ok := c.Deadline(); !ok || !at.Equal(limit) || c.Value(key{}) != "kept" {
				t.Fatalf("deadline %s (%t), value %v", at, ok, c.Value(key{}))
			}
			child, cancel := context.WithCancel(c) // it asks for Err when Done is closed
			defer cancel()
			<-child.Done()
			if took := time.Since(start); took < left {
				t.Errorf("%s: ended after %s", left, took)
			}
			if !errors.Is(c.Err(), context.DeadlineExceeded) || !errors.Is(child.Err(), context.DeadlineExceeded) {
				t.Errorf("%s: ended with %v and %v", left, c.Err(), child.Err())
			}
		}
	}
}

func TestAContextMadeLateEndsWhenItShouldHave(t *testing.T) {
	t.Parallel()
	start := time.Now()
	<-script.LateDeadline(t.Context(), start.Add(-time.Minute), start.Add(-30*time.Second)).Done()
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("its deadline had passed, and it ended after %s", took)
	}
}

// ReadTimeout -2 has go-redis set no deadline on its connections.
func TestAClientThatBindsNoDeadlineIsLeftBehindAtIt(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, mod := range []func(*redis.Options){
		func(o *redis.Options) { o.ReadTimeout = -2 },
		func(o *redis.Options) { o.WriteTimeout = -2 },
	} {
		client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true})
		opt := *client.Options()
		_ = client.Close()
		mod(&opt)
		client = redis.NewClient(&opt)
		if err := client.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		server.Pause()
		start := time.Now()
		res := script.NewRunner(client).Run(t.Context(), incr("a", 200*time.Millisecond))
		took := time.Since(start)
		server.Resume()
		if !errors.Is(res.Err, context.DeadlineExceeded) || took > 5*time.Second {
			t.Errorf("%v after %s", res.Err, took)
		}
		_ = client.Close()
	}
}
