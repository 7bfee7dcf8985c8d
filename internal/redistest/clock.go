package redistest

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

//go:embed testdata/clockshim.c
var clockShim []byte

// ClockServer is a server whose wall clock can be stepped.
type ClockServer struct {
	*Server
	file string
}

// StartWithClock runs a server as [Start] does, with a library preloaded that shifts
// its wall clock. It takes a C compiler, as the race detector does.
func StartWithClock(tb testing.TB, args ...string) *ClockServer {
	tb.Helper()
	s := newServer(tb, args)
	clock := &ClockServer{Server: s, file: filepath.Join(s.dir, "clock")}
	source, library := filepath.Join(s.dir, "clock.c"), filepath.Join(s.dir, "clock.so")
	if err := os.WriteFile(source, clockShim, 0o600); err != nil {
		tb.Fatalf("redistest: %v", err)
	}
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-o", library, source).CombinedOutput(); err != nil {
		tb.Fatalf("redistest: compiling the clock: %v\n%s", err, out)
	}
	clock.Step(tb, 0)
	s.env = []string{"LD_PRELOAD=" + library, "REDISTEST_CLOCK=" + clock.file}
	s.launch(tb)
	return clock
}

// Step sets the server's wall clock so far ahead of the machine's; negative: behind.
func (c *ClockServer) Step(tb testing.TB, ahead time.Duration) {
	tb.Helper()
	f, err := os.OpenFile(c.file, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		tb.Fatalf("redistest: %v", err)
	}
	defer f.Close()
	// Eight bytes at once: the server, which has them mapped, sees the old or the new.
	if _, err := f.Write(binary.NativeEndian.AppendUint64(nil, uint64(ahead))); err != nil {
		tb.Fatalf("redistest: %v", err)
	}
}
