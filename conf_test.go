package redislock_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-kratos/kratos/v2/config"
	"github.com/go-kratos/kratos/v2/encoding"
	kratosjson "github.com/go-kratos/kratos/v2/encoding/json"
	"github.com/go-lynx/lynx"
	redisconf "github.com/go-lynx/lynx-redis/conf"
	"github.com/go-lynx/lynx/plugins"
	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// example is one document of conf/example_config.yml.
type example struct {
	text       string
	redis      *redisconf.Redis
	production bool
}

// kind is what the document configures.
func (e example) kind() string {
	kind := "standalone"
	switch {
	case e.redis.GetSentinel() != nil:
		kind = "sentinel"
	case strings.HasPrefix(e.redis.GetAddrs()[0], "rediss://"):
		kind = "tls"
	case len(e.redis.GetAddrs()) > 1:
		kind = "cluster"
	}
	if e.redis.GetUsername() != "" {
		kind += "+acl"
	}
	if e.production {
		kind += "+production"
	}
	return kind
}

var addrsLine = regexp.MustCompile(`(?m)^( +addrs: ).*$`)

// at is the document with these addresses in place of its own, and nothing else
// changed.
func (e example) at(t *testing.T, addrs ...string) string {
	t.Helper()
	if n := len(addrsLine.FindAllString(e.text, -1)); n != 1 {
		t.Fatalf("%d lines with addresses", n)
	}
	if scheme, _, found := strings.Cut(e.redis.GetAddrs()[0], "://"); found {
		for i := range addrs {
			addrs[i] = scheme + "://" + addrs[i]
		}
	}
	list, err := json.Marshal(addrs)
	must(t, "addresses", err)
	return addrsLine.ReplaceAllString(e.text, "${1}"+string(list))
}

// readExamples reads every document of the file, strictly: the framework itself
// ignores keys it does not know.
func readExamples(t *testing.T) map[string]example {
	t.Helper()
	file, err := os.ReadFile("conf/example_config.yml")
	must(t, "reading the example", err)
	examples := map[string]example{}
	for text := range strings.SplitSeq(string(file), "\n---\n") {
		e := readExample(t, text)
		if _, twice := examples[e.kind()]; twice {
			t.Fatalf("two documents for %s", e.kind())
		}
		examples[e.kind()] = e
	}
	return examples
}

func readExample(t *testing.T, text string) example {
	t.Helper()
	var doc map[string]map[string]map[string]any
	must(t, "YAML", encoding.GetCodec("yaml").Unmarshal([]byte(text), &doc))
	e := example{text: text, redis: &redisconf.Redis{}}
	section := doc["lynx"]
	for name := range section {
		if !slices.Contains([]string{"application", "plugins", "redis"}, name) {
			t.Fatalf("a section %s in\n%s", name, text)
		}
	}
	data, err := json.Marshal(section["redis"])
	must(t, "JSON", err)
	strict := kratosjson.UnmarshalOptions
	strict.DiscardUnknown = false
	if err := strict.Unmarshal(data, e.redis); err != nil || len(e.redis.GetAddrs()) == 0 {
		t.Fatalf("section redis: %v in\n%s", err, text)
	}
	_, e.production = section["plugins"]["require_context_aware_lifecycle"]
	return e
}

// yamlSource is a configuration source that holds one document.
type yamlSource struct{ memory }

func (s yamlSource) Load() ([]*config.KeyValue, error) {
	return []*config.KeyValue{{Key: "app.yaml", Value: s.doc, Format: "yaml"}}, nil
}

// bootYAML is boot for a whole document.
func bootYAML(t *testing.T, doc string) (*lynx.LynxApp, error) {
	t.Helper()
	cfg := config.New(config.WithSource(yamlSource{memory{[]byte(doc)}}))
	must(t, "loading the configuration", cfg.Load())
	app, err := lynx.NewStandaloneApp(cfg)
	must(t, "making the app", err)
	t.Cleanup(func() {
		_ = app.Close() // once more, for tests that close it themselves
		_ = cfg.Close()
	})
	return app, app.LoadPlugins()
}

func bootYAMLOK(t *testing.T, doc string) *lynx.LynxApp {
	t.Helper()
	app, err := bootYAML(t, doc)
	if err != nil {
		t.Fatalf("the app did not start: %v, with\n%s", err, doc)
	}
	return app
}

// closeApp fails when a plugin did not stop in order: Close itself gives nil.
func closeApp(t *testing.T, app *lynx.LynxApp) {
	t.Helper()
	must(t, "Close", app.Close())
	if failures := app.GetUnloadFailures(); len(failures) > 0 {
		t.Fatalf("unload failures: %+v", failures)
	}
}

// dialsEnd waits, at the test's end, for go-redis: a pool whose dials have failed
// tries once a second, and sees only then that it was closed.
func dialsEnd(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		stacks := make([]byte, 1<<22)
		for range 1000 {
			if !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte(".tryDial(")) {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Error("go-redis still dials for a client that was closed")
	})
}

