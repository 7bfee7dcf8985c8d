package history

import (
	"syscall"
	"unsafe"
)

// clockMonotonic is CLOCK_MONOTONIC of <time.h>.
const clockMonotonic = 1

// machine is the monotonic clock of the machine, in ns: the only one that processes
// share and nobody can step. Package time shows it only as a difference.
func machine() int64 {
	var ts syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		panic(errno)
	}
	return ts.Nano()
}
