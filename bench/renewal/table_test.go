package renewal

import (
	"strings"
	"testing"
	"time"
)

func TestRenewalGoalsAreMetOrMissedByTheirFigures(t *testing.T) {
	ms := time.Millisecond
	run := Run{
		Topology: "Standalone",
		Rounds: []Round{
			{Locks: 100, Ours: 10 * ms, Single: 100 * ms, OursRedisCPU: 20 * ms, SingleRedisCPU: 40 * ms},
			{Locks: 100, Ours: 10 * ms, Single: 20 * ms, OursRedisCPU: 10 * ms, SingleRedisCPU: 40 * ms},
			{Locks: 100, Ours: 10 * ms, Single: 80 * ms, OursRedisCPU: 30 * ms, SingleRedisCPU: 40 * ms},
		},
		Keepers: []Held{
			{Name: Ours, Locks: 5, Time: time.Minute, TTL: 3 * time.Second, CPU: 0.1, RedisCPU: 0.2},
			{Name: Rueidis, CPU: 0.3, RedisCPU: 0.1},
			{Name: Pipeline, CPU: 0.05},
		},
		Many: &Held{Name: Ours, Lost: 1, LatenessMeasured: true, LatenessP99: 500 * ms},
		Slow: &Held{Name: Ours, Failure: "taking them: no"},
		Idle: &Idle{Held: Held{Name: Ours, CPU: 0.005, Bytes: 501}, AddRemove: []float64{1, 2, 3}},
	}
	text := run.Markdown()
	for _, want := range []string{
		"wall time | ≤ 0.20 | 0.12 (0.10) | met |",
		"… Redis CPU a lock | ≤ 0.33 | 0.50 (0.25) | **missed** |",
		"5 locks held 1m0s, TTL 3s: lost | 0 | 0 | met |",
		"rueidislock's | ≤ 0.50 | 0.33 | met |",
		"pipeline's | ≤ 2.00 | 2.00 | met |",
		"Redis CPU ÷ rueidislock's | ≤ 1.00 | 2.00 | **missed** |",
		"lost | 0 | 1 | **missed** |",
		"lateness p99 | < 500ms | 500ms | **missed** |",
		"+20ms round trip | 0 | taking them: no | **missed** |",
		"% of a core | ≤ 1.00 | 0.50 | met |",
		"bytes | ≤ 500 | 501 | **missed** |",
		"≤ 2.00 | 2.00 (1.00) | met |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
