package fence_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lynx/lynx-redis-lock/fence"
)

// model is what the package promises about one resource, in memory.
type model struct {
	value   string
	applied int64
}

// write applies a change unless the token is older, and says whether it did.
func (m *model) write(token int64, change func(*model)) bool {
	if token < m.applied {
		return false
	}
	m.applied = token
	change(m)
	return true
}

// Random operations with random tokens, each compared with the model.
func followsTheModel(t *testing.T, client redis.UniversalClient) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	fenced := newFence(t, client)
	keys := []string{"a", "{a}", "b{c}d", "b{c}", "applied", "0"}
	models := map[string]*model{}
	for _, key := range keys {
		models[key] = &model{}
	}
	refused := 0
	const steps = 1000
	for step := range steps {
		key := keys[rng.IntN(len(keys))]
		m, r := models[key], resource{client, fenced, key}
		if rng.IntN(4) == 0 {
			r = resource{client, newFence(t, client), key} // it keeps nothing in memory
		}
		token := max(1, m.applied+rng.Int64N(6)-2)
		if rng.IntN(20) == 0 {
			token = m.applied + 1 + rng.Int64N(1<<53)
		}
		before := m.applied
		name, done, err := r.random(t, rng, m, token)
		if !done {
			refused++
			stale(t, err, token, before)
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		equal(t, "the value", r.value(t), m.value)
		equal(t, "the applied token", r.applied(t), applied(m.applied))
		if t.Failed() {
			t.Fatalf("seed %d, step %d: %s of %q with token %d", seed, step, name, key, token)
		}
	}
	if refused < steps/20 || refused > steps*2/3 {
		t.Errorf("seed %d: %d of %d were refused, which shows little", seed, refused, steps)
	}
}

// random does one thing to the resource and to the model.
func (r resource) random(t *testing.T, rng *rand.Rand, m *model, token int64) (name string, done bool, err error) {
	t.Helper()
	n := rng.IntN(100)
	switch rng.IntN(4) {
	case 0:
		return "Del", m.write(token, func(m *model) { m.value = "" }), r.fenced.Del(t.Context(), r.key, token)
	case 1:
		done = m.write(token, func(m *model) {
			sum, _ := strconv.Atoi(m.value)
			m.value = strconv.Itoa(sum + n)
		})
		return "Run", done, r.add(t, token, n)
	}
	return "Set", m.write(token, func(m *model) { m.value = strconv.Itoa(n) }), r.set(t, token, strconv.Itoa(n))
}

func applied(token int64) string {
	if token == 0 {
		return ""
	}
	return strconv.FormatInt(token, 10)
}

// Many writers with tokens in random order: what Redis applied never goes back.
func neverGoesBack(t *testing.T, client redis.UniversalClient) {
	const writers, each = 8, 40
	record := fence.NewScript("redis.call('RPUSH', KEYS[2], ARGV[1])\nredis.call('SET', KEYS[1], ARGV[1])")
	fenced := newFence(t, client)
	tokens := rand.Perm(writers * each)
	results := make([]error, writers*each)
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for _, token := range tokens[w*each : (w+1)*each] {
				_, results[token] = fenced.Run(t.Context(), "{stock}", int64(token)+1, record, []string{"{stock}:history"}, token+1)
			}
		})
	}
	group.Wait()
	written := 0
	for token, err := range results {
		var refused *fence.StaleError
		switch {
		case err == nil:
			written++
		case !errors.As(err, &refused) || refused.Applied <= int64(token)+1:
			t.Errorf("token %d: %v", token+1, err)
		}
	}
	history, err := client.LRange(t.Context(), "{stock}:history", 0, -1).Result()
	must(t, "LRANGE", err)
	equal(t, "the length of the history", len(history), written)
	neverBack(t, history)
	equal(t, "the last value", get(t, client, "{stock}"), fmt.Sprint(writers*each))
}

// neverBack checks the order in which tokens were applied.
func neverBack(t *testing.T, history []string) {
	t.Helper()
	highest := 0
	for _, text := range history {
		token, err := strconv.Atoi(text)
		must(t, "a token of the history", err)
		if token < highest {
			t.Fatalf("token %d was applied after %d", token, highest)
		}
		highest = token
	}
}
