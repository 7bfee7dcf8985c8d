package history_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/go-lynx/lynx-redis-lock/test/history"
)

func TestWhatIsWrittenIsRead(t *testing.T) {
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	for name, lines := range map[string][]history.Line{
		a: {{Op: &history.Op{Key: "k", Call: 30}}, {Belief: &history.Belief{Hold: "h"}}, {End: "p"}},
		b: {{Op: &history.Op{Key: "k", Call: 20}}, {Event: &history.Event{Kind: "e", Loses: history.All}}, {Owned: "o"}},
	} {
		w, err := history.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			w.Put(line)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	h, err := history.Read(a, b)
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Ops) != 2 || h.Ops[0].Call != 20 || h.Ops[1].Call != 30 {
		t.Errorf("the operations are %+v, want both in the order of their calls", h.Ops)
	}
	if len(h.Beliefs) != 1 || h.Beliefs[0].Hold != "h" || len(h.Events) != 1 || h.Events[0].Loses != history.All {
		t.Errorf("read %+v %+v", h.Beliefs, h.Events)
	}
	if !slices.Equal(h.Owned, []string{"o"}) || !slices.Equal(h.Ended, []string{"p"}) {
		t.Errorf("read %q %q", h.Owned, h.Ended)
	}
	if _, err := history.Read(a, filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Error("an absent file was read")
	}
}

// TestTheClockIsGosAndNeverGoesBack: moments of package time, such as a lock's
// deadline, and those taken here can be compared.
func TestTheClockIsGosAndNeverGoesBack(t *testing.T) {
	for range 1000 {
		a, now, b := history.Now(), time.Now(), history.Now()
		if at := history.At(now); a > at || at > b {
			t.Fatalf("%d was between %d and %d", at, a, b)
		}
		if d := history.At(now.Add(time.Hour)) - history.At(now); d != int64(time.Hour) {
			t.Fatalf("an hour is %d ns", d)
		}
	}
}
