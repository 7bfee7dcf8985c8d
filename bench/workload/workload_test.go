package workload_test

import (
	"testing"
	"time"

	"github.com/go-lynx/lynx-redis-lock/bench/contestant"
	"github.com/go-lynx/lynx-redis-lock/bench/measure"
	"github.com/go-lynx/lynx-redis-lock/bench/workload"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

func rig(t *testing.T, c contestant.Contestant) *workload.Rig {
	t.Helper()
	server := redistest.Start(t)
	probe := measure.NewServer(server.Addr())
	t.Cleanup(probe.Close)
	r, err := workload.NewRig(c, server.Addr(), probe)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func run(t *testing.T, r *workload.Rig, spec workload.Spec) workload.Sample {
	t.Helper()
	s, err := r.Run(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if s.Failures != 0 {
		t.Fatalf("%d workers failed: %s", s.Failures, s.Failure)
	}
	if s.Total() == 0 || s.CPU <= 0 || s.ServerCPU <= 0 {
		t.Fatalf("nothing was measured: %+v", s)
	}
	return s
}

func TestAFreePairIsTwoCommandsOnTheWire(t *testing.T) {
	s := run(t, rig(t, *contestant.ByName(contestant.SetNX)), workload.Spec{Workers: 4, Free: true, Window: 100 * time.Millisecond})
	if wire := s.OnWire / float64(s.Total()); wire < 1.9 || wire > 2.1 {
		t.Errorf("%.2f commands a pair on the wire, want 2", wire)
	}
	if script := s.InScript / float64(s.Total()); script < 1.9 || script > 2.1 {
		t.Errorf("%.2f commands a pair in scripts, want 2", script)
	}
	if len(s.Handed) != 0 || s.Overlaps != 0 {
		t.Errorf("%d hand-overs and %d overlaps of free locks", len(s.Handed), s.Overlaps)
	}
}

func TestEveryAcquisitionIsAHandOverWhenAskedFor(t *testing.T) {
	r := rig(t, *contestant.ByName(contestant.SetNX))
	for _, processes := range []int{1, 2} {
		s := run(t, r, workload.Spec{
			Processes: processes, Workers: 2, Hold: time.Millisecond, HandOver: true, Window: 200 * time.Millisecond,
		})
		if int64(len(s.Handed)) < s.Total()-1 {
			t.Errorf("%d processes: %d of %d acquisitions were hand-overs", processes, len(s.Handed), s.Total())
		}
		if s.Overlaps != 0 {
			t.Errorf("%d processes: %d double holds", processes, s.Overlaps)
		}
		if len(s.Counts) != 2*processes || len(s.Waits) != int(s.Total()) {
			t.Errorf("%d processes: %d workers, %d waits of %d", processes, len(s.Counts), len(s.Waits), s.Total())
		}
		if least := time.Duration(s.Total()) * time.Millisecond; s.Held < least {
			t.Errorf("%d processes: held for %s, want %s at least", processes, s.Held, least)
		}
	}
}

// A contestant that excludes nobody has to be found out, in one process and in several.
func TestTwoHoldersAtOnceAreFound(t *testing.T) {
	r := rig(t, *contestant.ByName(contestant.TwoEvalSha))
	for _, processes := range []int{1, 2} {
		s := run(t, r, workload.Spec{Processes: processes, Workers: 3, Hold: time.Millisecond, Window: 100 * time.Millisecond})
		if s.Overlaps == 0 {
			t.Errorf("%d processes: no overlap was seen in %d acquisitions", processes, s.Total())
		}
	}
}
