package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// count runs go test on a module of this one test file and returns what
// testcount printed and its exit code.
func count(t *testing.T, source string, args ...string) (string, int) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module sample\n\ngo 1.26\n")
	write("sample_test.go", source)
	t.Chdir(dir)
	var out bytes.Buffer
	code := run(&out, append(args, "./..."))
	return out.String(), code
}

func lastLine(out string) string {
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	return lines[len(lines)-1]
}

const header = "package sample\n\nimport \"testing\"\n\n"

const green = header + `
func TestContract(t *testing.T) {
	for _, backend := range []string{"miniredis", "standalone", "standalone2"} {
		t.Run(backend, func(t *testing.T) {
			t.Run("a", func(t *testing.T) { t.Log("chatter") })
			t.Run("b", func(t *testing.T) {})
		})
	}
}
func TestAlone(t *testing.T) {}
func TestAloneAgain(t *testing.T) {}
`

func TestRowsNameTheTestItsBackendAndWhetherItPassed(t *testing.T) {
	out, code := count(t, green, "-rows")
	if code != 0 {
		t.Errorf("exit code %d and\n%s", code, out)
	}
	for _, want := range []string{
		`(?m)^row pass +standalone +\d+\.\d s  TestContract/standalone/a$`,
		`(?m)^row pass +- +\d+\.\d s  TestAlone$`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if n := strings.Count(out, "row "); n != 8 {
		t.Errorf("%d rows in\n%s", n, out)
	}
}

func TestRunsAreCountedByTheirLeavesAndByBackend(t *testing.T) {
	out, code := count(t, green)
	if code != 0 || lastLine(out) != "8 passed, 0 failed, 0 skipped" {
		t.Errorf("exit code %d and\n%s", code, out)
	}
	for _, want := range []string{"ok  \tsample", "backend miniredis: 2 tests\n", "backend standalone: 2 tests\n", "backend tls: 0 tests\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "chatter") {
		t.Errorf("a passed test is not silent:\n%s", out)
	}
}

func TestEachRunOfARepeatedTestCounts(t *testing.T) {
	if out, code := count(t, green, "-count=3"); code != 0 || lastLine(out) != "24 passed, 0 failed, 0 skipped" {
		t.Errorf("exit code %d and\n%s", code, out)
	}
}

func TestWhatIsNotASuccessSaysSoInItsExitCode(t *testing.T) {
	for name, tc := range map[string]struct{ source, last, shows string }{
		"failed subtest": {
			header + `func TestA(t *testing.T) { t.Run("x", func(t *testing.T) { t.Error("boom") }); t.Run("y", func(*testing.T) {}) }`,
			"1 passed, 1 failed, 0 skipped", "boom",
		},
		"parent that fails by itself": {
			header + `func TestA(t *testing.T) { t.Run("x", func(*testing.T) {}); t.Error("boom") }`,
			"1 passed, 1 failed, 0 skipped", "boom",
		},
		"skipped": {
			header + "func TestA(t *testing.T) { t.Skip(\"no server\") }\nfunc TestB(t *testing.T) {}",
			"1 passed, 0 failed, 1 skipped", "no server",
		},
		"skipped after its subtests": {
			header + `func TestA(t *testing.T) { t.Run("x", func(*testing.T) {}); t.Skip("no server") }`,
			"1 passed, 0 failed, 1 skipped", "no server",
		},
		"no test": {
			header + "func helper(*testing.T) {}",
			"0 passed, 0 failed, 0 skipped", "no test passed",
		},
		"does not build": {
			header + "func TestA(t *testing.T) { undefined() }",
			"0 passed, 0 failed, 0 skipped", "undefined: undefined",
		},
		"panic": {
			header + "func TestA(t *testing.T) {}\nfunc TestB(t *testing.T) { panic(\"boom\") }",
			"1 passed, 1 failed, 0 skipped", "boom",
		},
		"exits in the middle of a test": {
			"package sample\n\nimport (\n\"os\"\n\"testing\"\n)\nfunc TestA(*testing.T) { os.Exit(3) }",
			"0 passed, 1 failed, 0 skipped", "a test failed",
		},
		"only the package fails": {
			"package sample\n\nimport (\n\"os\"\n\"testing\"\n)\nfunc TestMain(m *testing.M) { m.Run(); println(\"leak\"); os.Exit(1) }\nfunc TestA(*testing.T) {}",
			"1 passed, 0 failed, 0 skipped", "leak",
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, code := count(t, tc.source)
			if code == 0 || lastLine(out) != tc.last || !strings.Contains(out, tc.shows) {
				t.Errorf("exit code %d, want the last line %q, and %q in\n%s", code, tc.last, tc.shows, out)
			}
		})
	}
}

func TestATestThatTimesOutIsAFailure(t *testing.T) {
	out, code := count(t, header+"func TestA(t *testing.T) {}\nfunc TestB(t *testing.T) { t.Log(\"was here\"); select {} }", "-timeout=500ms")
	if code == 0 || lastLine(out) != "1 passed, 1 failed, 0 skipped" || !strings.Contains(out, "was here") {
		t.Errorf("exit code %d and\n%s", code, out)
	}
}

func TestTheExitCodeOfGoTestIsNotLost(t *testing.T) {
	out, code := count(t, green, "-no-such-flag")
	if code == 0 {
		t.Errorf("exit code 0 and\n%s", out)
	}
	var quiet bytes.Buffer
	tally := newTally(&quiet)
	tally.passed = 1
	if tally.report(nil, errors.New("exit status 1")) {
		t.Error("a run that only go test calls a failure is a success")
	}
}

// The race detector prints its report while any test runs, which may pass.
func TestTheReportOfADataRaceIsPrintedWhateverTestItIsIn(t *testing.T) {
	out, code := count(t, "package sample\n\nimport (\n\t\"fmt\"\n\t\"testing\"\n)\n"+`
func TestPasses(t *testing.T) { fmt.Println("WARNING: DATA RACE\nin this line") }
func TestFails(t *testing.T)  { t.Error("race detected during execution of test") }
`)
	if code == 0 || !strings.Contains(out, "in this line") {
		t.Errorf("exit code %d and\n%s", code, out)
	}
}
