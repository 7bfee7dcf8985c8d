package sqltest

import "syscall"

// dieWithParent makes the kernel end the server when the thread that started it ends,
// so that a test binary killed by a timeout leaves none behind.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
}
