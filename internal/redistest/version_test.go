package redistest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// A run that is meant for another server than the system's is judged by this record.
func TestEveryStartIsRecordedWithTheServersOwnVersion(t *testing.T) {
	said, err := exec.CommandContext(t.Context(), "redis-server", "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	// "Redis server v=7.0.15 sha=…" or "Valkey server v=8.1.1 sha=…"
	parts := regexp.MustCompile(`^(\S+) server v=(\S+)`).FindStringSubmatch(string(said))
	if parts == nil {
		t.Fatalf("--version says %q", said)
	}
	version := strings.ToLower(parts[1]) + " " + parts[2]

	file := filepath.Join(t.TempDir(), "versions")
	t.Setenv("REDISTEST_VERSIONS", file)
	redistest.Start(t, "--requirepass", "secret").Restart(t)
	redistest.StartTLS(t)
	redistest.StartSentinel(t)
	record, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Repeat([]string{version}, 2+1+6)
	if got := strings.Split(strings.TrimSpace(string(record)), "\n"); !slices.Equal(got, want) {
		t.Fatalf("recorded %q, want %q", got, want)
	}
}
