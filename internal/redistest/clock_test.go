package redistest_test

import (
	"testing"
	"time"

	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

func TestAClockStepsAndTheKeysWithIt(t *testing.T) {
	t.Parallel()
	server := redistest.StartWithClock(t)
	c := server.Client(t)
	ahead := func() time.Duration {
		now, err := c.Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		return time.Until(now).Round(time.Minute)
	}
	if err := c.Set(t.Context(), "key", "x", 30*time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	for _, step := range []time.Duration{0, time.Hour, -2 * time.Hour, 0} {
		server.Step(t, step)
		if got := ahead(); got != step {
			t.Errorf("stepped by %s, the server is %s ahead", step, got)
		}
		if n := c.Exists(t.Context(), "key").Val(); step > 0 && n != 0 {
			t.Errorf("an hour later the key of 30 minutes is still there")
		}
	}
}
