package redistest_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// onAThreadThatEnds runs f on a thread that Go ends right after, as it does when
// a goroutine exits while locked to one. It returns the thread's id.
func onAThreadThatEnds(f func()) int {
	id := make(chan int)
	go func() {
		runtime.LockOSThread()
		if syscall.Gettid() == syscall.Getpid() { // Go never ends the main thread
			id <- onAThreadThatEnds(f)
			runtime.UnlockOSThread()
			return
		}
		f()
		id <- syscall.Gettid()
	}()
	return <-id
}

// The parent-death signal is about the thread that started the child.
func TestTheServerOutlivesTheThreadThatCalledStart(t *testing.T) {
	t.Parallel()
	var s *redistest.Server
	thread := onAThreadThatEnds(func() { s = redistest.Start(t) })
	eventually(t, "the thread ends", func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", thread))
		return err != nil
	})
	if err := s.Client(t, oneTry).Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
}

// TestAKilledTestBinaryLeavesNoServer runs itself a second time as the victim.
func TestAKilledTestBinaryLeavesNoServer(t *testing.T) {
	const victim = "REDISTEST_VICTIM"
	if file := os.Getenv(victim); file != "" {
		sentinel := redistest.StartSentinel(t)
		addrs := append(sentinel.Addrs(), redistest.StartCluster(t).Addrs()...)
		for _, s := range sentinel.Servers() {
			addrs = append(addrs, s.Addr())
		}
		addrs = append(addrs, redistest.Start(t).Addr(), redistest.StartTLS(t).Addr())
		if err := os.WriteFile(file, []byte(strings.Join(addrs, " ")), 0o600); err != nil {
			t.Fatal(err)
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	t.Parallel()
	// The victim cannot clean up, so its files go where this test does. Not
	// t.TempDir, whose path is too long for a socket.
	dir, err := os.MkdirTemp("", "victim")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "addrs")
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), victim+"="+file, "TMPDIR="+dir)
	out, err := cmd.CombinedOutput()
	text, readErr := os.ReadFile(file)
	if readErr != nil {
		t.Fatalf("the victim started no server: %v, %v\n%s", readErr, err, out)
	}
	addrs := strings.Fields(string(text))
	if len(addrs) != 14 {
		t.Errorf("the victim started %d servers, want 6 for Sentinel, 6 for the Cluster and 2", len(addrs))
	}
	for _, addr := range addrs {
		eventually(t, addr+" of the killed test binary is gone", func() bool { return refuses(addr) })
	}
}
