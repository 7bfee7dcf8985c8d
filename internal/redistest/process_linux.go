package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// dieWithParent makes the kernel kill the child when the thread that started
// it ends, so that a test binary killed by a timeout leaves no server behind.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// waitStopped waits until the process is in state T. A signal is only queued
// when kill(2) returns; the child may still be answering a command.
func waitStopped(pid int, done <-chan struct{}) error {
	deadline := time.Now().Add(startTimeout)
	for time.Now().Before(deadline) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return err
		}
		// "pid (name) T …": the name may hold anything, so look after the last ')'.
		if i := bytes.LastIndexByte(stat, ')'); i >= 0 && bytes.HasPrefix(stat[i:], []byte(") T")) {
			return nil
		}
		select {
		case <-done:
			return errors.New("redistest: the process ended")
		case <-time.After(pollInterval):
		}
	}
	return errors.New("redistest: the process did not stop on SIGSTOP")
}
