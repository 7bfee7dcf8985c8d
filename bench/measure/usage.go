package measure

import (
	"runtime"
	"syscall"
	"time"
)

// Usage is what this process has used.
type Usage struct {
	CPU     time.Duration // user and system
	Mallocs uint64
	Bytes   uint64 // allocated in all
}

// Used reads the process's counters. It stops the world for a moment.
func Used() Usage {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return Usage{CPU: ownCPU(), Mallocs: mem.Mallocs, Bytes: mem.TotalAlloc}
}

// Since is what was used after before.
func (u Usage) Since(before Usage) Usage {
	return Usage{CPU: u.CPU - before.CPU, Mallocs: u.Mallocs - before.Mallocs, Bytes: u.Bytes - before.Bytes}
}

// Add is the sum of two processes.
func (u Usage) Add(other Usage) Usage {
	return Usage{CPU: u.CPU + other.CPU, Mallocs: u.Mallocs + other.Mallocs, Bytes: u.Bytes + other.Bytes}
}

func ownCPU() time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		panic("bench: getrusage: " + err.Error())
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// Live is the memory in use after a collection: heap and stacks.
func Live() (heap, stacks int64) {
	runtime.GC()
	runtime.GC() // what finalizers and pools let go of
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return int64(mem.HeapAlloc), int64(mem.StackInuse)
}
