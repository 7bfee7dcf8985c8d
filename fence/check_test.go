package fence_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/go-lynx/lynx-redis-lock/fence"
)

func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// stale wants a refusal that names both tokens.
func stale(t *testing.T, err error, token, applied int64) {
	t.Helper()
	var refused *fence.StaleError
	if !errors.Is(err, fence.ErrStale) || !errors.As(err, &refused) {
		t.Errorf("token %d under %d: error %v, want ErrStale", token, applied, err)
		return
	}
	equal(t, "Token", refused.Token, token)
	equal(t, "Applied", refused.Applied, applied)
	for _, part := range []string{fmt.Sprint("token ", token), fmt.Sprint("token ", applied), refused.Resource} {
		if part == "" || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %q", part, err)
		}
	}
}

// invalid wants an ErrInvalid with this text.
func invalid(t *testing.T, err error, want string) {
	t.Helper()
	if !errors.Is(err, fence.ErrInvalid) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want ErrInvalid with %q", err, want)
	}
}

// get is "" where there is no key.
func get(t *testing.T, client redis.UniversalClient, key string) string {
	t.Helper()
	value, err := client.Get(t.Context(), key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatalf("GET %s: %v", key, err)
	}
	return value
}

// sentinel is a go-redis hook that counts scripts until it is switched off.
type sentinel struct {
	count atomic.Int64
	done  atomic.Bool
}

func (s *sentinel) off()                                        { s.done.Store(true) }
func (s *sentinel) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *sentinel) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if name := cmd.Name(); !s.done.Load() && (name == "evalsha" || name == "eval") {
			s.count.Add(1)
		}
		return next(ctx, cmd)
	}
}

func (s *sentinel) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
