package redislock_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// flat drops what formatting changes: indentation.
func flat(code string) string {
	lines := strings.Split(code, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestReadmeSnippetsAreExamplesThatRun(t *testing.T) {
	readme := readFile(t, "README.md")
	examples := strings.NewReplacer("locks.Lock(ctx", "redislock.Lock(ctx", "err = ", "err := ").Replace(flat(readFile(t, "example_test.go")))
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(readme, -1)
	if len(blocks) < 4 {
		t.Fatalf("%d Go snippets in the README", len(blocks))
	}
	for _, block := range blocks {
		code := flat(block[1])
		if strings.HasPrefix(code, "import") {
			continue // the examples import the package by its name
		}
		if !strings.Contains(examples, strings.ReplaceAll(code, "err = ", "err := ")) {
			t.Errorf("this snippet is in no example:\n%s", block[1])
		}
	}
}

func TestReadmeNamesEveryMetricAndSentinel(t *testing.T) {
	readme := readFile(t, "README.md")
	registry := prometheus.NewRegistry()
	redislock.InitMetrics(registry)
	descriptions := make(chan *prometheus.Desc, 100)
	registry.Describe(descriptions)
	close(descriptions)
	names := regexp.MustCompile(`fqName: "([a-z_]+)"`)
	found := 0
	for d := range descriptions {
		found++
		if name := names.FindStringSubmatch(d.String())[1]; !strings.Contains(readme, "`"+name+"`") {
			t.Errorf("metric %s is not in the README", name)
		}
	}
	if found != len(families) {
		t.Errorf("%d metrics", found)
	}
	for _, m := range regexp.MustCompile(`(Err[A-Z]\w+) += sentinel`).FindAllStringSubmatch(readFile(t, "errors.go"), -1) {
		if !strings.Contains(readme, "`"+m[1]+"`") {
			t.Errorf("sentinel %s is not in the README", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^\t([A-Z]\w+) +[\w.]+$`).FindAllStringSubmatch(partOf(t, readFile(t, "options.go"), "type LockOptions struct", "\n}"), -1) {
		if !strings.Contains(readme, "| `"+m[1]+"` |") {
			t.Errorf("option %s is not in the README", m[1])
		}
	}
}

func partOf(t *testing.T, text, from, to string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, from)
	if !ok {
		t.Fatalf("%q not found", from)
	}
	part, _, _ := strings.Cut(rest, to)
	return part
}

// TestDocumentsNameTestsThatExist: what VALIDATION and LIMITATIONS say was shown is shown
// by a test of that name; … stands for what is left out.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	must(t, "Glob", err)
	var sources strings.Builder
	for _, file := range files {
		sources.WriteString(strings.ReplaceAll(readFile(t, file), " ", "_"))
	}
	for _, document := range []string{"VALIDATION.md", "LIMITATIONS.md"} {
		names := regexp.MustCompile("`(Test\\w+)(/[^`]*)?`").FindAllStringSubmatch(readFile(t, document), -1)
		if len(names) < 10 {
			t.Errorf("%s names %d tests", document, len(names))
		}
		for _, name := range names {
			if !strings.Contains(sources.String(), "func_"+name[1]+"(t_*testing.T)") {
				t.Errorf("%s: there is no %s", document, name[1])
			}
			row := strings.ReplaceAll(name[2][strings.LastIndex(name[2], "/")+1:], " ", "_")
			row, _, _ = strings.Cut(row, "…")
			if len(row) > 0 && !strings.Contains(sources.String(), `"`+row) {
				t.Errorf("%s: no test has the row %s", document, row)
			}
		}
	}
}
