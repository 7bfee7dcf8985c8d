package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

const stoppedLease = 500 * time.Millisecond

// holderRole holds the lock under renewal and asks for its validity in every way,
// as fast as it can. A pause of its process shows as a gap between two turns: what
// it reads first after one that was longer than the lease must not be "valid".
func holderRole(addr string) {
	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	options := faultOptions(stoppedLease)
	lock, err := redislock.NewProvider(client).NewLock(context.Background(), "job", options)
	if err == nil {
		err = lock.Acquire(context.Background())
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := lock.Context(context.Background())
	defer cancel()
	go func() { // until the parent has gone
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	reads := []struct {
		name  string
		valid func() bool
	}{
		{"Err", func() bool { return lock.Err() == nil }},
		{"IsExpired", func() bool { return !lock.IsExpired() }},
		{"the lease context", func() bool { return ctx.Err() == nil }},
		{"GetRemainingTime", func() bool { return lock.GetRemainingTime() > 0 }},
		{"GetValue", func() bool { return lock.GetValue() != "" }},
	}
	// Each turn begins with another read, so that over several pauses each is the first.
	for before, turn := time.Now(), 0; ; turn++ {
		read := reads[turn%len(reads)]
		now := time.Now()
		valid := read.valid()
		// Of a pause within the read nobody can say whether it came before the look at the clock.
		if gap := now.Sub(before); gap > stoppedLease {
			fmt.Printf("woke after %d ms: %s is valid: %v, lost: %v\n", gap.Milliseconds(), read.name, valid,
				errors.Is(lock.Err(), redislock.ErrLockLost) && errors.Is(context.Cause(ctx), redislock.ErrLockLost))
			return
		}
		before = now
		if turn == len(reads) { // from here on no pause is missed
			fmt.Println("held")
		}
	}
}

// stoppedProcess: SIGSTOP for longer than the lease. Meanwhile another takes the lock.
func stoppedProcess(t *testing.T, r *faultRig) {
	for range 6 {
		holder := startRole(t, "holder", r.server.Addr())
		if line := holder.says(t, "acquiring"); line != "held" {
			t.Fatal(line)
		}
		holder.signal(t, syscall.SIGSTOP)
		stopped := time.Now()
		r.key = "job"
		other := r.lock(t, r.another, faultOptions(10*time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		succeeds(t, "another's AcquireWait", other.AcquireWait(ctx))
		cancel()
		time.Sleep(stoppedLease + 100*time.Millisecond - time.Since(stopped)) // longer than the lease, whenever it was renewed
		holder.signal(t, syscall.SIGCONT)
		line := holder.says(t, "waking")
		var gap int
		var read string
		if _, err := fmt.Sscanf(line, "woke after %d ms: %s", &gap, &read); err != nil {
			t.Fatalf("the process said %q", line)
		}
		if want := "is valid: false, lost: true"; len(line) < len(want) || line[len(line)-len(want):] != want {
			t.Errorf("the process said %q", line)
		}
		succeeds(t, "another's Err", other.Err())
		succeeds(t, "another's Release", other.Release(t.Context()))
	}
}
