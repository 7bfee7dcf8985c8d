package redislock_test

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails the run when a goroutine is left behind that is not named here.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The framework's dependency ants starts a default pool in its init: two
		// goroutines for the life of the process, before any test runs.
		goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
		goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"),
	)
}
