// Package measure has what a window of a benchmark is measured with: order
// statistics, fairness, Redis's own counters, processor time and memory.
package measure

import (
	"math"
	"slices"
	"time"
)

// Percentile is the nearest-rank percentile, p from 0 to 100, of sorted; 0 of nothing.
func Percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Median is the middle of values, which stay as they are; NaN of nothing.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	mid := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[mid]
	}
	return (sorted[mid-1] + sorted[mid]) / 2
}

// Least is the smallest of values; NaN of nothing.
func Least(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	return slices.Min(values)
}

// Jain is Jain's fairness index of what each worker got: 1 when all got the same,
// 1/n when one of n got everything, NaN when nobody got anything.
func Jain(counts []int64) float64 {
	var sum, squares float64
	for _, c := range counts {
		sum += float64(c)
		squares += float64(c) * float64(c)
	}
	return sum * sum / (float64(len(counts)) * squares)
}

// Starved is how many workers got nothing.
func Starved(counts []int64) int {
	n := 0
	for _, c := range counts {
		if c == 0 {
			n++
		}
	}
	return n
}

// InGroups sums neighbours, size at a time: the workers of each process.
func InGroups(counts []int64, size int) []int64 {
	var sums []int64
	for group := range slices.Chunk(counts, size) {
		var sum int64
		for _, c := range group {
			sum += c
		}
		sums = append(sums, sum)
	}
	return sums
}
