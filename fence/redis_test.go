package fence_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/go-lynx/lynx-redis-lock/fence"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// resource is one key on one backend, and its fence.
type resource struct {
	client redis.UniversalClient
	fenced *fence.Redis
	key    string
}

// backends are what every behaviour is shown on. Keys of the Cluster are spread over
// its slots by their names.
var backends = map[string]func(testing.TB) redis.UniversalClient{
	"miniredis": func(tb testing.TB) redis.UniversalClient {
		server := miniredis.RunT(tb)
		client := redis.NewClient(&redis.Options{Addr: server.Addr()})
		tb.Cleanup(func() { _ = client.Close() })
		return client
	},
	"standalone": func(tb testing.TB) redis.UniversalClient { return redistest.Start(tb).Client(tb) },
	"cluster":    func(tb testing.TB) redis.UniversalClient { return redistest.StartCluster(tb).Client(tb) },
}

func newFence(t *testing.T, client redis.UniversalClient) *fence.Redis {
	t.Helper()
	fenced, err := fence.NewRedis(client)
	must(t, "NewRedis", err)
	return fenced
}

func TestRedis(t *testing.T) {
	t.Parallel()
	for name, start := range backends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := start(t)
			fenced := newFence(t, client)
			for _, b := range slices.Concat(writes, scripts, refusals) {
				t.Run(b.name, func(t *testing.T) {
					for _, key := range []string{"plain:" + b.name, "{tagged}:" + b.name} {
						b.show(t, resource{client, fenced, key})
					}
				})
			}
			t.Run("random_operations_follow_the_model", func(t *testing.T) { followsTheModel(t, client) })
			t.Run("many_writers_never_go_back", func(t *testing.T) { neverGoesBack(t, client) })
		})
	}
}

type behaviour struct {
	name string
	show func(*testing.T, resource)
}

var writes = []behaviour{
	{"a_newer_token_and_the_same_one_write_an_older_one_does_not", func(t *testing.T, r resource) {
		must(t, "the first write", r.set(t, 5, "five"))
		must(t, "the same token", r.set(t, 5, "five again"))
		equal(t, "the value", r.value(t), "five again")
		must(t, "a newer token", r.set(t, 7, "seven"))
		stale(t, r.set(t, 6, "six"), 6, 7)
		stale(t, r.set(t, 5, "five"), 5, 7)
		equal(t, "the value", r.value(t), "seven")
		equal(t, "the applied token", r.applied(t), "7")
	}},
	{"tokens_are_compared_as_numbers_up_to_the_largest", func(t *testing.T, r resource) {
		// Neighbours that text (9, 10) or a Lua number (above 2^53) takes for another order.
		order := []int64{1, 9, 10, 99, 100, 1<<53 - 1, 1 << 53, 1<<53 + 1, 1<<53 + 2, math.MaxInt64 - 1, math.MaxInt64}
		for i, token := range order {
			must(t, fmt.Sprint("token ", token), r.set(t, token, fmt.Sprint(token)))
			for _, older := range order[:i] {
				stale(t, r.set(t, older, "stale"), older, token)
			}
			equal(t, "the value", r.value(t), fmt.Sprint(token))
		}
	}},
	{"a_deleted_resource_remembers_its_token", func(t *testing.T, r resource) {
		must(t, "Set", r.set(t, 5, "five"))
		stale(t, r.fenced.Del(t.Context(), r.key, 4), 4, 5)
		equal(t, "the value", r.value(t), "five")
		must(t, "Del", r.fenced.Del(t.Context(), r.key, 6))
		must(t, "Del of nothing", r.fenced.Del(t.Context(), r.key, 6))
		equal(t, "the value", r.value(t), "")
		stale(t, r.set(t, 5, "five"), 5, 6)
		equal(t, "the value", r.value(t), "")
	}},
	{"a_value_can_have_a_TTL_its_token_has_none", func(t *testing.T, r resource) {
		must(t, "Set", r.fenced.Set(t.Context(), r.key, 5, "five", time.Minute))
		if ttl := r.client.PTTL(t.Context(), r.key).Val(); ttl <= 0 || ttl > time.Minute {
			t.Errorf("the TTL is %s", ttl)
		}
		equal(t, "the token's TTL", r.client.PTTL(t.Context(), r.appliedKey(t)).Val(), -1)
		must(t, "Set", r.set(t, 5, "five"))
		equal(t, "the TTL of a value without one", r.client.PTTL(t.Context(), r.key).Val(), -1)
	}},
	{"any_value_is_replaced_as_SET_does", func(t *testing.T, r resource) {
		must(t, "RPUSH", r.client.RPush(t.Context(), r.key, "a list").Err())
		must(t, "Set", r.fenced.Set(t.Context(), r.key, 1, []byte("\x00\r\n$1"), 0))
		equal(t, "the value", r.value(t), "\x00\r\n$1")
		must(t, "Set", r.fenced.Set(t.Context(), r.key, 1, 42, 0))
		equal(t, "the value", r.value(t), "42")
	}},
}

