package redistest_test

import (
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

func take(t *testing.T) int {
	t.Helper()
	port, err := redistest.TakePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { redistest.FreePort(port) })
	return port
}

func TestAPortIsReservedUntilItIsFreed(t *testing.T) {
	seen := map[int]bool{}
	for range 50 {
		if port := take(t); seen[port] {
			t.Fatalf("port %d was given out twice", port)
		} else {
			seen[port] = true
		}
	}
}

func TestAPortJustFreedIsNotTheNextGivenOut(t *testing.T) {
	port, err := redistest.TakePort()
	if err != nil {
		t.Fatal(err)
	}
	redistest.FreePort(port)
	if again := take(t); again == port {
		t.Fatalf("port %d was given out again at once", port)
	}
}

// takeAll empties the block and gives it back when the test ends.
func takeAll(t *testing.T) []int {
	var all []int
	for range 1000 {
		port, err := redistest.TakePort()
		if err != nil {
			return all
		}
		t.Cleanup(func() { redistest.FreePort(port) })
		all = append(all, port)
	}
	t.Fatal("a block of 200 ports never runs out")
	return nil
}

func TestAPortOnWhichSomebodyListensIsPassedOver(t *testing.T) {
	port, err := redistest.TakePort()
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	redistest.FreePort(port)
	if all := takeAll(t); len(all) == 0 || slices.Contains(all, port) {
		t.Fatalf("%d ports given out, port %d among them although somebody listens there", len(all), port)
	}
}

func TestRunningOutOfPortsIsAnErrorAndFreedOnesComeBack(t *testing.T) {
	all := takeAll(t)
	redistest.FreePort(all[0])
	if got := take(t); got != all[0] {
		t.Errorf("got port %d, want the freed %d", got, all[0])
	}
}
