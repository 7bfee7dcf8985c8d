package test

import (
	"testing"
	"time"
)

func TestAPlanSharesOutTheTimeInShortRounds(t *testing.T) {
	for _, total := range []time.Duration{40 * time.Second, 10 * time.Minute} {
		sum, seen := time.Duration(0), map[string]bool{}
		for _, p := range plan(total) {
			if p.time > *longest {
				t.Errorf("a round of %s, want at most %s", p.time, *longest)
			}
			sum += p.time
			seen[p.name] = true
		}
		if sum < total*99/100 || sum > total || len(seen) != len(rounds) {
			t.Errorf("%s of %s, on %v", sum, total, seen)
		}
	}
}
