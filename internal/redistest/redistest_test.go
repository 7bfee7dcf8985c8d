package redistest_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// eventually waits for a condition that must come true. The bound is only there
// to end a broken test.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

func refuses(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err == nil {
		_ = conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

func oneTry(o *redis.Options) { o.MaxRetries = -1 }

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestStartReturnsAServerThatAnswersAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	if err := s.Client(t, oneTry).Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestStartWaitsForAServerThatLoadsItsData(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024")
	c := s.Client(t, oneTry)
	for i := range 300 {
		// Random, so that it is not compressed: a loading server answers once per
		// so many bytes read.
		c.Set(t.Context(), fmt.Sprint(i), rand.Text()+rand.Text()+rand.Text()+rand.Text(), 0)
	}
	if err := c.Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	s.Restart(t)
	n, err := s.Client(t, oneTry).DBSize(t.Context()).Result()
	if err != nil || n != 300 {
		t.Fatalf("DBSIZE = %d, %v; want 300", n, err)
	}
}

func TestAServerThatWantsAPasswordIsReady(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--requirepass", "secret")
	if err := s.Client(t, oneTry).Ping(t.Context()).Err(); err == nil {
		t.Fatal("PING without the password was answered")
	}
	c := s.Client(t, oneTry, func(o *redis.Options) { o.Password = "secret" })
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestServersArePrivate(t *testing.T) {
	t.Parallel()
	a, b := redistest.Start(t), redistest.Start(t)
	if err := a.Client(t).Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := b.Client(t).Get(t.Context(), "k").Err(); !errors.Is(err, redis.Nil) {
		t.Fatalf("the other server has the key too: %v", err)
	}
}

func TestDebugCommandsAreAllowed(t *testing.T) {
	t.Parallel()
	if err := redistest.Start(t).Client(t).Do(t.Context(), "DEBUG", "SLEEP", "0").Err(); err != nil {
		t.Fatal(err)
	}
}

func TestRestartKeepsTheAddressAndWhatWasPersisted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		want error
	}{
		"nothing by default":      {nil, redis.Nil},
		"all with appendonly yes": {[]string{"--appendonly", "yes", "--appendfsync", "always"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, tc.args...)
			addr := s.Addr()
			if err := s.Client(t).Set(t.Context(), "k", "v", 0).Err(); err != nil {
				t.Fatal(err)
			}
			s.Restart(t)
			if s.Addr() != addr {
				t.Errorf("moved from %s to %s", addr, s.Addr())
			}
			if err := s.Client(t).Get(t.Context(), "k").Err(); !errors.Is(err, tc.want) {
				t.Errorf("GET after the restart: %v, want %v", err, tc.want)
			}
		})
	}
}

func TestStopMayBeCalledTwiceAndRestartFollowsIt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Stop()
	s.Stop()
	if !refuses(s.Addr()) {
		t.Fatal("the port is still open after Stop")
	}
	s.Restart(t)
	if err := s.Client(t, oneTry).Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestAPausedServerIsSilentUntilResume(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := s.Client(t, oneTry)
	c.Ping(t.Context())
	s.Pause()
	if err := c.Incr(within(t, 100*time.Millisecond), "n").Err(); err == nil {
		t.Fatal("a paused server answered")
	}
	s.Resume()
	eventually(t, "the command sent during the pause is carried out", func() bool {
		return s.Client(t).Get(t.Context(), "n").Val() == "1"
	})
}

func TestStopEndsAPausedServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Pause()
	s.Stop()
	if !refuses(s.Addr()) {
		t.Fatal("the port is still open after Stop")
	}
}

func TestTheServerEndsWithItsTestAndLeavesNoFiles(t *testing.T) {
	t.Parallel()
	var addr, dir string
	t.Run("inner", func(t *testing.T) {
		s := redistest.Start(t)
		addr, dir = s.Addr(), s.Client(t).ConfigGet(t.Context(), "dir").Val()["dir"]
	})
	if !refuses(addr) {
		t.Error("the server outlived its test")
	}
	if _, err := os.Stat(dir); dir == "" || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder %q outlived its test: %v", dir, err)
	}
}

// recorder is a testing.TB whose Fatal is seen instead of failing this test.
type recorder struct {
	testing.TB
	fatal string
}

func (r *recorder) Fatal(args ...any) { r.Fatalf("%s", fmt.Sprint(args...)) }

func (r *recorder) Fatalf(format string, args ...any) {
	r.fatal = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failsWith runs f and returns what it failed the test with.
func failsWith(t *testing.T, f func(testing.TB)) string {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	if r.fatal == "" {
		t.Error("it did not fail the test")
	}
	return r.fatal
}

func startFails(t *testing.T, args ...string) string {
	t.Helper()
	return failsWith(t, func(tb testing.TB) { redistest.Start(tb, args...) })
}

func TestAMissingServerFailsAndSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if got := startFails(t); !strings.Contains(got, "apt-get install redis-server") {
		t.Errorf("failed with %q", got)
	}
}

func TestAServerThatDoesNotStartFailsWithItsLog(t *testing.T) {
	t.Parallel()
	if got := startFails(t, "--no-such-option", "x"); !strings.Contains(got, "no-such-option") {
		t.Errorf("failed with %q", got)
	}
}

// fakeServer puts a redis-server of this shell script first on the PATH, with
// the real one as $REAL.
func fakeServer(t *testing.T, script string) {
	t.Helper()
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	body := fmt.Sprintf("#!/bin/sh\nREAL=%s\nHERE=%s\n%s\n", bin, dir, script)
	if err := os.WriteFile(filepath.Join(dir, "redis-server"), []byte(body), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestStartTriesAnotherPortWhenTheFirstIsTaken(t *testing.T) {
	fakeServer(t, `echo "$4" >>$HERE/ports
if [ $(wc -l <$HERE/ports) = 1 ]; then echo "bind: Address already in use"; exit 1; fi
exec $REAL "$@"`)
	s := redistest.Start(t)
	if err := s.Client(t, oneTry).Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	bin, _ := exec.LookPath("redis-server")
	ports, err := os.ReadFile(filepath.Join(filepath.Dir(bin), "ports"))
	if err != nil {
		t.Fatal(err)
	}
	if p := strings.Fields(string(ports)); len(p) != 2 || p[0] == p[1] {
		t.Errorf("tried the ports %v, want two different ones", p)
	}
}

// The port is opened by a stranger between the choice and the start.
func TestAStrangerOnThePortIsNotTakenForTheServer(t *testing.T) {
	fakeServer(t, `if [ ! -e $HERE/stranger ]; then
  timeout 60 $REAL --port "$4" --bind 127.0.0.1 --save "" --dir $HERE >$HERE/stranger & echo $! >$HERE/pid
  until grep -q "Ready to accept" $HERE/stranger; do sleep 0.01; done
fi
exec $REAL "$@"`)
	bin, _ := exec.LookPath("redis-server")
	t.Cleanup(func() {
		pid, _ := os.ReadFile(filepath.Join(filepath.Dir(bin), "pid"))
		if err := exec.Command("kill", strings.TrimSpace(string(pid))).Run(); err != nil {
			t.Errorf("ending the stranger: %v", err)
		}
	})
	c := redistest.Start(t).Client(t)
	if got := c.ConfigGet(t.Context(), "unixsocket").Val()["unixsocket"]; got == "" {
		t.Error("the server at the address is the stranger")
	}
}
