package workload

import (
	"time"

	"github.com/go-lynx/lynx-redis-lock/bench/contestant"
)

// Cell is a situation and who is put into it.
type Cell struct {
	Spec
	Contestants []contestant.Contestant
}

// rounds is how often each contestant gets a window, in turns with the others. Windows
// in which every one of many waiters has to come by several times are long, and few.
const (
	rounds     = 15
	moreRounds = 45 // where the machine's moods are more than what is measured
	longRounds = 3
)

// Plan is the whole benchmark: in full about a quarter of an hour.
func Plan() []Cell {
	var cells []Cell
	add := func(who []contestant.Contestant, s Spec) { cells = append(cells, Cell{s, who}) }
	ms := time.Millisecond
	for _, n := range []int{1, 8, 64, 512} {
		spec := Spec{Workers: n, Free: true, Window: 100*ms + time.Duration(n)*ms/4, Rounds: rounds}
		if n == 1 {
			spec.Rounds = moreRounds
		}
		add(contestant.Free(), spec)
	}
	for _, n := range []int{2, 16, 64, 256} {
		add(contestant.Spinning(), Spec{Workers: n, Window: 150 * ms, Rounds: rounds})
	}
	for _, n := range []int{2, 16, 64} {
		add(contestant.Contended(), Spec{Workers: n, Hold: ms, Window: 100*ms + time.Duration(n)*5*ms, Rounds: rounds})
	}
	add(contestant.Patient(), Spec{Workers: 256, Hold: ms, Window: 2000 * ms, Rounds: longRounds})
	add(contestant.Patient(), HandOver(1, 2, 300*ms, rounds))
	add(contestant.Patient(), HandOver(2, 1, 300*ms, moreRounds))
	add(contestant.Patient(), HandOver(1, 64, 2500*ms, longRounds))
	add(contestant.Patient(), HandOver(1, 256, 8500*ms, longRounds))
	for _, hold := range []time.Duration{0, ms} {
		add(contestant.Several(hold), Spec{Processes: 4, Workers: 8, Hold: hold, Window: 500 * ms, Rounds: rounds})
	}
	return cells
}

// HandOver is a situation in which each acquisition is a hand-over.
func HandOver(processes, workers int, window time.Duration, rounds int) Spec {
	return Spec{
		Processes: processes, Workers: workers, Hold: 5 * time.Millisecond, HandOver: true, Window: window, Rounds: rounds,
	}
}

// Quick is the plan with one window of each, as short as can be.
func Quick(plan []Cell) []Cell {
	for i := range plan {
		plan[i].Rounds, plan[i].Window = 1, 20*time.Millisecond
	}
	return plan
}
