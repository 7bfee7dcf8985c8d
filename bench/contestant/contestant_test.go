package contestant_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-lynx/lynx-redis-lock/bench/contestant"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

func all() map[string]contestant.Contestant {
	byName := map[string]contestant.Contestant{}
	for _, c := range append(contestant.Free(), contestant.Contended()...) {
		byName[c.Name] = c
	}
	return byName
}

func TestEveryLockKeepsAnotherProcessOutAndLetsItInAgain(t *testing.T) {
	addr := redistest.Start(t).Addr()
	for name, c := range all() {
		if c.NoLock || c.Once {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := fmt.Sprintf("key-%s", t.Name()[len(t.Name())-8:])
			first, second := open(t, c, addr, key), open(t, c, addr, key)
			if err := lock(first); err != nil {
				t.Fatal(err)
			}
			got := make(chan error, 1)
			go func() { got <- lock(second) }()
			select {
			case err := <-got:
				t.Fatalf("the second got a held lock: %v", err)
			case <-time.After(300 * time.Millisecond): // a negative can only wait
			}
			if err := first.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-got; err != nil {
				t.Fatal(err)
			}
			if err := second.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestNamesAreFoundAgain(t *testing.T) {
	for name := range all() {
		if c := contestant.ByName(name); c == nil || c.Name != name {
			t.Errorf("%q is not found by its name", name)
		}
	}
	if contestant.ByName("nobody") != nil {
		t.Error("nobody was found")
	}
}

// lock calls a wait off after a time and begins anew: one of the contestants can sleep
// through a release.
func lock(l contestant.Locker) (err error) {
	for range 10 {
		ctx, cancel := context.WithCancel(context.Background())
		giveUp := time.AfterFunc(3*time.Second, cancel)
		if err = l.Lock(ctx); err == nil {
			giveUp.Stop() // and the context stays: its end would free the lock
			return nil
		}
	}
	return err
}

func open(t *testing.T, c contestant.Contestant, addr, key string) contestant.Locker {
	t.Helper()
	s, err := c.Open(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	l, err := s.Locker(key)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
