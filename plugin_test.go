package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-lynx/lynx/observability/metrics"
	"github.com/go-lynx/lynx/plugins"
	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

func TestPluginStartsWithTheRedisSectionAlone(t *testing.T) {
	server := redistest.Start(t)
	for name, extra := range map[string]map[string]any{
		"section redis alone":            {},
		"redis-lock empty":               {"redis-lock": nil},
		"redis-lock with unknown keys":   {"redis-lock": map[string]any{"whatever": 1}},
		"redis-lock is not even a table": {"redis-lock": "on"},
	} {
		t.Run(name, func(t *testing.T) {
			section := redisSection(server.Addr())
			for k, v := range extra {
				section[k] = v
			}
			app := bootOK(t, "svc", section)
			for _, resource := range []string{"redis.distributed.lock", "redis.distributed.lock.provider"} {
				ran := false
				err := published(t, app, resource).Lock(t.Context(), "job", time.Second, func() error { ran = true; return nil })
				if err != nil || !ran {
					t.Fatalf("%s: Lock gave %v, ran %v", resource, err, ran)
				}
			}
			var token int64
			if err := redislock.LockWithToken(t.Context(), "job", time.Second, func(n int64) error { token = n; return nil }); err != nil || token == 0 {
				t.Fatalf("package function: %v, token %d", err, token)
			}
		})
	}
}

