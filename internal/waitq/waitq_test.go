package waitq_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-lynx/lynx-redis-lock/internal/waitq"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func hasTurn(p *waitq.Place[string]) bool {
	select {
	case <-p.Turn():
		return true
	default:
		return false
	}
}

// wantTurn checks that of all places only one has its turn; -1: none.
func wantTurn(t *testing.T, places []*waitq.Place[string], want int) {
	t.Helper()
	for i, p := range places {
		if p != nil && hasTurn(p) != (i == want) {
			t.Fatalf("place %d has its turn: %t, want it to be %d's", i, hasTurn(p), want)
		}
	}
}

func join(q *waitq.Queues[string], name string, n int) []*waitq.Place[string] {
	places := make([]*waitq.Place[string], n)
	for i := range places {
		places[i] = q.Join(name)
	}
	return places
}

func TestWaitersGoInTheOrderInWhichTheyCame(t *testing.T) {
	t.Parallel()
	var q waitq.Queues[string]
	places := join(&q, "a", 5)
	for i := range places {
		wantTurn(t, places, i)
		places[i].Leave()
		places[i] = nil
	}
	if next := q.Join("a"); !hasTurn(next) {
		t.Fatal("the line is not empty again")
	}
}

func TestLeavingFromTheMiddleBlocksNobody(t *testing.T) {
	t.Parallel()
	var q waitq.Queues[string]
	places := join(&q, "a", 6)
	leave := func(i int) { places[i].Leave(); places[i] = nil }
	leave(3)
	leave(1)
	leave(5) // the last one
	wantTurn(t, places, 0)
	late := q.Join("a")
	leave(0)
	wantTurn(t, places, 2)
	leave(2)
	wantTurn(t, places, 4)
	if hasTurn(late) {
		t.Fatal("who came last is served before its time")
	}
	leave(4)
	if !hasTurn(late) {
		t.Fatal("who came last is not served")
	}
	late.Leave()
}

func TestEachNameHasALineOfItsOwn(t *testing.T) {
	t.Parallel()
	var q, other waitq.Queues[string]
	a, b, c := q.Join("a"), q.Join("b"), other.Join("a")
	if !hasTurn(a) || !hasTurn(b) || !hasTurn(c) {
		t.Fatal("one waits for another name, or for another's lines")
	}
}

func TestTenThousandLeaveInAnyOrder(t *testing.T) {
	t.Parallel()
	const n = 10_000
	var q waitq.Queues[string]
	places := join(&q, "a", n)
	random := rand.New(rand.NewPCG(1, 2))
	first, start := 0, time.Now()
	for _, i := range random.Perm(n) {
		places[i].Leave()
		places[i] = nil
		for first < n && places[first] == nil {
			first++
		}
		if first < n && !hasTurn(places[first]) {
			t.Fatalf("place %d is the first and does not have its turn", first)
		}
		if later := first + 1 + random.IntN(100); later < n && places[later] != nil && hasTurn(places[later]) {
			t.Fatalf("place %d has its turn, %d is the first", later, first)
		}
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Fatalf("it took %s: leaving costs more than it should", took)
	}
	if !hasTurn(q.Join("a")) {
		t.Fatal("the line is not empty again")
	}
}

func TestOneAtATimeUnderConcurrency(t *testing.T) {
	t.Parallel()
	const waiters = 200
	var q waitq.Queues[string]
	gate := q.Join("a") // holds all back until everybody stands in line
	var all sync.WaitGroup
	var served []int // no lock: it is the turn that protects it, as the race detector sees
	for i := range waiters {
		p := q.Join("a")
		all.Go(func() {
			defer p.Leave()
			if i%3 == 0 {
				return // leaves before its turn
			}
			<-p.Turn()
			served = append(served, i)
		})
	}
	gate.Leave()
	all.Wait()
	if len(served) != waiters-(waiters+2)/3 || !slices.IsSorted(served) {
		t.Fatalf("served were %v", served)
	}
}
