package bench

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lynx/lynx-redis-lock/bench/report"
	"github.com/go-lynx/lynx-redis-lock/bench/workload"
)

var (
	full    = flag.Bool("full", false, "measure, instead of trying that everything works")
	results = flag.String("results", "", "the file whose section is replaced by this run's tables; none: only print them")
	only    = flag.String("only", "", "only situations whose name has this in it")
)

// quiet keeps go-redis from logging the connections that end with a benchmark.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	if os.Getenv(workload.ChildVariable) != "" {
		if err := workload.RunChild(); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// publish prints a section and writes it into the results file.
func publish(t *testing.T, section, command, redisVersion, load string, start time.Time, text string) {
	t.Helper()
	text = fmt.Sprintf("%s\nLoad of the machine before the run: %s, after it: %s.\n\n%s",
		report.Environment(command, redisVersion, time.Since(start)), load, report.Load(), text)
	fmt.Println(text)
	if *results == "" {
		return
	}
	document, err := os.ReadFile(*results)
	if os.IsNotExist(err) {
		document = []byte("# Results\n\nWritten by `make bench` and `make bench-renewal`, each its own section.\n")
	} else if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*results, []byte(report.Section(string(document), section, text)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// progress says what is being done, since a full run is silent for long.
func progress(format string, args ...any) {
	if *full {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	}
}
