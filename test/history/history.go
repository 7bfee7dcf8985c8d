// Package history is what the processes of a run have done and believed, and what
// was done to them: one line of JSON each, on one clock.
package history

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// What an operation does.
const (
	Acquire = "acquire" // a new hold; which of the three calls made it is in Via
	Reenter = "reenter"
	Renew   = "renew"
	Release = "release" // of one level; Via "unlock": by UnlockByValue
	Write   = "write"   // to the fenced register
	Inspect = "inspect" // the owner key is read past the proxy
)

// How an operation ended.
const (
	OK      = "ok"
	Refused = "refused" // another holds the lock; the register: a newer token was seen
	Lost    = "lost"    // the hold is over, definitely
	Unknown = "unknown" // it may have happened, or may still happen
)

// Op is one call, from before it was made until after it returned.
type Op struct {
	Process string `json:"process"`
	Thread  int    `json:"thread"`
	Key     string `json:"key"`
	Do      string `json:"do"`
	Via     string `json:"via,omitempty"`
	Result  string `json:"result"`
	Call    int64  `json:"call"` // ns, see Now
	Return  int64  `json:"return"`
	Hold    string `json:"hold,omitempty"`  // the hold it made or belongs to
	Value   string `json:"value,omitempty"` // owner value: of a new hold, or found by Inspect
	Token   int64  `json:"token,omitempty"`
	Depth   int    `json:"depth,omitempty"` // as the caller counts, after the call
	Held    bool   `json:"held,omitempty"`  // the lock says so after the call
	Until   int64  `json:"until,omitempty"` // and trusts itself up to here
	Lease   int64  `json:"lease,omitempty"` // asked for, ns
	Seq     int64  `json:"seq,omitempty"`   // order of the register's writes
	Highest int64  `json:"highest,omitempty"`
	Error   string `json:"error,omitempty"`
}

// Why a belief ended.
const (
	Released = "released" // its last release was sent
	Expired  = "expired"  // its own deadline
	Gone     = "gone"     // it was told that Redis has no such owner any more
)

// Belief is one hold, as its holder saw it: valid from the reply to the acquire until
// the earliest of its deadline, the send of its last release, and the news of its loss.
type Belief struct {
	Process string `json:"process"`
	Key     string `json:"key"`
	Hold    string `json:"hold"`
	Token   int64  `json:"token"`
	Clock   bool   `json:"clock,omitempty"` // TokenClock
	Call    int64  `json:"call"`            // of the acquire
	From    int64  `json:"from"`
	To      int64  `json:"to"`
	Why     string `json:"why"`
	News    int64  `json:"news,omitempty"` // Gone: when Redis's answer said so; a release was sent before
	Seen    int64  `json:"seen"`           // the last look at the lock that read "valid" began here
	Told    int64  `json:"told,omitempty"` // when Done was seen closed
	Lease   int64  `json:"lease"`          // the longest it had, ns
}

// Does an event lose what Redis has answered?
const (
	Keeps = ""     // no
	Last  = "last" // at most what was answered in the last moments before it
	Some  = "some" // some of it
	All   = "all"  // all of it
)

// Event is something the nemesis did.
type Event struct {
	Kind  string `json:"kind"`
	On    string `json:"on,omitempty"` // a process of the run, or a server
	Start int64  `json:"start"`
	End   int64  `json:"end"`
	Loses string `json:"loses,omitempty"`
	Note  string `json:"note,omitempty"`
}

// Line is one line of a file.
type Line struct {
	Op     *Op     `json:"op,omitempty"`
	Belief *Belief `json:"belief,omitempty"`
	Event  *Event  `json:"event,omitempty"`
	Owned  string  `json:"owned,omitempty"` // an owner key that stood long after the end
	End    string  `json:"end,omitempty"`   // a process has written all it had to say
}

// Writer appends lines to a file. Each is written at once, so that what is in the
// file survives the process.
type Writer struct {
	mu   sync.Mutex // guards file
	file *os.File
}

// Create opens a new file.
func Create(name string) (*Writer, error) {
	f, err := os.Create(name)
	return &Writer{file: f}, err
}

// Put writes one line. A history with a hole proves nothing, so it panics when it cannot.
func (w *Writer) Put(line Line) {
	raw, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.file.Write(append(raw, '\n')); err != nil {
		panic(err)
	}
}

// Close ends the file.
func (w *Writer) Close() error { return w.file.Close() }

// History is a whole run, in the order of the calls.
type History struct {
	Ops     []Op
	Beliefs []Belief
	Events  []Event
	Owned   []string
	Ended   []string // the processes that came to their end
}

// Read reads the files of a run.
func Read(files ...string) (*History, error) {
	h := &History{}
	for _, name := range files {
		if err := h.add(name); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	slices.SortStableFunc(h.Ops, func(a, b Op) int { return cmp.Compare(a.Call, b.Call) })
	slices.SortStableFunc(h.Beliefs, func(a, b Belief) int { return cmp.Compare(a.Call, b.Call) })
	slices.SortStableFunc(h.Events, func(a, b Event) int { return cmp.Compare(a.Start, b.Start) })
	return h, nil
}

func (h *History) add(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for d := json.NewDecoder(bufio.NewReader(f)); ; {
		var line Line
		switch err := d.Decode(&line); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case line.Op != nil:
			h.Ops = append(h.Ops, *line.Op)
		case line.Belief != nil:
			h.Beliefs = append(h.Beliefs, *line.Belief)
		case line.Event != nil:
			h.Events = append(h.Events, *line.Event)
		case line.Owned != "":
			h.Owned = append(h.Owned, line.Owned)
		case line.End != "":
			h.Ended = append(h.Ended, line.End)
		}
	}
}

// calibrated ties Go's monotonic reading to the machine's, once: on Linux both are
// CLOCK_MONOTONIC, Go's counted from the start of the process.
var calibrated = sync.OnceValues(func() (time.Time, int64) {
	for {
		before := machine()
		now := time.Now()
		if after := machine(); after-before < int64(5*time.Microsecond) {
			return now, after
		}
	}
})

// At is a moment on the clock that all processes of the machine share, in ns. It is
// late by at most 5 µs, for every moment of a process by the same amount.
func At(t time.Time) int64 {
	base, ns := calibrated()
	return ns + int64(t.Sub(base))
}

// Now is this moment on that clock.
func Now() int64 { return At(time.Now()) }