// TestExampleConfig boots an app from each document as it is shipped, but for the
// addresses, and locks through it.
func TestExampleConfig(t *testing.T) {
	dialsEnd(t)
	run := map[string]func(*testing.T, example){
		"standalone": func(t *testing.T, e example) {
			server := redistest.Start(t)
			useLocks(t, e, e.at(t, server.Addr()), server.Client(t))
		},
		"standalone+acl": useACL,
		"standalone+production": func(t *testing.T, e example) {
			t.Setenv("LYNX_ENV", "production")
			server := redistest.Start(t)
			useLocks(t, e, e.at(t, server.Addr()), server.Client(t))
		},
		"sentinel": func(t *testing.T, e example) {
			sentinel := redistest.StartSentinel(t)
			useLocks(t, e, e.at(t, sentinel.Addrs()...), sentinel.Client(t))
		},
		"cluster": useCluster,
		"tls+acl": useTLS,
	}
	examples := readExamples(t)
	got, want := slices.Sorted(maps.Keys(examples)), slices.Sorted(maps.Keys(run))
	if !slices.Equal(got, want) {
		t.Fatalf("the file has documents for %v, and not for %v", got, want)
	}
	for _, kind := range want {
		t.Run(kind, func(t *testing.T) { run[kind](t, examples[kind]) })
	}
}

// useLocks boots the app, locks through the package function and, inside of it,
// through the published provider, waits until both leases were renewed, and closes
// the app.
func useLocks(t *testing.T, e example, doc string, control redis.UniversalClient) {
	t.Helper()
	app := bootYAMLOK(t, doc)
	e.checkClient(t, clientOf(t, app))
	locks := published(t, app, "redis.distributed.lock.provider").(redislock.ContextProvider)
	options := redislock.LockOptions{Expiration: 1500 * time.Millisecond, RenewalEnabled: true}
	ran := 0
	err := redislock.LockContext(t.Context(), "example:package", options, func(ctx context.Context, outer *redislock.RedisLock) error {
		return locks.LockContext(ctx, "example:provider", options, func(ctx context.Context, inner *redislock.RedisLock) error {
			ran++
			return errors.Join(renewedOnce(ctx, control, outer), renewedOnce(ctx, control, inner))
		})
	})
	if err != nil || ran != 1 {
		t.Fatalf("LockContext gave %v and ran its function %d times", err, ran)
	}
	for _, key := range []string{"example:package", "example:provider"} {
		if n, err := control.Exists(t.Context(), ownerKey(key)).Result(); n != 0 || err != nil {
			t.Fatalf("after the release %d owners of %s, %v", n, key, err)
		}
	}
	var token int64
	err = redislock.LockWithToken(t.Context(), "example:package", time.Second, func(n int64) error { token = n; return nil })
	if err != nil || token != 2 {
		t.Fatalf("the second token is %d, %v", token, err)
	}
	closeApp(t, app)
}

func ownerKey(key string) string { return redislock.HashTag(key) + ":owner" }

// renewedOnce waits until the lock was renewed and looks at Redis then.
func renewedOnce(ctx context.Context, control redis.UniversalClient, lock *redislock.RedisLock) error {
	for first := lock.GetAcquiredAt().Add(lock.GetExpiration()); !lock.GetExpiresAt().After(first); {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
	owner, err := control.Get(ctx, ownerKey(lock.GetKey())).Result()
	if err != nil || owner != lock.GetValue() || lock.GetToken() != 1 {
		return fmt.Errorf("%s: owner %q of %q, token %d, %w", lock.GetKey(), owner, lock.GetValue(), lock.GetToken(), err)
	}
	return lock.Err()
}

func clientOf(t *testing.T, app *lynx.LynxApp) redis.UniversalClient {
	t.Helper()
	client, err := plugins.GetTypedResource[redis.UniversalClient](app.GetPluginManager().GetRuntime(), "redis.client")
	must(t, "the resource redis.client", err)
	return client
}

// checkClient compares the client that redis.client made with the document.
func (e example) checkClient(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	var topology string
	var pool int
	var dial, read, write, idle time.Duration
	switch c := client.(type) {
	case *redis.ClusterClient:
		o := c.Options()
		topology = "cluster"
		pool, dial, read, write, idle = o.PoolSize, o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.ConnMaxIdleTime
	case *redis.Client:
		o := c.Options()
		topology = "standalone"
		if o.Addr == "FailoverClient" {
			topology = "sentinel"
		}
		if o.TLSConfig != nil {
			topology = "tls"
		}
		pool, dial, read, write, idle = o.PoolSize, o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.ConnMaxIdleTime
	}
	if want, _, _ := strings.Cut(e.kind(), "+"); topology != want {
		t.Fatalf("the client is one for %q", topology)
	}
	got := []time.Duration{dial, read, write, idle}
	want := []time.Duration{
		e.redis.GetDialTimeout().AsDuration(), e.redis.GetReadTimeout().AsDuration(),
		e.redis.GetWriteTimeout().AsDuration(), e.redis.GetConnMaxIdleTime().AsDuration(),
	}
	if !slices.Equal(got, want) || slices.Contains(want, 0) || pool != int(e.redis.GetMaxActiveConns()) {
		t.Fatalf("the client's dial, read, write and idle times are %v, its pool %d", got, pool)
	}
}
