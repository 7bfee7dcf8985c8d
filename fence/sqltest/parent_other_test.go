//go:build !linux

package sqltest

import "syscall"

// dieWithParent: only Linux has a parent-death signal. Elsewhere a killed test binary
// leaves its server running.
func dieWithParent() *syscall.SysProcAttr { return new(syscall.SysProcAttr) }
