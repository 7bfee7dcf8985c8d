package redislock_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-kratos/kratos/v2/config"
	"github.com/go-lynx/lynx"
	"github.com/go-lynx/lynx/plugins"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// memory is a configuration source that holds one document.
type memory struct{ doc []byte }

func (m memory) Load() ([]*config.KeyValue, error) {
	return []*config.KeyValue{{Key: "app.json", Value: m.doc, Format: "json"}}, nil
}

func (m memory) Watch() (config.Watcher, error) {
	return &idleWatcher{stop: make(chan struct{})}, nil
}

type idleWatcher struct {
	once sync.Once // the app closes its configuration, and so does the test
	stop chan struct{}
}

func (w *idleWatcher) Next() ([]*config.KeyValue, error) {
	<-w.stop
	return nil, context.Canceled // what ends the watching goroutine
}

func (w *idleWatcher) Stop() error {
	w.once.Do(func() { close(w.stop) })
	return nil
}

// boot makes and loads a standalone app whose section "lynx" has the extra parts.
func boot(tb testing.TB, name string, extra map[string]any) (*lynx.LynxApp, error) {
	tb.Helper()
	section := map[string]any{"application": map[string]any{"name": name, "version": "v1"}}
	for k, v := range extra {
		section[k] = v
	}
	doc, err := json.Marshal(map[string]any{"lynx": section})
	if err != nil {
		tb.Fatal(err)
	}
	cfg := config.New(config.WithSource(memory{doc}))
	if err := cfg.Load(); err != nil {
		tb.Fatal(err)
	}
	app, err := lynx.NewStandaloneApp(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = app.Close() // once more, for tests that close it themselves
		_ = cfg.Close()
	})
	return app, app.LoadPlugins()
}

func redisSection(addr string) map[string]any {
	return map[string]any{"redis": map[string]any{"addrs": []string{addr}, "max_active_conns": 20}}
}

// bootOK boots an app that has to start, and closes it at the test's end.
func bootOK(tb testing.TB, name string, extra map[string]any) *lynx.LynxApp {
	tb.Helper()
	app, err := boot(tb, name, extra)
	if err != nil {
		tb.Fatalf("the app did not start: %v", err)
	}
	return app
}

func published(tb testing.TB, app *lynx.LynxApp, name string) redislock.Provider {
	tb.Helper()
	p, err := plugins.GetTypedResource[redislock.Provider](app.GetPluginManager().GetRuntime(), name)
	if err != nil {
		tb.Fatalf("resource %s: %v", name, err)
	}
	return p
}

func TestPackageFunctionsFallBackToTheDefaultAppsRedis(t *testing.T) {
	if os.Getenv("LYNX_ENV") != "" {
		t.Fatal("the environment has LYNX_ENV set")
	}
	server := redistest.Start(t)
	app := bootOK(t, "svc", redisSection(server.Addr()))
	lynx.SetDefaultApp(app)
	t.Cleanup(lynx.ClearDefaultApp)
	if err := app.GetPluginManager().StopPlugin("redis.distributed.lock"); err != nil {
		t.Fatal(err)
	}
	// This client was given up a moment ago: it may be closed at any time.
	err := redislock.Lock(t.Context(), "job", time.Second, func() error { return nil })
	if !errors.Is(err, redislock.ErrRedisClientNotFound) {
		t.Fatalf("right after the stop: %v", err)
	}
	lynx.SetDefaultApp(bootWithoutLock(t, server))
	if err := redislock.Lock(context.Background(), "job", time.Second, func() error { return nil }); err != nil {
		t.Fatalf("an app with redis.client only: %v", err)
	}
}

// bootWithoutLock is an app in which redis.client runs and our plugin was stopped
// before the process's last plugin was.
func bootWithoutLock(t *testing.T, server *redistest.Server) *lynx.LynxApp {
	t.Helper()
	app := bootOK(t, "without", redisSection(server.Addr()))
	other := bootOK(t, "other", redisSection(server.Addr()))
	for _, a := range []*lynx.LynxApp{app, other} {
		if err := a.GetPluginManager().StopPlugin("redis.distributed.lock"); err != nil {
			t.Fatal(err)
		}
	}
	return app
}
