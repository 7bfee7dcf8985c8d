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

type (
	queues = waitq.Queues[string, int]
	place  = waitq.Place[string, int]
)

func hasTurn(p *place) bool {
	select {
	case <-p.Turn():
		return true
	default:
		return false
	}
}

// wantTurn checks that of all places only one has its turn; -1: none.
func wantTurn(t *testing.T, places []*place, want int) {
	t.Helper()
	for i, p := range places {
		if p != nil && hasTurn(p) != (i == want) {
			t.Fatalf("place %d has its turn: %t, want it to be %d's", i, hasTurn(p), want)
		}
	}
}

func join(q *queues, name string, n int) []*place {
	places := make([]*place, n)
	for i := range places {
		places[i] = q.Join(name)
	}
	return places
}

func TestWaitersGoInTheOrderInWhichTheyCame(t *testing.T) {
	t.Parallel()
	var q queues
	places := join(&q, "a", 5)
	for i := range places {
		wantTurn(t, places, i)
		places[i].Leave(false)
		places[i] = nil
	}
	if next := q.Join("a"); !hasTurn(next) {
		t.Fatal("the line is not empty again")
	}
}

func TestLeavingFromTheMiddleBlocksNobody(t *testing.T) {
	t.Parallel()
	var q queues
	places := join(&q, "a", 6)
	leave := func(i int) { places[i].Leave(false); places[i] = nil }
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
	late.Leave(false)
}

func TestEachNameHasALineOfItsOwn(t *testing.T) {
	t.Parallel()
	var q, other queues
	a, b, c := q.Join("a"), q.Join("b"), other.Join("a")
	if !hasTurn(a) || !hasTurn(b) || !hasTurn(c) {
		t.Fatal("one waits for another name, or for another's lines")
	}
}

func TestTenThousandLeaveInAnyOrder(t *testing.T) {
	t.Parallel()
	const n = 10_000
	var q queues
	places := join(&q, "a", n)
	random := rand.New(rand.NewPCG(1, 2))
	first, start := 0, time.Now()
	for _, i := range random.Perm(n) {
		places[i].Leave(false)
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
	var q queues
	gate := q.Join("a") // holds all back until everybody stands in line
	var all sync.WaitGroup
	var served []int // no lock: it is the turn that protects it, as the race detector sees
	for i := range waiters {
		p := q.Join("a")
		all.Go(func() {
			defer p.Leave(false)
			if i%3 == 0 {
				return // leaves before its turn
			}
			<-p.Turn()
			served = append(served, i)
		})
	}
	gate.Leave(false)
	all.Wait()
	if len(served) != waiters-(waiters+2)/3 || !slices.IsSorted(served) {
		t.Fatalf("served were %v", served)
	}
}

func isTold(p *place) bool { return len(p.Told()) > 0 }

func TestTheFirstIsToldNowOrWhenItComes(t *testing.T) {
	t.Parallel()
	var q queues
	if q.Tell("a") {
		t.Fatal("nobody was told")
	}
	places := join(&q, "a", 2)
	for range 2 { // twice is once
		if !q.Tell("a") || !isTold(places[0]) {
			t.Fatal("the first was not told")
		}
	}
	places[0].Leave(false) // without having looked
	if !isTold(places[1]) {
		t.Fatal("the second does not know what the first was told")
	}
	if !places[1].Leave(false) {
		t.Fatal("nobody says that the word was not heard")
	}
	last := q.Join("a")
	if isTold(last) || last.Leave(false) {
		t.Fatal("an old word is in a new line")
	}
}

func TestWhoLeavesWithTheLockHasHeard(t *testing.T) {
	t.Parallel()
	var q queues
	p := q.Join("a")
	q.Tell("a")
	if p.Leave(true) {
		t.Fatal("the word would be passed on while the lock is held")
	}
}

func TestTellAllTellsThoseThatMatch(t *testing.T) {
	t.Parallel()
	var q queues
	a, b := q.Join("a"), q.Join("b")
	q.TellAll(func(name string) bool { return name == "b" })
	if isTold(a) || !isTold(b) {
		t.Fatalf("told: %t, %t", isTold(a), isTold(b))
	}
}

func TestAnOfferIsTakenOrWithdrawnOnce(t *testing.T) {
	t.Parallel()
	var q queues
	if _, ok := q.Take("a"); ok {
		t.Fatal("an offer of nobody")
	}
	p := q.Join("a")
	p.Offer(7)
	if v, ok := q.Take("a"); !ok || v != 7 {
		t.Fatalf("took %d, %t", v, ok)
	}
	if _, ok := q.Take("a"); ok {
		t.Fatal("taken twice")
	}
	if p.Withdraw() {
		t.Fatal("withdrawn after it was taken")
	}
	p.Offer(8)
	if !p.Withdraw() {
		t.Fatal("it was not taken")
	}
	if _, ok := q.Take("a"); ok {
		t.Fatal("taken after it was withdrawn")
	}
}

func TestAnOfferIsTakenWhenItIsTheFirst(t *testing.T) {
	t.Parallel()
	var q queues
	places := join(&q, "a", 3)
	places[1].Offer(1)
	places[2].Offer(2)
	if v, ok := q.Take("a"); ok {
		t.Fatalf("took %d, which is not the first", v)
	}
	places[0].Leave(true)
	if v, ok := q.Take("a"); !ok || v != 1 {
		t.Fatalf("took %d, %t", v, ok)
	}
	if v, ok := q.Take("a"); ok {
		t.Fatalf("took %d while the one before it is still there", v)
	}
	places[1].Leave(true)
	if !places[2].Withdraw() {
		t.Fatal("the last one's was taken")
	}
}

func TestTheNextOneKnowsOfAHolderInTheProcessUntilThatFreesTheLock(t *testing.T) {
	t.Parallel()
	var q queues
	held := time.Now().Add(time.Hour)
	places := join(&q, "a", 2)
	q.Held("a", held)
	q.Held("b", held) // nobody there
	places[0].Leave(true)
	if got, _ := places[1].Outlook(); !got.Equal(held) {
		t.Fatalf("held up to %s, want %s", got, held)
	}
	if _, ok := q.Take("a"); ok {
		t.Fatal("an offer of nobody")
	}
	if got := places[1].Offer(1); !got.IsZero() {
		t.Fatalf("after the holder has freed it: held up to %s", got)
	}
}

func TestALineThatIsKeptAwayIsToldSo(t *testing.T) {
	t.Parallel()
	var q queues
	until := time.Now().Add(time.Minute)
	q.KeepAway("a", until) // nobody there
	places := join(&q, "a", 2)
	q.Held("a", until)
	places[0].Leave(true)
	if used := q.Use("a", time.Second) + q.Use("a", time.Second) + q.Use("b", time.Second); used != 3*time.Second {
		t.Fatalf("used for %s", used)
	}
	q.KeepAway("a", until)
	if used := q.Use("a", time.Second); used != time.Second {
		t.Fatalf("used for %s since", used)
	}
	if held, away := places[1].Outlook(); !held.IsZero() || !away.Equal(until) || !isTold(places[1]) {
		t.Fatalf("held up to %s, away up to %s, told %t", held, away, isTold(places[1]))
	}
}

func TestALineThatIsFreedIsToldSo(t *testing.T) {
	t.Parallel()
	var q queues
	q.Freed("a") // nobody there
	p := q.Join("a")
	q.Held("a", time.Now().Add(time.Hour))
	q.Freed("a")
	if held, _ := p.Outlook(); !held.IsZero() || !isTold(p) {
		t.Fatalf("held up to %s, told %t", held, isTold(p))
	}
}