var refusals = []behaviour{
	{"a_bad_argument_is_refused_before_anything_is_sent", func(t *testing.T, r resource) {
		var sent sentinel
		r.client.AddHook(&sent)
		defer sent.off()
		script := fence.NewScript("return 1")
		run := func(key string, token int64, script *fence.Script) error {
			_, err := r.fenced.Run(t.Context(), key, token, script, nil)
			return err
		}
		for _, c := range []struct {
			err  error
			want string
		}{
			{r.fenced.Set(t.Context(), "", 1, "v", 0), `key "" must not be empty`},
			{r.fenced.Del(t.Context(), "", 1), `key "" must not be empty`},
			{run("", 1, script), `key "" must not be empty`},
			{r.fenced.Del(t.Context(), "a}b", 1), `key "a}b" must have a hash tag`},
			{r.set(t, 0, "v"), "token 0 must be larger than 0"},
			{r.fenced.Del(t.Context(), r.key, -1), "token -1 must be larger than 0"},
			{run(r.key, math.MinInt64, script), "token -9223372036854775808 must be larger than 0"},
			{run(r.key, 1, nil), "script must not be nil"},
			{r.fenced.Set(t.Context(), r.key, 1, "v", -time.Second), "time to live -1s must be 0"},
			{r.fenced.Set(t.Context(), r.key, 1, "v", time.Microsecond), "time to live 1µs must be 0 (none) or at least 1ms"},
		} {
			invalid(t, c.err, c.want)
		}
		equal(t, "commands sent", sent.count.Load(), 0)
	}},
	{"an_applied_token_that_is_none_is_an_error_and_nothing_is_written", func(t *testing.T, r resource) {
		must(t, "SET", r.client.Set(t.Context(), r.key, "before", 0).Err())
		for _, bad := range []string{"", "0", "-1", "007", "1.5", "1e9", "soon", "9223372036854775808"} {
			must(t, "SET", r.client.Set(t.Context(), r.appliedKey(t), bad, 0).Err())
			err := r.set(t, math.MaxInt64, "after")
			if err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), fmt.Sprintf("%q", bad)) {
				t.Errorf("applied token %q: error %v", bad, err)
			}
			equal(t, "the applied token", r.applied(t), bad)
		}
		must(t, "DEL", r.client.Del(t.Context(), r.appliedKey(t)).Err())
		must(t, "RPUSH", r.client.RPush(t.Context(), r.appliedKey(t), "a list").Err())
		if err := r.set(t, 1, "after"); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Errorf("an applied token of another type: error %v", err)
		}
		equal(t, "the value", r.value(t), "before")
	}},
	{"an_ended_context_writes_nothing", func(t *testing.T, r resource) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.fenced.Set(ctx, r.key, 1, "v", 0); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		equal(t, "the value", r.value(t), "")
	}},
}

func (r resource) set(t *testing.T, token int64, value string) error {
	t.Helper()
	return r.fenced.Set(t.Context(), r.key, token, value, 0)
}

// value is "" where there is none.
func (r resource) value(t *testing.T) string {
	t.Helper()
	return get(t, r.client, r.key)
}

func (r resource) appliedKey(t *testing.T) string {
	t.Helper()
	key, err := fence.AppliedKey(r.key)
	must(t, "AppliedKey", err)
	return key
}

func (r resource) applied(t *testing.T) string {
	t.Helper()
	return get(t, r.client, r.appliedKey(t))
}
