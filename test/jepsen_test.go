package test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/go-lynx/lynx-redis-lock/test/check"
	"github.com/go-lynx/lynx-redis-lock/test/history"
)

var (
	duration   = flag.Duration("duration", 30*time.Second, "how long the nemesis is at work, over all topologies")
	seed       = flag.Uint64("seed", 0, "of the schedule; 0: a new one")
	operations = flag.Int("operations", 0, "fail with fewer than these")
	only       = flag.String("servers", "", "of these servers only, separated by commas")
	moves      = flag.String("moves", "", "only these moves of the nemesis, separated by commas")
	keepFiles  = flag.String("keep", "failed", "which histories are kept: failed, all or none")
	again      = flag.String("again", "", "check the kept history in this folder, and play nothing")
	longest    = flag.Duration("round", time.Minute, "no history is longer, so that it can be searched in time")
)

// TestHistories plays rounds on all topologies and fails when a history cannot be that
// of a lock that keeps its word. It then keeps the history, and a picture.
func TestHistories(t *testing.T) {
	if *again != "" {
		checkAgain(t, *again)
		return
	}
	first := *seed
	if first == 0 {
		first = rand.Uint64N(1 << 32)
	}
	fmt.Printf("seed %d\n", first)
	all := newTotals()
	for n, p := range plan(*duration) {
		s := first + uint64(n)
		t.Run(fmt.Sprintf("%s/%d", p.name, s), func(t *testing.T) {
			dir, err := os.MkdirTemp("", "redislock-history-")
			if err != nil {
				t.Fatal(err)
			}
			report := p.run(t, dir, p.time, s, list(*moves))
			fmt.Printf("%s, seed %d: %s\n", p.name, s, summary(report))
			all.add(report)
			tell(t, report)
			if *keepFiles == "all" || (*keepFiles == "failed" && t.Failed()) {
				keep(t, dir, report)
			} else {
				_ = os.RemoveAll(dir)
			}
		})
	}
	fmt.Print(all)
	if all.ops < *operations {
		t.Errorf("%d operations, want %d", all.ops, *operations)
	}
}

// checkAgain judges a history that was kept.
func checkAgain(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no history in %s (%v)", dir, err)
	}
	h, err := history.Read(files...)
	if err != nil {
		t.Fatal(err)
	}
	report := check.History(h, searchLimit)
	all := newTotals()
	all.add(report)
	fmt.Print(all)
	tell(t, report)
	keep(t, dir, report)
}

type planned struct {
	round
	time time.Duration
}

// plan shares the time out, in rounds that are not too long.
func plan(total time.Duration) (all []planned) {
	sum, chosen := 0, []round{}
	for _, r := range rounds {
		if *only == "" || slices.Contains(list(*only), r.name) {
			chosen = append(chosen, r)
			sum += r.weight
		}
	}
	for again := 1; ; again++ {
		all = nil
		fits := true
		for range again {
			for _, r := range chosen {
				d := total * time.Duration(r.weight) / time.Duration(sum*again)
				fits = fits && d <= *longest
				all = append(all, planned{r, d})
			}
		}
		if fits {
			return all
		}
	}
}

func list(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

// tell says what is wrong.
func tell(t *testing.T, report *check.Report) {
	t.Helper()
	const most = 10
	for i, v := range report.Violations {
		if i == 0 {
			fmt.Printf("first violation, after %d operations: %s\n", report.Before, v.Kind)
		}
		if i == most {
			t.Errorf("… and %d more", len(report.Violations)-most)
			break
		}
		t.Errorf("%s: %s", v.Kind, v.Text)
	}
}

// keep says where the history can be seen.
func keep(t *testing.T, dir string, report *check.Report) {
	t.Helper()
	for _, p := range report.Illegal {
		name := filepath.Join(dir, p.Name+".html")
		if err := porcupine.VisualizePath(check.Model(), p.Info, name); err != nil {
			t.Error(err)
		}
	}
	fmt.Printf("the history is in %s\n", dir)
}
