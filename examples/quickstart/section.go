package main

import "sync/atomic"

// section is what the lock protects: a value that is read, worked with and written
// back, so that two workers at once lose an update. (Each access is atomic, which
// keeps the race detector out of it; the update as a whole is not.)
type section struct {
	inside   atomic.Int64
	value    atomic.Int64
	overlaps atomic.Int64 // somebody came in while another was inside
}

// pass goes through the section once and does work in it.
func (s *section) pass(work func()) {
	if s.inside.Add(1) > 1 {
		s.overlaps.Add(1)
	}
	defer s.inside.Add(-1)
	read := s.value.Load()
	work()
	s.value.Store(read + 1)
}
