package slot_test

import (
	"math/rand/v2"
	"testing"

	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
	"github.com/go-lynx/lynx-redis-lock/internal/slot"
)

func TestKnownSlots(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]uint16{
		"":          0,
		"123456789": 12739, // the specification's check value, 0x31C3
		"foo":       12182,
		"{foo}bar":  12182,
		"a{foo}{b}": 12182,
		"a{foo}}b":  12182,
	} {
		if got := slot.Of(key); got != want {
			t.Errorf("the slot of %q is %d, want %d", key, got, want)
		}
	}
}

func TestTheServerAgrees(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, "--cluster-enabled", "yes").Client(t)
	keys := []string{"", "{", "}", "{}", "}{", "{}x{y}", "{{x}}", "x{y", "x{y}z", "{x}{y}", "a}b{c}d", "{a{b}c}", "{lynx:lock:a b}:owner"}
	random := rand.New(rand.NewPCG(1, 2)) // the same keys in every run
	const letters = "ab{}:\x00\xff é"
	for range 400 {
		key := make([]byte, random.IntN(30))
		for i := range key {
			if random.IntN(2) == 0 {
				key[i] = letters[random.IntN(len(letters))]
			} else {
				key[i] = byte(random.IntN(256))
			}
		}
		keys = append(keys, string(key))
	}
	for _, key := range keys {
		want, err := client.ClusterKeySlot(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		if got := slot.Of(key); int64(got) != want {
			t.Errorf("the slot of %q is %d, the server says %d", key, got, want)
		}
	}
}