func TestPluginStartsInProduction(t *testing.T) {
	server := redistest.Start(t)
	t.Setenv("LYNX_ENV", "production")
	section := redisSection(server.Addr())
	// redis.client v1.6.0-beta has no context-aware steps and is refused there itself:
	// without the opt-out the refusal must name it, not us.
	_, err := boot(t, "svc", section)
	if err == nil || !strings.Contains(err.Error(), "redis.client") || strings.Contains(err.Error(), "redis.distributed.lock") {
		t.Fatalf("production without the opt-out: %v", err)
	}
	if !plugins.HasTrueContextLifecycle(redislock.NewPlugin()) {
		t.Fatal("the framework does not take the plugin for context-aware")
	}
	section["plugins"] = map[string]any{"require_context_aware_lifecycle": false}
	bootOK(t, "svc", section)
	if err := redislock.Lock(t.Context(), "job", time.Second, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
}

func TestWithoutRedisTheErrorSaysWhatToConfigure(t *testing.T) {
	t.Run("no section", func(t *testing.T) {
		bootOK(t, "svc", nil)
		err := redislock.Lock(t.Context(), "job", time.Second, func() error { return nil })
		if !errors.Is(err, redislock.ErrRedisClientNotFound) || !strings.Contains(err.Error(), "lynx.redis") {
			t.Fatal(err)
		}
		if _, err := redislock.NewLock(t.Context(), "job", redislock.DefaultLockOptions); !errors.Is(err, redislock.ErrRedisClientNotFound) {
			t.Fatal(err)
		}
	})
	t.Run("server down", func(t *testing.T) {
		server := redistest.Start(t)
		server.Stop()
		if _, err := boot(t, "svc", redisSection(server.Addr())); err == nil {
			t.Fatal("the app started without Redis")
		}
		if err := redislock.Lock(t.Context(), "job", time.Second, func() error { return nil }); !errors.Is(err, redislock.ErrRedisClientNotFound) {
			t.Fatal(err)
		}
	})
	t.Run("the plugin without redis.client", func(t *testing.T) {
		p := redislock.NewPlugin()
		if err := p.Initialize(p, plugins.NewUnifiedRuntime()); err != nil {
			t.Fatal(err)
		}
		err := p.Start(p)
		if !errors.Is(err, redislock.ErrRedisClientNotFound) || !strings.Contains(err.Error(), "max_active_conns") {
			t.Fatal(err)
		}
		if err := p.CleanupTasks(); err != nil {
			t.Fatalf("cleanup after a failed start: %v", err)
		}
	})
}

func TestPluginStopWaitsForTheHolder(t *testing.T) {
	server := redistest.Start(t)
	app := bootOK(t, "svc", redisSection(server.Addr()))
	options := redislock.DefaultLockOptions
	options.Expiration = 300 * time.Millisecond
	lock, err := redislock.NewLock(t.Context(), "job", options)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- app.Close() }()
	// A negative: for longer than the lease the stop waits and the lease is kept.
	select {
	case err := <-closed:
		t.Fatalf("the app stopped under a holder: %v", err)
	case <-time.After(700 * time.Millisecond):
	}
	if err := lock.Err(); err != nil {
		t.Fatalf("the lease was not kept while stopping: %v", err)
	}
	if err := redislock.Lock(t.Context(), "other", time.Second, func() error { return nil }); !errors.Is(err, redislock.ErrRenewalServiceStopped) {
		t.Fatalf("a new acquire while stopping: %v", err)
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if failures := app.GetUnloadFailures(); len(failures) > 0 {
		t.Fatalf("unload failures: %+v", failures)
	}
	if err := lock.Acquire(t.Context()); !errors.Is(err, redislock.ErrRedisClientNotFound) {
		t.Fatalf("an acquire after the stop: %v", err)
	}
}

func TestPluginStopGivesUpInsideTheFrameworksDeadline(t *testing.T) {
	server := redistest.Start(t)
	section := redisSection(server.Addr())
	section["plugins"] = map[string]any{"stop_timeout": "1s"}
	app := bootOK(t, "svc", section)
	lock, err := redislock.NewLock(t.Context(), "job", redislock.DefaultLockOptions)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = app.Close() // nil in any case
	failures := app.GetUnloadFailures()
	if len(failures) != 1 || !strings.Contains(fmt.Sprint(failures), "1 locks were still active") {
		t.Fatalf("unload failures: %+v", failures)
	}
	for _, call := range map[string]func() error{
		"Release": func() error { return lock.Release(t.Context()) },
		"Acquire": func() error { return lock.Acquire(t.Context()) },
	} {
		if err := call(); !errors.Is(err, redislock.ErrRedisClientNotFound) {
			t.Fatalf("after the host has stopped: %v", err)
		}
	}
	if n := server.Client(t).Exists(t.Context(), redislock.HashTag("job")+":owner").Val(); n != 1 {
		t.Fatal("stopping deleted the key of a hold")
	}
}

func TestPluginStartsAgainInTheSameProcess(t *testing.T) {
	server := redistest.Start(t)
	provider := redislock.GetProvider() // kept over the restarts
	for range 3 {
		app, err := boot(t, "svc", redisSection(server.Addr()))
		if err != nil {
			t.Fatal(err)
		}
		if err := provider.Lock(t.Context(), "job", time.Second, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		if err := app.Close(); err != nil {
			t.Fatal(err)
		}
		if err := provider.Lock(t.Context(), "job", time.Second, func() error { return nil }); !errors.Is(err, redislock.ErrRedisClientNotFound) {
			t.Fatalf("between two runs: %v", err)
		}
	}
}

func TestTwoAppsDoNotStopEachOther(t *testing.T) {
	one, two := redistest.Start(t), redistest.Start(t)
	first := bootOK(t, "one", redisSection(one.Addr()))
	second := bootOK(t, "two", redisSection(two.Addr()))
	options := redislock.DefaultLockOptions
	options.Expiration = 300 * time.Millisecond
	lock, err := published(t, first, "redis.distributed.lock").NewLock(t.Context(), "job", options)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The package functions use the app that started last and still runs.
	held := func(s *redistest.Server) (n int64) {
		_ = redislock.Lock(t.Context(), "where", time.Second, func() error {
			n = s.Client(t).Exists(t.Context(), redislock.HashTag("where")+":owner").Val()
			return nil
		})
		return n
	}
	if held(two) != 1 {
		t.Fatal("the package functions do not use the app that started last")
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if held(one) != 1 {
		t.Fatal("the package functions do not fall back to the app that still runs")
	}
	// A negative: the first app's lease goes on being renewed for more than its length.
	select {
	case <-lock.Done():
		t.Fatalf("the second app's stop ended the first one's hold: %v", lock.Err())
	case <-time.After(500 * time.Millisecond):
	}
	if err := lock.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// pluginOver is the plugin over that client, in a runtime of its own, and its start.
func pluginOver(t *testing.T, client *redis.Client) (*redislock.Plugin, *plugins.UnifiedRuntime, error) {
	t.Helper()
	rt := plugins.NewUnifiedRuntime()
	must(t, "RegisterSharedResource", rt.RegisterSharedResource("redis.client", client))
	p := redislock.NewPlugin()
	must(t, "Initialize", p.Initialize(p, rt))
	err := p.Start(p)
	t.Cleanup(func() { _ = p.Stop(p) })
	return p, rt, err
}

// replaceClient is what a reload of redis.client does: it closes the old one.
func replaceClient(t *testing.T, rt *plugins.UnifiedRuntime, next *redis.Client) {
	t.Helper()
	must(t, "RegisterSharedResource", rt.RegisterSharedResource("redis.client", next))
}

func TestUnlockByValueFindsAReplacedClient(t *testing.T) {
	server := redistest.Start(t)
	_, rt, err := pluginOver(t, server.Client(t))
	must(t, "Start", err)
	replaceClient(t, rt, server.Client(t))
	must(t, "SET", server.Client(t).Set(t.Context(), redislock.HashTag("job")+":owner", "another", time.Minute).Err())
	succeeds(t, "UnlockByValue", redislock.UnlockByValue(t.Context(), "job", "another"))
}

// once is a hook after whose first script the client is closed.
type once struct{ client *redis.Client }

func (o once) DialHook(next redis.DialHook) redis.DialHook { return next }

func (o once) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (o once) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if strings.HasPrefix(cmd.Name(), "eval") {
			_ = o.client.Close()
		}
		return err
	}
}

// The framework checks the health after the plugin's own part of the start, and tells
// it nothing when that ends the start.
func TestAPluginWhoseStartFailedIsNotTheOneThatRuns(t *testing.T) {
	server := redistest.Start(t)
	bootOK(t, "svc", redisSection(server.Addr()))
	client := server.Client(t)
	client.AddHook(once{client: client})
	p, _, err := pluginOver(t, client)
	if err == nil || !strings.Contains(err.Error(), "health") {
		t.Fatalf("Start over a client that is closed meanwhile: %v", err)
	}
	lock := func() error { return redislock.Lock(t.Context(), "job", time.Second, func() error { return nil }) }
	succeeds(t, "Lock by the plugin that runs", lock())

	again := plugins.NewUnifiedRuntime()
	must(t, "RegisterSharedResource", again.RegisterSharedResource("redis.client", server.Client(t)))
	must(t, "the second start", errors.Join(p.Initialize(p, again), p.Start(p)))
	must(t, "Stop", p.Stop(p))
	succeeds(t, "Lock when the other has started and stopped", lock())
}

func TestPluginFindsAReplacedClient(t *testing.T) {
	server := redistest.Start(t)
	p, rt, err := pluginOver(t, server.Client(t))
	must(t, "Start", err)
	lock, err := redislock.NewLock(t.Context(), "job", redislock.LockOptions{Expiration: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	replaceClient(t, rt, server.Client(t))
	if err := lock.Release(t.Context()); !errors.Is(err, redislock.ErrRedisClientNotFound) {
		t.Fatalf("a hold stays with its client: %v", err)
	}
	var calls sync.WaitGroup
	errs := make(chan error, 8)
	for i := range 8 { // at once: only one may ask the registry
		calls.Go(func() {
			errs <- redislock.Lock(t.Context(), fmt.Sprint("other-", i), time.Second, func() error { return nil })
		})
	}
	calls.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Fatalf("after the client was replaced: %v", err)
		}
	}
	if health := p.GetHealth(); health.Status != "healthy" {
		t.Fatalf("health: %+v", health)
	}
}

func TestHealthIsARealRoundTrip(t *testing.T) {
	server := redistest.Start(t)
	app := bootOK(t, "svc", redisSection(server.Addr()))
	p := app.GetPluginManager().GetPlugin("redis.distributed.lock").(*redislock.Plugin)
	if health := p.GetHealth(); health.Status != "healthy" {
		t.Fatalf("health: %+v", health)
	}
	server.Stop()
	if health := p.GetHealth(); health.Status != "unhealthy" || health.Message == "" {
		t.Fatalf("health without Redis: %+v", health)
	}
}

func TestScriptsAreLoadedAtStart(t *testing.T) {
	server := redistest.Start(t)
	bootOK(t, "svc", redisSection(server.Addr()))
	client := server.Client(t)
	if err := redislock.Lock(t.Context(), "job", time.Second, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	stats := client.InfoMap(t.Context(), "errorstats").Val()
	if strings.Contains(fmt.Sprint(stats), "NOSCRIPT") {
		t.Fatalf("a call met NOSCRIPT: %v", stats)
	}
}

func TestMetricsAreScrapedThroughTheFramework(t *testing.T) {
	server := redistest.Start(t)
	for range 2 { // a second app cycle must not break the page
		app, err := boot(t, "svc", redisSection(server.Addr()))
		if err != nil {
			t.Fatal(err)
		}
		if err := redislock.Lock(t.Context(), "job", time.Second, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		page := httptest.NewRecorder()
		metrics.Handler().ServeHTTP(page, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
		if page.Code != 200 || !strings.Contains(page.Body.String(), `lynx_redis_lock_acquire_total{result="success"}`) {
			t.Fatalf("/metrics: %d\n%s", page.Code, page.Body)
		}
		if err := app.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
