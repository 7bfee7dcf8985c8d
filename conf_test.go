package redislock_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
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

var setUser = regexp.MustCompile(`(?m)^# +ACL SETUSER (\S+) on >(\S+) (.*)$`)

// allow makes the user that the document's comment tells to make, without a rule if
// that is named.
func (e example) allow(t *testing.T, server *redistest.Server, without string) {
	t.Helper()
	command := setUser.FindStringSubmatch(e.text)
	if command == nil || command[1] != e.redis.GetUsername() || command[2] != e.redis.GetPassword() {
		t.Fatalf("the document's comment makes no such user as its section needs: %q", command)
	}
	if want := strings.Join(leastRules, " ") + " +ping +info"; command[3] != want {
		t.Fatalf("the document has the rules\n%s\nand the lock and redis.client need\n%s", command[3], want)
	}
	rules := slices.DeleteFunc(strings.Fields(command[3]), func(rule string) bool { return rule == without })
	server.ACLUser(t, command[1], command[2], rules...)
}

func useACL(t *testing.T, e example) {
	server := redistest.Start(t)
	doc := e.at(t, server.Addr())
	e.allow(t, server, "+ping")
	if _, err := bootYAML(t, doc); err == nil || !strings.Contains(err.Error(), "'ping'") {
		t.Fatalf("the app of a user without +ping: %v", err)
	}
	e.allow(t, server, "+info")
	closeApp(t, bootYAMLOK(t, doc))
	named := doc + "\n    client_name: order-service\n"
	e.allow(t, server, "")
	if _, err := bootYAML(t, named); err == nil || !strings.Contains(err.Error(), "client|setname") {
		t.Fatalf("the app of a user without +client|setname: %v", err)
	}
	useLocks(t, e, doc, server.Client(t))
}

func useCluster(t *testing.T, e example) {
	cluster := redistest.StartCluster(t)
	// The app asks about a lock with an empty key at its start.
	node := cluster.PrimaryFor(t, redislock.HashTag(""))
	app := bootYAMLOK(t, e.at(t, node.Addr()))
	if client, plain := clientOf(t, app).(*redis.Client); !plain {
		t.Fatalf("a single address makes a %T", client)
	}
	elsewhere := keyOn(t, cluster, func(s *redistest.Server) bool { return s != node })
	err := redislock.Lock(t.Context(), elsewhere, time.Second, func() error { return nil })
	if !errors.Is(err, redislock.ErrLockAcquireFailed) {
		t.Fatalf("a lock on another node than the single address: %v", err)
	}
	closeApp(t, app)
	useLocks(t, e, e.at(t, cluster.Addrs()...), cluster.Client(t))
}

// keyOn is a lock key whose primary is such a server.
func keyOn(t *testing.T, cluster *redistest.Cluster, such func(*redistest.Server) bool) string {
	t.Helper()
	for i := range 1000 {
		if key := fmt.Sprint("example:", i); such(cluster.PrimaryFor(t, redislock.HashTag(key))) {
			return key
		}
	}
	t.Fatal("no key of a thousand is there")
	return ""
}

// useTLS runs its test a second time in a process that trusts the server's CA,
// because the document can name none and a process reads its roots once.
func useTLS(t *testing.T, e example) {
	const trusted = "REDISLOCK_TRUSTED_SERVER"
	if addr := os.Getenv(trusted); addr != "" {
		control := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}})
		t.Cleanup(func() { _ = control.Close() })
		useLocks(t, e, e.at(t, addr), control)
		return
	}
	server := redistest.StartTLS(t)
	e.allow(t, server.Server, "")
	if _, err := bootYAML(t, e.at(t, server.Addr())); err == nil || !strings.Contains(err.Error(), "certificate signed by unknown authority") {
		t.Fatalf("the app that does not trust the server: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.count=1", "-test.run=^TestExampleConfig$/^tls[+]acl$")
	cmd.Env = append(os.Environ(), trusted+"="+server.Addr(), "SSL_CERT_FILE="+server.CAFile())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("in the process that trusts the server: %v\n%s", err, out)
	}
}

