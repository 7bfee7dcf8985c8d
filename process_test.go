package redislock_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// roleEnv makes this test binary another process of a test: TestMain then plays
// the role instead of running tests.
const roleEnv = "REDISLOCK_TEST_ROLE"

// roles are those processes, each with the address of its server.
var roles = map[string]func(addr string){
	"holder":       holderRole,
	"brief holder": briefHolderRole,
	"waiter":       waiterRole,
	"workers":      workersRole,
}

// process is a process that a test has started. It says lines, and ends with its
// standard input or with the test.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan string // closed when it ends
}

// startRole starts this binary in a role.
func startRole(t *testing.T, role, addr string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0], addr), lines: make(chan string, 1000)}
	p.cmd.Env = append(os.Environ(), roleEnv+"="+role)
	p.cmd.Stderr = os.Stderr
	stdout, err := p.cmd.StdoutPipe()
	must(t, "the process's output", err)
	p.stdin, err = p.cmd.StdinPipe()
	must(t, "the process's input", err)
	must(t, "starting the process", p.cmd.Start())
	ended := make(chan struct{})
	go func() { // ends with the process
		defer close(ended)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			p.lines <- lines.Text()
		}
		close(p.lines)
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		for range p.lines { // so that the reader is not stuck
		}
		<-ended
	})
	return p
}

// says waits for the next line.
func (p *process) says(t *testing.T, what string) string {
	t.Helper()
	select {
	case line, ok := <-p.lines:
		if !ok {
			t.Fatalf("%s: the process has ended", what)
		}
		return line
	case <-time.After(patience):
		t.Fatalf("%s: the process says nothing", what)
	}
	return ""
}

// signal returns when a SIGSTOP has stopped the process.
func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	must(t, s.String(), p.cmd.Process.Signal(s))
	if s == syscall.SIGSTOP {
		must(t, "the stop", redistest.AwaitStopped(p.cmd.Process.Pid, nil))
	}
}
