package workload_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/go-lynx/lynx-redis-lock/bench/workload"
)

func TestMain(m *testing.M) {
	if os.Getenv(workload.ChildVariable) != "" {
		if err := workload.RunChild(); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}
