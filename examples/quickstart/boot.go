package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/alicebob/miniredis/v2"
	kconfig "github.com/go-kratos/kratos/v2/config"
	klog "github.com/go-kratos/kratos/v2/log"
	"github.com/go-lynx/lynx"
	"github.com/go-lynx/lynx/log"
	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock" // importing it registers the plugin
)

const appName, appVersion = "quickstart", "v1.0.0"

// startEmbedded is a Redis inside this process, for a program without a server.
func startEmbedded() (*miniredis.Miniredis, error) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true) // by itself miniredis lets no time pass
	return m, m.Start()
}

// boot starts a Lynx application whose only configuration is where Redis is. Both
// redis.client and redis.distributed.lock are loaded for the section lynx.redis.
func boot(addrs []string) (*lynx.LynxApp, error) {
	conf := kconfig.New(kconfig.WithSource(memory{"lynx": map[string]any{
		"application": map[string]any{"name": appName, "version": appVersion},
		"redis": map[string]any{
			"addrs": addrs, "max_active_conns": 20, // mandatory
			"dial_timeout": "2s", "read_timeout": "2s", "write_timeout": "2s",
		},
		"log": map[string]any{"level": "warn", "console_output": true},
	}}))
	if err := errors.Join(conf.Load(), quietLynx(conf)); err != nil {
		return nil, fmt.Errorf("loading the configuration: %w", err)
	}
	app, err := lynx.NewStandaloneApp(conf)
	if err != nil {
		return nil, errors.Join(err, conf.Close())
	}
	if err := app.LoadPlugins(); err != nil {
		return nil, errors.Join(fmt.Errorf("loading the plugins: %w", err), app.Close())
	}
	return app, nil
}

var initLogger sync.Once

// quietLynx makes Lynx log by its section lynx.log, as its boot package does for a
// program that it starts. Before that, everything goes to stderr.
func quietLynx(conf kconfig.Config) (err error) {
	initLogger.Do(func() {
		host, _ := os.Hostname()
		err = log.InitLogger(appName, host, appVersion, conf)
	})
	return err
}

// quietKratos does the same for what is logged through Kratos.
func quietKratos() {
	klog.DefaultLogger = klog.NewFilter(klog.DefaultLogger, klog.FilterLevel(klog.LevelWarn))
	klog.SetLogger(klog.DefaultLogger)
}

// provider is what the application publishes for injection.
func provider(app *lynx.LynxApp) (redislock.Provider, error) {
	rt := app.GetPluginManager().GetRuntime()
	return lynx.GetTypedResourceFromRuntime[redislock.Provider](rt, "redis.distributed.lock.provider")
}

// dial is a client of the same Redis beside the application's, to play the accident.
func dial(addrs []string) redis.UniversalClient {
	return redis.NewUniversalClient(&redis.UniversalOptions{Addrs: addrs, ContextTimeoutEnabled: true})
}

// memory is a configuration that is no file: the section names and what is in them.
type memory map[string]any

// Load gives the configuration to Kratos.
func (m memory) Load() ([]*kconfig.KeyValue, error) {
	value, err := json.Marshal(m)
	return []*kconfig.KeyValue{{Key: "quickstart.json", Format: "json", Value: value}}, err
}

// Watch reports no change.
func (m memory) Watch() (kconfig.Watcher, error) {
	ctx, cancel := context.WithCancel(context.Background())
	return unchanging{ctx, cancel}, nil
}

type unchanging struct {
	ctx    context.Context
	cancel context.CancelFunc
}

// Next blocks until Stop.
func (u unchanging) Next() ([]*kconfig.KeyValue, error) {
	<-u.ctx.Done()
	return nil, u.ctx.Err()
}

// Stop ends Next.
func (u unchanging) Stop() error {
	u.cancel()
	return nil
}
