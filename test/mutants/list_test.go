package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A patch whose text has changed would only be noticed by a run of all mutants.
func TestEveryPatchFits(t *testing.T) {
	for _, m := range mutants {
		for _, p := range m.patches {
			source, err := os.ReadFile(filepath.Join("..", "..", p.file))
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(source), p.old); n != 1 {
				t.Errorf("%s: %s has %q %d times", m.name, p.file, p.old, n)
			}
		}
	}
}
