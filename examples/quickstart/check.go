package main

import "fmt"

const (
	// Each round of the four workers is one section; NewLock's rounds acquire twice.
	// Then come the long section, the loser and the winner.
	plannedSections     = 4*rounds + 3
	plannedAcquisitions = plannedSections + rounds
)

// differences is what happened otherwise than planned; none is the program's success.
func (d *demo) differences(before, after map[string]float64) []string {
	var list []string
	expect := func(what string, got, want int64) {
		if got != want {
			list = append(list, fmt.Sprintf("%s: %d, expected %d", what, got, want))
		}
	}
	acquired := d.seen.acquired.Load()
	expect("acquisitions", acquired, plannedAcquisitions)
	if after != nil { // else its failure is in the list
		expect("acquisitions by /metrics", int64(after[acquireSuccess]-before[acquireSuccess]), acquired)
		expect("locks still active by /metrics", int64(after[activeLocks]), 0)
	}
	expect("overlaps", d.section.overlaps.Load(), 0)
	expect("the value behind the lock", d.section.value.Load(), plannedSections)
	expect("losses noticed", d.seen.lost.Load(), 1)
	expect("stale writes refused", d.seen.stale.Load(), 1)
	if d.seen.renewed.Load() == 0 {
		list = append(list, "the long section was never renewed")
	}
	d.seen.mu.Lock()
	defer d.seen.mu.Unlock()
	return append(list, d.seen.failures...)
}
