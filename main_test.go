package redislock_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain plays the role that a test has started this binary for, or fails the run when a goroutine is left behind that is not named here.
func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		roles[role](os.Args[1])
		return
	}
	goleak.VerifyTestMain(m,
		// The framework's dependency ants starts a default pool in its init: two
		// goroutines for the life of the process, before any test runs.
		goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
		goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"),
	)
}