// TestExampleConfigSaysWhatIsRefused checks the example's comments: what the
// framework refuses or takes, seen without a server.
func TestExampleConfigSaysWhatIsRefused(t *testing.T) {
	dialsEnd(t)
	doc := readExamples(t)["standalone"].text
	for name, c := range map[string]struct{ old, new, err string }{
		"no max_active_conns":                {"    max_active_conns: 50\n", "", "max_active_conns"},
		"max_active_conns below 10 alone":    {"max_active_conns: 50", "max_active_conns: 9", "min_idle_conns"},
		"dial_timeout above read_timeout":    {"dial_timeout: 0.5s", "dial_timeout: 0.6s", "dial_timeout"},
		"read_timeout without dial_timeout":  {"    dial_timeout: 0.5s\n", "", "dial_timeout"},
		"milliseconds":                       {"read_timeout: 0.5s", "read_timeout: 500ms", "500ms"},
		"an unknown key is ignored":          {"dial_timeout: 0.5s", "dial_timeout: 0.5s\n    dail_timeout: 500ms", "ping failed"},
		"max_active_conns below 10 together": {"max_active_conns: 50", "max_active_conns: 9\n    min_idle_conns: 2", "ping failed"},
	} {
		t.Run(name, func(t *testing.T) {
			// Nobody listens on port 1: what is not refused gets as far as the ping.
			changed := addrsLine.ReplaceAllString(strings.Replace(doc, c.old, c.new, 1), `${1}["127.0.0.1:1"]`)
			if !strings.Contains(changed, c.new) || strings.Contains(changed, c.old+"\n") && c.new == "" {
				t.Fatalf("not replaced: %q", c.old)
			}
			if _, err := bootYAML(t, changed); err == nil || !strings.Contains(err.Error(), c.err) {
				t.Fatalf("the app: %v", err)
			}
		})
	}
}

// TestLynxAppHoldsItsLockOverAFailover kills the primary just before a renewal is
// due, so that the renewal itself has to find the new one.
func TestLynxAppHoldsItsLockOverAFailover(t *testing.T) {
	dialsEnd(t)
	const key = "example:failover"
	examples := readExamples(t)
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		sentinel := redistest.StartSentinel(t)
		holdOver(t, key, examples["sentinel"].at(t, sentinel.Addrs()...), sentinel.Client(t), func() func() time.Duration {
			old := sentinel.KillPrimary(t)
			return func() time.Duration { return sentinel.AwaitFailover(t, old) }
		})
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		cluster := redistest.StartCluster(t)
		holdOver(t, key, examples["cluster"].at(t, cluster.Addrs()...), cluster.Client(t), func() func() time.Duration {
			old := cluster.KillPrimaryFor(t, ownerKey(key))
			return func() time.Duration { return cluster.AwaitFailover(t, ownerKey(key), old) }
		})
	})
}

// holdOver has a holder lose its primary; kill returns what waits for the successor.
func holdOver(t *testing.T, key, doc string, control redis.UniversalClient, kill func() func() time.Duration) {
	t.Helper()
	const lease, margin = 15 * time.Second, 152 * time.Millisecond // 1 % and 2 ms
	app := bootYAMLOK(t, doc)
	lock, err := published(t, app, "redis.distributed.lock").NewLock(t.Context(), key, redislock.LockOptions{
		Expiration: lease, RenewalEnabled: true, RenewalThreshold: 0.5,
	})
	must(t, "NewLock", err)
	must(t, "Acquire", lock.Acquire(t.Context()))
	for lock.GetRemainingTime() > lease/2+200*time.Millisecond {
		time.Sleep(20 * time.Millisecond)
	}
	successor := kill()
	killed := time.Now()
	took := successor()
	// What was sent after the kill and answered moves the deadline beyond this.
	for !lock.GetExpiresAt().After(killed.Add(lease - margin)) {
		select {
		case <-lock.Done():
			t.Fatalf("the failover took %v, and %v after the kill: %v", took, time.Since(killed), lock.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
	t.Logf("the failover took %v, the renewal was answered %v after the kill", took, time.Since(killed))
	must(t, "Err", lock.Err())
	owner, err := control.Get(t.Context(), ownerKey(key)).Result()
	if err != nil || owner != lock.GetValue() {
		t.Fatalf("the new primary has the owner %q of %q, %v", owner, lock.GetValue(), err)
	}
	must(t, "Release", lock.Release(t.Context()))
	if n, err := control.Exists(t.Context(), ownerKey(key)).Result(); n != 0 || err != nil {
		t.Fatalf("after the release %d owners, %v", n, err)
	}
	closeApp(t, app)
}
