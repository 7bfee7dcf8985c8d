// Command mutants checks the checker: it breaks copies of the lock, one promise each,
// and fails when a broken one is not reported.
//
//	go run ./mutants [-run TEXT] [-seed N]
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

const (
	tries    = 5
	duration = "12s"
)

func main() {
	only := flag.String("run", "", "only mutants whose name has this text")
	seed := flag.Uint64("seed", 0, "of the first schedule; 0: a new one")
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64N(1 << 32)
	}
	fmt.Printf("seed %d\n", *seed)
	survived, ran := 0, 0
	for _, m := range mutants {
		if !strings.Contains(m.name, *only) {
			continue
		}
		ran++
		start := time.Now()
		how, err := m.caught(*seed)
		if err != nil {
			survived++
			how = "NOT REPORTED: " + err.Error()
		}
		fmt.Printf("%-68s %4.0fs  %s\n", m.name, time.Since(start).Seconds(), how)
	}
	if survived > 0 || ran == 0 {
		fmt.Printf("%d of %d mutants were not reported\n", survived, ran)
		os.Exit(1)
	}
	fmt.Printf("all %d mutants were reported\n", ran)
}

// caught builds the checker on a broken copy and runs it until it reports something.
func (m mutant) caught(seed uint64) (string, error) {
	dir, err := os.MkdirTemp("", "redislock-mutant-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := copyModule("..", dir); err != nil {
		return "", err
	}
	for _, p := range m.patches {
		if err := p.apply(dir); err != nil {
			return "", err
		}
	}
	build := exec.Command("go", "test", "-c", "-vet=off", "-trimpath", "-ldflags=-s -w", "-o", "checker", ".") // so that the cache serves all copies
	build.Dir = filepath.Join(dir, "test")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("it does not build: %w\n%s", err, out)
	}
	for n := range uint64(tries) {
		how, err := m.try(dir, seed+n)
		if how != "" || err != nil {
			return fmt.Sprintf("run %d: %s", n+1, how), err
		}
	}
	return "", fmt.Errorf("in %d runs of %s", tries, duration)
}

var reported = regexp.MustCompile(`(?m)^first violation, .*$`)

// try is one run; "": nothing was reported.
func (m mutant) try(dir string, seed uint64) (string, error) {
	run := exec.Command("./checker", "-test.run", "^TestHistories$", "-servers", "standalone", "-duration", duration,
		"-seed", fmt.Sprint(seed), "-moves", strings.Join(m.moves, ","), "-keep", "none")
	run.Dir = filepath.Join(dir, "test")
	out, err := run.CombinedOutput()
	var failed *exec.ExitError
	switch {
	case err == nil:
		return "", nil
	case !errors.As(err, &failed):
		return "", err
	}
	if how := reported.Find(out); how != nil {
		return string(how), nil
	}
	return "", fmt.Errorf("it failed otherwise:\n%s", out)
}

// apply fails when the text is not there exactly once: a patch that no longer fits
// must not pass for a mutant that was reported.
func (p patch) apply(dir string) error {
	name := filepath.Join(dir, p.file)
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if n := bytes.Count(text, []byte(p.old)); n != 1 {
		return fmt.Errorf("%s has %q %d times, want once", p.file, p.old, n)
	}
	return os.WriteFile(name, bytes.Replace(text, []byte(p.old), []byte(p.new), 1), 0o600)
}

// copyModule copies what the lock and its checker are built from.
func copyModule(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != "." && strings.HasPrefix(d.Name(), ".") {
				return fs.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		}
		switch filepath.Ext(name) {
		case ".go", ".mod", ".sum", ".lua", ".c":
		default:
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), text, 0o600)
	})
}
