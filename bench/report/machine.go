package report

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// Environment says where, when and with what a run was made.
func Environment(command, redisVersion string, took time.Duration) string {
	return fmt.Sprintf("`%s`, %s, took %v; commit %s.\n\n%s, %d processors, %s/%s; %s; Redis %s without persistence, on loopback, on the same processors, nothing pinned; %s.\n",
		command, time.Now().UTC().Format("2 January 2006 15:04 UTC"), took.Round(time.Second), commit(),
		processor(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), redisVersion, modules())
}

// Load says how busy the machine was, which colours every absolute figure.
func Load() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(data))[:2], " and ")
}

func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--exclude", "*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func processor() string {
	data, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

// modules are the versions of the clients and the peers.
func modules() string {
	// A test binary's build information does not name them.
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Path}} {{.Version}}", "github.com/redis/go-redis/v9",
		"github.com/redis/rueidis", "github.com/bsm/redislock", "github.com/bsm/redislock094", "github.com/go-redsync/redsync/v4").Output()
	if err != nil {
		return "unknown versions"
	}
	return strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(string(out)), "github.com/", ""), "\n", ", ")
}
