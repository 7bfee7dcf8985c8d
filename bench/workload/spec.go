// Package workload lets contestants do what programs do with locks, for a while, and
// writes down how it went: in this process, and in several of them.
package workload

import (
	"fmt"
	"time"
)

// Spec is one situation.
type Spec struct {
	Processes int // 0 or 1: this process
	Workers   int // goroutines in each
	Free      bool
	Hold      time.Duration
	// HandOver: who has released does not come back until another has had the lock.
	HandOver bool
	Window   time.Duration
	Rounds   int
}

// Name says what the situation is, without its length.
func (s Spec) Name() string {
	who := fmt.Sprintf("%d goroutines", s.Workers)
	if s.Workers == 1 {
		who = "1 goroutine"
	}
	if s.Processes > 1 {
		who = fmt.Sprintf("%d processes of %s", s.Processes, who)
	}
	switch {
	case s.Free:
		return "free locks, " + who
	case s.HandOver:
		return fmt.Sprintf("each acquisition a hand-over, hold %v, %s", s.Hold, who)
	default:
		return fmt.Sprintf("one hot lock, hold %v, %s", s.Hold, who)
	}
}

// Sample is one window of one contestant.
type Sample struct {
	Elapsed  time.Duration
	Counts   []int64         // acquisitions, by worker
	Waits    []time.Duration // of each acquisition; of a free lock, acquire and release
	Unserved time.Duration   // the longest wait of those whose wait the window's end cut off
	Handed   []time.Duration // from another's release to the acquisition
	Held     time.Duration   // all holds together: a sleep is longer than it was asked to be
	Overlaps int64           // double holds
	Failures int64
	Failure  string // the first

	Mallocs, Bytes   uint64
	CPU, ServerCPU   time.Duration
	OnWire, InScript float64 // commands
}

// Total is the number of acquisitions.
func (s *Sample) Total() int64 {
	var sum int64
	for _, c := range s.Counts {
		sum += c
	}
	return sum
}

// Rate is acquisitions a second.
func (s *Sample) Rate() float64 { return float64(s.Total()) / s.Elapsed.Seconds() }

// join adds what another process did at the same time.
func (s *Sample) join(other *Sample) {
	s.Elapsed = max(s.Elapsed, other.Elapsed)
	s.Counts = append(s.Counts, other.Counts...)
	s.Waits = append(s.Waits, other.Waits...)
	s.Handed = append(s.Handed, other.Handed...)
	s.Held += other.Held
	s.Unserved = max(s.Unserved, other.Unserved)
	s.Failures += other.Failures
	if s.Failure == "" {
		s.Failure = other.Failure
	}
	s.Mallocs += other.Mallocs
	s.Bytes += other.Bytes
	s.CPU += other.CPU
}
