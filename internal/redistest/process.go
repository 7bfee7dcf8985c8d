package redistest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// process is one child that cannot outlive the test binary.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once the child is reaped

	// mu keeps a stop and a pause of the same child apart.
	mu sync.Mutex
}

// startProcess runs bin in dir, with env added to the environment, and appends its
// output to logFile. The log is a
// file, not a pipe: a pipe would keep Wait from returning for as long as a
// child that Redis forked holds its other end.
func startProcess(bin, dir, logFile string, args, env []string) (*process, error) {
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	defer out.Close() // the child has its own copy

	cmd := exec.Command(bin, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = dieWithParent()
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go p.run(started) // ends with the child; stop waits for it
	if err := <-started; err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	return p, nil
}

// run starts and reaps the child on one thread that lives as long as the child:
// the kernel sends the parent-death signal when the *thread* that started the
// child ends, not when the process does. Left to itself, Go would end that
// thread whenever a goroutine exits while locked to it, and with it the server
// in the middle of a test.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	_ = p.cmd.Wait() // "signal: killed" is the normal end
	close(p.done)
}

// stop kills the child and returns after it was reaped. SIGKILL because SIGTERM
// lets a primary wait up to 10 s for its replicas. It may be called twice.
func (p *process) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.cmd.Process.Kill() // an error means that it has ended already
	<-p.done
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// pause returns once the kernel has stopped the child, so that a command sent
// afterwards is certain to find it frozen.
func (p *process) pause() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return AwaitStopped(p.cmd.Process.Pid, p.done)
}

func (p *process) resume() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process.Signal(syscall.SIGCONT)
}
