package fence_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lynx/lynx-redis-lock/fence"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

var scripts = []behaviour{
	{"a_script_sees_its_own_keys_and_arguments_only", func(t *testing.T, r resource) {
		echo := fence.NewScript("return {#KEYS, KEYS[1], KEYS[2] or 'none', #ARGV, ARGV[1] or 'none'}")
		got, err := r.fenced.Run(t.Context(), r.key, 1, echo, nil)
		must(t, "Run", err)
		equal(t, "the echo", fmt.Sprint(got), fmt.Sprint([]any{1, r.key, "none", 0, "none"}))

		other := "{" + strings.Trim(strings.SplitN(r.key, "}", 2)[0], "{") + "}:other"
		got, err = r.fenced.Run(t.Context(), r.key, 1, echo, []string{other}, "first", 2)
		must(t, "Run", err)
		equal(t, "the echo", fmt.Sprint(got), fmt.Sprint([]any{2, r.key, other, 2, "first"}))
	}},
	{"a_script_runs_under_the_guard", func(t *testing.T, r resource) {
		must(t, "token 5", r.add(t, 5, 10))
		must(t, "token 5", r.add(t, 5, 10))
		stale(t, r.add(t, 4, 100), 4, 5)
		must(t, "token 6", r.add(t, 6, 1))
		equal(t, "the sum", r.value(t), "21")
	}},
	{"a_script's_result_is_what_it_returned", func(t *testing.T, r resource) {
		for body, want := range map[string]any{
			"return 7":                          int64(7),
			"return 'text' -- and a comment":    "text",
			"return redis.status_reply('FINE')": "FINE",
			"return nil":                        nil,
			"return false":                      nil,
			"local unused = 1":                  nil,
			"":                                  nil,
		} {
			got, err := r.fenced.Run(t.Context(), r.key, 1, fence.NewScript(body), nil)
			must(t, body, err)
			equal(t, body, got, want)
		}
		n, err := redis.NewCmdResult(r.fenced.Run(t.Context(), r.key, 1, fence.NewScript("return '7'"), nil)).Int()
		must(t, "Int", err)
		equal(t, "the conversion", n, 7)
	}},
	{"an_empty_script_raises_the_token", func(t *testing.T, r resource) {
		_, err := r.fenced.Run(t.Context(), r.key, 9, fence.NewScript(""), nil)
		must(t, "Run", err)
		equal(t, "the value", r.value(t), "")
		stale(t, r.set(t, 8, "eight"), 8, 9)
	}},
	{"what_a_script_wrote_before_it_failed_is_safe_from_older_tokens", func(t *testing.T, r resource) {
		must(t, "Set", r.set(t, 1, "one"))
		half := fence.NewScript("redis.call('SET', KEYS[1], 'half')\nreturn redis.call('NO SUCH COMMAND')")
		_, err := r.fenced.Run(t.Context(), r.key, 3, half, nil)
		if err == nil || errors.Is(err, fence.ErrStale) {
			t.Fatalf("error %v", err)
		}
		equal(t, "the value", r.value(t), "half")
		stale(t, r.set(t, 2, "two"), 2, 3)
		equal(t, "the value", r.value(t), "half")
	}},
	{"an_error_that_a_script_returns_is_Run's_error", func(t *testing.T, r resource) {
		_, err := r.fenced.Run(t.Context(), r.key, 1, fence.NewScript("return redis.error_reply('SOLD out')"), nil)
		if !redis.HasErrorPrefix(err, "SOLD") || !strings.Contains(err.Error(), r.key) {
			t.Errorf("error %v", err)
		}
	}},
	{"a_script_that_does_not_compile_records_nothing", func(t *testing.T, r resource) {
		_, err := r.fenced.Run(t.Context(), r.key, 1, fence.NewScript("return ("), nil)
		if err == nil || !strings.Contains(err.Error(), "compiling") && !strings.Contains(err.Error(), "syntax") {
			t.Errorf("error %v", err)
		}
		equal(t, "the applied token", r.applied(t), "")
	}},
	{"a_script_that_Redis_forgot_is_sent_again", func(t *testing.T, r resource) {
		must(t, "token 1", r.add(t, 1, 1))
		must(t, "SCRIPT FLUSH", r.client.ScriptFlush(t.Context()).Err())
		must(t, "token 1", r.add(t, 1, 1))
		equal(t, "the sum", r.value(t), "2")
	}},
}

var addScript = fence.NewScript("return redis.call('INCRBY', KEYS[1], ARGV[1])")

func (r resource) add(t *testing.T, token int64, n int) error {
	t.Helper()
	_, err := r.fenced.Run(t.Context(), r.key, token, addScript, nil, n)
	return err
}

func TestLineNumbersInAnErrorAreTheScripts(t *testing.T) {
	t.Parallel()
	fenced := newFence(t, redistest.Start(t).Client(t))
	_, err := fenced.Run(t.Context(), "key", 1, fence.NewScript("-- one\n-- two\nerror('here')"), nil)
	if err == nil || !strings.Contains(err.Error(), "user_script:3: here") {
		t.Errorf("error %v", err)
	}
}

// A reply is lost after the server has carried the request out.
func TestAfterALostReply(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), MaxRetries: 3})
	t.Cleanup(func() { _ = client.Close() })
	r := resource{client, newFence(t, client), "key"}
	named := redistest.Named("evalsha")
	must(t, "Set", r.set(t, 1, "0")) // both scripts are known from here on
	must(t, "add", r.add(t, 1, 0))

	t.Run("the client sends a Set again and the same token is accepted", func(t *testing.T) {
		before := proxy.Count(named)
		proxy.DropReplies(1, named)
		must(t, "Set", r.set(t, 2, "20"))
		equal(t, "requests", proxy.Count(named)-before, 2)
		equal(t, "the value", r.value(t), "20")
	})
	t.Run("a script is not sent again and the outcome is open", func(t *testing.T) {
		before := proxy.Count(named)
		proxy.DropReplies(1, named)
		if err := r.add(t, 3, 1); err == nil || errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrInvalid) {
			t.Errorf("error %v", err)
		}
		equal(t, "requests", proxy.Count(named)-before, 1)
		equal(t, "the value", r.value(t), "21")
	})
	t.Run("a request that arrives late is refused after the next holder's", func(t *testing.T) {
		late := redis.NewClient(&redis.Options{Addr: proxy.Addr(), MaxRetries: -1, ReadTimeout: 50 * time.Millisecond})
		t.Cleanup(func() { _ = late.Close() })
		must(t, "PING", late.Ping(t.Context()).Err()) // connected
		direct := server.Client(t)
		proxy.BlackHole(true)
		if err := newFence(t, late).Set(t.Context(), r.key, 4, "late", 0); err == nil {
			t.Error("the late Set has no error")
		}
		must(t, "the next holder", newFence(t, direct).Set(t.Context(), r.key, 5, "next", 0))
		ran := scriptCalls(t, direct)
		proxy.BlackHole(false)
		for deadline := time.Now().Add(10 * time.Second); scriptCalls(t, direct) == ran; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the late request never arrived")
			}
		}
		equal(t, "the value", r.value(t), "next")
	})
}

// scriptCalls is how many scripts the server has run by name.
func scriptCalls(t *testing.T, client *redis.Client) string {
	t.Helper()
	stats, err := client.Info(t.Context(), "commandstats").Result()
	must(t, "INFO", err)
	_, line, _ := strings.Cut(stats, "cmdstat_evalsha:calls=")
	count, _, _ := strings.Cut(line, ",")
	return count
}
