// Command testcount runs go test and says at the end how many tests ran, in all
// and per backend. Its arguments are those of go test:
//
//	go run ./internal/testcount -race ./...
//
// With -rows before them it also prints a line per test: its name, the backend it
// ran on, whether it passed, and its seconds.
//
// It fails when go test fails, and also when a test was skipped or none ran: a
// suite that skips its servers is green and has shown nothing.
package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
)

func main() {
	os.Exit(run(os.Stdout, os.Args[1:]))
}

// run starts go test itself instead of reading it from a pipe, because a pipe
// loses its exit code.
func run(out io.Writer, args []string) int {
	t := newTally(out)
	if len(args) > 0 && args[0] == "-rows" {
		t.rows, args = true, args[1:]
	}
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		fmt.Fprintln(out, "testcount:", err)
		return 1
	}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(out, "testcount:", err)
		return 1
	}
	readErr := t.read(stdout) // to the end, before Wait closes the pipe
	waitErr := cmd.Wait()
	if !t.report(readErr, waitErr) {
		return 1
	}
	return 0
}
