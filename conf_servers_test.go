package redislock_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

var setUser = regexp.MustCompile(`(?m)^# +ACL SETUSER (\S+) on >(\S+) (.*)$`)

// allow makes the user that the document's comment tells to make, without a rule if
// that is named.
func (e example) allow(t *testing.T, server *redistest.Server, without string) {
	t.Helper()
	command := setUser.FindStringSubmatch(e.text)
	if command == nil || command[1] != e.redis.GetUsername() || command[2] != e.redis.GetPassword() {
		t.Fatalf("the document's comment makes no such user as its section needs: %q", command)
	}
	if want := strings.Join(slices.Concat(leastRules, wakeRules), " ") + " +ping +info"; command[3] != want {
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
