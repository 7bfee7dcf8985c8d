package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// event is one line of go test -json (go doc test2json); build output names its
// package in ImportPath.
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
	Elapsed    float64 // seconds
}

// test is one run of one test.
type test struct {
	name   string
	result string // pass, fail or skip; empty while it runs
	took   float64
	output []string
}

// pkg is a package whose tests are running.
type pkg struct {
	tests  []*test
	latest map[string]*test // by name; -count runs a name more than once
	output []string
}

// backends in the order of the report. A test belongs to one if a path element
// of its name is the backend's name: TestContract/standalone/….
var backends = []string{"miniredis", "standalone", "sentinel", "cluster", "tls"}

type tally struct {
	out                     io.Writer
	rows                    bool // print a line per test
	running                 map[string]*pkg
	passed, failed, skipped int
	perBackend              map[string]int
	packageFailed           bool
}

func newTally(out io.Writer) *tally {
	return &tally{out: out, running: map[string]*pkg{}, perBackend: map[string]int{}}
}

// read consumes the stream and prints, as it comes, the result line of each
// package and everything that a failed or skipped test said.
func (t *tally) read(r io.Reader) error {
	br := bufio.NewReader(r) // not a Scanner: a line has no longest length
	for {
		line, err := br.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) == nil {
				t.add(e)
			} else {
				t.print(line) // go test itself, outside of any package
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (t *tally) add(e event) {
	switch e.Action {
	case "build-output":
		t.print(e.Output)
		return
	case "build-fail":
		t.packageFailed = true
		return
	}
	p := t.running[e.Package]
	if p == nil {
		p = &pkg{latest: map[string]*test{}}
		t.running[e.Package] = p
	}
	if e.Test == "" {
		t.addToPackage(p, e)
	} else {
		t.addToTest(p, e)
	}
}

func (t *tally) addToTest(p *pkg, e event) {
	this := p.latest[e.Test]
	if this == nil || (e.Action == "run" && this.result != "") {
		this = &test{name: e.Test}
		p.latest[e.Test] = this
		p.tests = append(p.tests, this)
	}
	switch e.Action {
	case "output":
		this.output = append(this.output, e.Output)
	case "pass", "fail", "skip":
		this.result, this.took = e.Action, e.Elapsed
		if e.Action != "pass" || slices.ContainsFunc(this.output, isRace) {
			t.print(this.output...)
		}
		this.output = nil
	}
}

// isRace is where the report of a data race begins. It is printed while some test ran,
// which may have passed; the tests that raced say no more than that they did.
func isRace(line string) bool { return strings.HasPrefix(line, "WARNING: DATA RACE") }

func (t *tally) addToPackage(p *pkg, e event) {
	switch e.Action {
	case "output":
		p.output = append(p.output, e.Output)
	case "pass", "skip": // skip: it has no test files
		for _, line := range p.output {
			if strings.HasPrefix(line, "ok ") || strings.HasPrefix(line, "? ") {
				t.print(line)
			}
		}
		t.close(e.Package)
	case "fail":
		t.packageFailed = true
		t.close(e.Package)
		t.print(p.output...)
	}
}

// close counts a package that ended. A test without a result was running when
// the binary died, from a panic or the timeout, and counts as failed.
func (t *tally) close(name string) {
	p := t.running[name]
	delete(t.running, name)
	for _, this := range p.tests {
		if this.result == "" {
			this.result = "fail"
			t.print(this.output...)
		}
	}
	for _, this := range p.tests {
		if !p.isGroup(this) {
			t.count(this)
		}
	}
}

// isGroup says that a test only holds subtests, which are counted in its place.
// One that says more than they do, a failure or a skip of its own, is counted.
func (p *pkg) isGroup(this *test) bool {
	group := false
	for _, other := range p.tests {
		if strings.HasPrefix(other.name, this.name+"/") {
			group = true
			if other.result == this.result {
				return true
			}
		}
	}
	return group && this.result == "pass"
}

func (t *tally) count(this *test) {
	on := this.backend()
	if t.rows {
		t.print(fmt.Sprintf("row %-7s %-10s %6.1f s  %s\n", this.result, on, this.took, this.name))
	}
	switch this.result {
	case "skip":
		t.skipped++
		return
	case "fail":
		t.failed++
	default:
		t.passed++
	}
	t.perBackend[on]++
}

// backend is the one that the test belongs to; "-": none.
func (one *test) backend() string {
	elements := strings.Split(one.name, "/")
	for _, b := range backends {
		if slices.Contains(elements, b) {
			return b
		}
	}
	return "-"
}

// report prints the totals, last of all the line that is read by machines, and
// says whether the run counts as a success.
func (t *tally) report(readErr, waitErr error) bool {
	for name := range t.running { // its end was never reported
		t.packageFailed = true
		t.close(name)
	}
	for _, b := range backends {
		fmt.Fprintf(t.out, "backend %s: %d tests\n", b, t.perBackend[b])
	}
	ok := true
	for _, check := range []struct {
		bad bool
		why string
	}{
		{readErr != nil, fmt.Sprint("reading its output: ", readErr)},
		{waitErr != nil, fmt.Sprint("go test: ", waitErr)},
		{t.packageFailed, "a package failed or did not build"},
		{t.failed > 0, "a test failed"},
		{t.skipped > 0, "a test was skipped"},
		{t.passed == 0, "no test passed"},
	} {
		if check.bad {
			ok = false
			fmt.Fprintln(t.out, "testcount: not a success:", check.why)
		}
	}
	fmt.Fprintf(t.out, "%d passed, %d failed, %d skipped\n", t.passed, t.failed, t.skipped)
	return ok
}

func (t *tally) print(lines ...string) {
	for _, line := range lines {
		fmt.Fprint(t.out, line)
	}
}
