//go:build !linux

package redistest

import "syscall"

// dieWithParent: only Linux has a parent-death signal. Elsewhere a killed test
// binary leaves its servers running.
func dieWithParent() *syscall.SysProcAttr { return nil }

// AwaitStopped cannot tell elsewhere than on Linux.
func AwaitStopped(int, <-chan struct{}) error { return nil }
