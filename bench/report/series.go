package report

import (
	"math"
	"slices"
	"time"

	"github.com/go-lynx/lynx-redis-lock/bench/contestant"
	"github.com/go-lynx/lynx-redis-lock/bench/measure"
	"github.com/go-lynx/lynx-redis-lock/bench/workload"
)

// Series is one situation: the windows of all contestants, round by round.
type Series struct {
	Spec        workload.Spec
	Contestants []contestant.Contestant
	Samples     map[string][]workload.Sample // by contestant; the index is the round
}

// perRound is value of each round of a contestant.
func (s *Series) perRound(name string, value func(*workload.Sample) float64) []float64 {
	var values []float64
	for i := range s.Samples[name] {
		values = append(values, value(&s.Samples[name][i]))
	}
	return values
}

// median is that of value over the rounds of a contestant.
func (s *Series) median(name string, value func(*workload.Sample) float64) float64 {
	return measure.Median(s.perRound(name, value))
}

// ratios is value of name over that of other, in each round.
func (s *Series) ratios(name, other string, value func(*workload.Sample) float64) []float64 {
	above, below := s.perRound(name, value), s.perRound(other, value)
	var ratios []float64
	for i := range min(len(above), len(below)) {
		if below[i] > 0 {
			ratios = append(ratios, above[i]/below[i])
		}
	}
	return ratios
}

// bestPeer is the largest value of a peer in each round.
func (s *Series) bestPeer(value func(*workload.Sample) float64) []float64 {
	var best []float64
	for _, c := range s.Contestants {
		if c.Kind != contestant.Peer {
			continue
		}
		for i, v := range s.perRound(c.Name, value) {
			if i == len(best) {
				best = append(best, v)
			}
			best[i] = math.Max(best[i], v)
		}
	}
	return best
}

// toBestPeer is value of name over that of the best peer, in each round.
func (s *Series) toBestPeer(name string, value func(*workload.Sample) float64) []float64 {
	var ratios []float64
	best := s.bestPeer(value)
	for i, v := range s.perRound(name, value) {
		if i < len(best) && best[i] > 0 {
			ratios = append(ratios, v/best[i])
		}
	}
	return ratios
}

// pooled is what list gives of all rounds of a contestant, sorted.
func (s *Series) pooled(name string, list func(*workload.Sample) []time.Duration) []time.Duration {
	var all []time.Duration
	for i := range s.Samples[name] {
		all = append(all, list(&s.Samples[name][i])...)
	}
	slices.Sort(all)
	return all
}

// each is the sum of value over all rounds, by acquisition.
func (s *Series) each(name string, value func(*workload.Sample) float64) float64 {
	var sum, acquisitions float64
	for i := range s.Samples[name] {
		sum += value(&s.Samples[name][i])
		acquisitions += float64(s.Samples[name][i].Total())
	}
	return sum / acquisitions
}

// sum is that of value over all rounds.
func (s *Series) sum(name string, value func(*workload.Sample) int64) (sum int64) {
	for i := range s.Samples[name] {
		sum += value(&s.Samples[name][i])
	}
	return sum
}

// What is asked of a window.
func rate(s *workload.Sample) float64           { return s.Rate() }
func waits(s *workload.Sample) []time.Duration  { return s.Waits }
func handed(s *workload.Sample) []time.Duration { return s.Handed }
func held(s *workload.Sample) float64           { return float64(s.Held) }
func onWire(s *workload.Sample) float64         { return s.OnWire }
func inScript(s *workload.Sample) float64       { return s.InScript }
func mallocs(s *workload.Sample) float64        { return float64(s.Mallocs) }
func allocated(s *workload.Sample) float64      { return float64(s.Bytes) }
func clientMicros(s *workload.Sample) float64   { return float64(s.CPU) / 1e3 }
func serverMicros(s *workload.Sample) float64   { return float64(s.ServerCPU) / 1e3 }
func jain(s *workload.Sample) float64           { return measure.Jain(s.Counts) }
func starved(s *workload.Sample) float64        { return float64(measure.Starved(s.Counts)) }
func toAnother(s *workload.Sample) float64      { return float64(len(s.Handed)) / s.Elapsed.Seconds() }
func overlaps(s *workload.Sample) int64         { return s.Overlaps }
func failures(s *workload.Sample) int64         { return s.Failures }

// jainOfProcesses is the fairness between processes of size workers.
func jainOfProcesses(size int) func(*workload.Sample) float64 {
	return func(s *workload.Sample) float64 { return measure.Jain(measure.InGroups(s.Counts, size)) }
}

// longestCutOff is the longest wait that a window's end cut off.
func (s *Series) longestCutOff(name string) (longest time.Duration) {
	for _, sample := range s.Samples[name] {
		longest = max(longest, sample.Unserved)
	}
	return longest
}

// longestWait is the longest wait, of those included that got nothing in the end.
func (s *Series) longestWait(name string) time.Duration {
	longest := s.longestCutOff(name)
	if w := s.pooled(name, waits); len(w) > 0 {
		longest = max(longest, w[len(w)-1])
	}
	return longest
}
