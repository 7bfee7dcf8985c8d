package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// dieWithParent makes the kernel kill the child when the thread that started
// it ends, so that a test binary killed by a timeout leaves no server behind.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// AwaitStopped waits until every thread of the process is in state T. A signal is
// only queued when kill(2) returns; on a busy machine a thread may go on for a while.
// done is closed when the process has ended.
func AwaitStopped(pid int, done <-chan struct{}) error {
	deadline := time.Now().Add(startTimeout)
	for time.Now().Before(deadline) {
		stopped, err := stands(pid)
		if stopped || err != nil {
			return err
		}
		select {
		case <-done:
			return errors.New("redistest: the process ended")
		case <-time.After(pollInterval):
		}
	}
	return errors.New("redistest: the process did not stop on SIGSTOP")
}

// stands says whether all threads are stopped.
func stands(pid int) (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		return false, errors.Join(errors.New("redistest: no such process"), err)
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil {
			return false, nil //nolint:nilerr // that thread has ended: look again
		}
		// "tid (name) T …": the name may hold anything, so look after the last ')'.
		if i := bytes.LastIndexByte(stat, ')'); i < 0 || !bytes.HasPrefix(stat[i:], []byte(") T")) {
			return false, nil
		}
	}
	return true, nil
}
