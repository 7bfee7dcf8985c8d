package workload

import (
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Shared is what all who use one lock write down while they hold it. It may lie in a
// file that several processes have mapped: it is atomics only.
type Shared struct {
	inside   atomic.Int64 // holders right now
	overlaps atomic.Int64 // times that there were two
	holder   atomic.Int64 // the last holder, workers counted from 1
	released atomic.Int64 // when its release began, by the wall clock in ns
	turns    atomic.Int64 // acquisitions so far
}

const sharedSize = int(unsafe.Sizeof(Shared{}))

// MapShared maps the Shared in a file, which it makes as large as needed.
func MapShared(path string) (*Shared, func(), error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close() // the mapping stays
	if err := f.Truncate(int64(sharedSize)); err != nil {
		return nil, nil, err
	}
	mem, err := syscall.Mmap(int(f.Fd()), 0, sharedSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, nil, err
	}
	return (*Shared)(unsafe.Pointer(&mem[0])), func() { _ = syscall.Munmap(mem) }, nil
}

// enter notes that worker has the lock. Came says how long after the beginning of
// another's release that was, and is negative when the last holder was the same or
// there was none.
func (s *Shared) enter(worker int64) (turn int64, came time.Duration) {
	now := time.Now().UnixNano()
	if s.inside.Add(1) != 1 {
		s.overlaps.Add(1)
	}
	came = -1
	if last, at := s.holder.Swap(worker), s.released.Load(); last != 0 && last != worker {
		came = time.Duration(max(now-at, 0))
	}
	return s.turns.Add(1), came
}

// leave notes that the release begins.
func (s *Shared) leave() {
	s.released.Store(time.Now().UnixNano())
	s.inside.Add(-1)
}
