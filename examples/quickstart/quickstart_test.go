package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// None of these tests is parallel: the callback and the metrics are the process's.

const okLine = "ok: 28 acquisitions, 0 overlaps, 1 loss noticed, 1 stale write refused"

// play runs the program in this process and gives what it printed.
func play(t *testing.T, cfg config) (string, error) {
	t.Helper()
	if cfg.metrics == "" {
		cfg.metrics = "127.0.0.1:0"
	}
	var out bytes.Buffer
	start := time.Now()
	err := run(t.Context(), cfg, &out)
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it ran for %s", took)
	}
	t.Logf("it printed:\n%s", out.String())
	return out.String(), err
}

func lastLine(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return lines[len(lines)-1]
}

// wantDifferences checks that a broken run names each of the differences.
func wantDifferences(t *testing.T, out string, err error, names ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("the broken run says that all went well")
	}
	t.Logf("it ended with: %v", err)
	for _, name := range names {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("the error does not name %q: %v", name, err)
		}
	}
	if strings.Contains(out, "ok:") {
		t.Error("the broken run prints ok")
	}
}

func TestAllGoesWellOnTheEmbeddedRedis(t *testing.T) {
	out, err := play(t, config{})
	if err != nil {
		t.Fatal(err)
	}
	if got := lastLine(out); got != okLine {
		t.Errorf("the last line is %q, want %q", got, okLine)
	}
}

func TestAllGoesWellOnARealServerAndNothingIsLeftThere(t *testing.T) {
	server := redistest.Start(t)
	out, err := play(t, config{redis: []string{server.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	if got := lastLine(out); got != okLine {
		t.Errorf("the last line is %q, want %q", got, okLine)
	}
	keys, err := server.Client(t).Keys(t.Context(), "*").Result()
	if err != nil || len(keys) > 0 {
		t.Errorf("keys after the run: %q, %v", keys, err)
	}
}

func TestARedisThatForgetsItsLocksIsNoticed(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	flush := func() {
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Error(err)
		}
		time.Sleep(400 * time.Millisecond) // others poll within 150 ms and come in
	}
	out, err := play(t, config{redis: []string{server.Addr()}, disturb: flush})
	wantDifferences(t, out, err, "overlaps: ", "losses noticed: ", "the value behind the lock: ")
}

// open is a fence that lets everything pass.
type open struct{}

func (open) write(int64, string) error { return nil }

func TestAFenceThatLetsEverythingPassIsNoticed(t *testing.T) {
	out, err := play(t, config{fence: open{}})
	wantDifferences(t, out, err, "stale writes refused: 0, expected 1")
	if strings.Contains(err.Error(), ";") {
		t.Errorf("more than the fence differs: %v", err)
	}
}

func TestAnInterruptedRunSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	start := time.Now()
	var out bytes.Buffer
	err := run(ctx, config{metrics: "127.0.0.1:0", disturb: cancel}, &out)
	wantDifferences(t, out.String(), err, context.Canceled.Error(), "acquisitions: ")
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it went on for %s", took)
	}
}

func TestARedisThatIsNotThereEndsTheRun(t *testing.T) {
	server := redistest.Start(t)
	server.Stop()
	if _, err := play(t, config{redis: []string{server.Addr()}}); err == nil {
		t.Fatal("it ran without Redis")
	}
}

func TestTheCommandLine(t *testing.T) {
	cfg, err := parse([]string{"-redis", "a:1,b:2", "-metrics", "127.0.0.1:9"}, io.Discard)
	if err != nil || !slices.Equal(cfg.redis, []string{"a:1", "b:2"}) || cfg.metrics != "127.0.0.1:9" {
		t.Errorf("parsed %+v, %v", cfg, err)
	}
	var help bytes.Buffer
	if _, err := parse([]string{"-h"}, &help); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h gives %v", err)
	}
	for _, name := range []string{"-redis", "-metrics"} {
		if !strings.Contains(help.String(), name) {
			t.Errorf("-h does not explain %s:\n%s", name, help.String())
		}
	}
	if _, err := parse([]string{"surplus"}, io.Discard); err == nil {
		t.Error("a surplus argument was accepted")
	}
}

// build compiles the program as a user does.
func build(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "quickstart")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

func TestTheBinary(t *testing.T) {
	bin := build(t)
	t.Run("runs twice at once on one server", func(t *testing.T) { runTwice(t, bin) })
	t.Run("fails when Redis forgets its locks", func(t *testing.T) { runFlushed(t, bin) })
}

func runTwice(t *testing.T, bin string) {
	server := redistest.Start(t)
	var runs [2]*exec.Cmd
	var outs [2]bytes.Buffer
	start := time.Now()
	for i := range runs {
		runs[i] = exec.CommandContext(t.Context(), bin, "-redis", server.Addr())
		runs[i].Stdout = &outs[i]
		if err := runs[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range runs {
		if err := runs[i].Wait(); err != nil {
			t.Errorf("run %d: %v", i, err)
		}
		if got := lastLine(outs[i].String()); got != okLine {
			t.Errorf("run %d ends with %q, want %q", i, got, okLine)
		}
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("they ran for %s", took)
	}
}

func runFlushed(t *testing.T, bin string) {
	server := redistest.Start(t)
	client := server.Client(t)
	program := exec.CommandContext(t.Context(), bin, "-redis", server.Addr())
	var stderr bytes.Buffer
	program.Stderr = &stderr
	stdout, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	flushed := 0
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if strings.Contains(lines.Text(), "long section   acquired") {
			flushed++
			if err := client.FlushAll(t.Context()).Err(); err != nil {
				t.Error(err)
			}
		}
	}
	var exit *exec.ExitError
	if err := program.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("it ended with %v, want exit code 1", err)
	}
	if flushed != 1 {
		t.Errorf("Redis was emptied %d times, want once", flushed)
	}
	t.Logf("it said:\n%s", stderr.String())
	if !strings.Contains(stderr.String(), "not as planned: ") || !strings.Contains(stderr.String(), "long section: ") {
		t.Errorf("it does not say what differed:\n%s", stderr.String())
	}
}
