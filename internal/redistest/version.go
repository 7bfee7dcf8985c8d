package redistest

import (
	"fmt"
	"os"
	"strings"
)

// versionsEnv names a file to which every server that is started appends what it
// says it is, "redis 8.0.2" or "valkey 8.1.1". A run on another server than the
// system's is judged by that file: a PATH can be wrong without a test failing.
const versionsEnv = "REDISTEST_VERSIONS"

// recordVersion is called for every start, so that no server goes unnoticed.
func (s *Server) recordVersion() error {
	file := os.Getenv(versionsEnv)
	if file == "" {
		return nil
	}
	version, err := s.version()
	if err != nil {
		return fmt.Errorf("redistest: asking %s for its version: %w", s.bin, err)
	}
	// One write in append mode: test binaries may run at the same time.
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	defer f.Close()
	if _, err = f.WriteString(version + "\n"); err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	return nil
}

// version is the server's name and version. Valkey gives the Redis version it is
// compatible with as redis_version, and its own beside it.
func (s *Server) version() (string, error) {
	text, err := s.do("INFO", "server").Text()
	if err != nil {
		return "", err
	}
	redisVersion := ""
	for line := range strings.Lines(text) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name {
		case "valkey_version":
			return "valkey " + value, nil
		case "redis_version":
			redisVersion = value
		}
	}
	if redisVersion == "" {
		return "", fmt.Errorf("INFO server names no version: %.80q", text)
	}
	return "redis " + redisVersion, nil
}
