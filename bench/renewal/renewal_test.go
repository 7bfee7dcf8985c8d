package renewal

import (
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lynx/lynx-redis-lock/bench/measure"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

func TestAPercentileOfAHistogramIsItsBucketsBound(t *testing.T) {
	before := histogram{{0.1, 10}, {0.5, 10}, {math.Inf(1), 10}}
	h := histogram{{0.1, 100}, {0.5, 109}, {math.Inf(1), 110}}.since(before)
	if got, ok := h.percentile(50); !ok || got != 100*time.Millisecond {
		t.Errorf("p50 %v, %v", got, ok)
	}
	if got, ok := h.percentile(99); !ok || got != 500*time.Millisecond {
		t.Errorf("p99 %v, %v", got, ok)
	}
	if got, ok := h.percentile(100); !ok || got != math.MaxInt64 {
		t.Errorf("p100 %v, %v, want what is above every bound", got, ok)
	}
	if _, ok := (histogram{}).percentile(99); ok {
		t.Error("a percentile of nothing")
	}
	if _, ok := before.since(before).percentile(99); ok {
		t.Error("a percentile of no samples")
	}
}

func TestADelayLineDelaysAPipelineOnce(t *testing.T) {
	line, err := NewDelayLine(redistest.Start(t).Addr(), 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(line.Close)
	client := redis.NewClient(&redis.Options{Addr: line.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	_, err = client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for range 100 {
			p.Ping(t.Context())
		}
		return nil
	})
	if took := time.Since(start); err != nil || took < 40*time.Millisecond || took > 2*time.Second {
		t.Errorf("a pipeline of 100 took %v, %v, want a little over 40 ms", took, err)
	}
}

// Every keeper keeps its locks for three leases, and is found out when one vanishes.
func TestKeepersKeepAndALostLockIsCounted(t *testing.T) {
	server := redistest.Start(t)
	probe := measure.NewServer(server.Addr())
	t.Cleanup(probe.Close)
	r := &Rig{Target{Addrs: []string{server.Addr()}}, probe}
	const n, ttl = 50, time.Second
	for _, c := range Contestants() {
		h, err := r.Hold(t.Context(), c, n, ttl, 3*ttl)
		if err != nil {
			t.Fatal(err)
		}
		if h.Lost != 0 || h.Commands < n {
			t.Errorf("%s: %+v", c.Name, h)
		}
	}
	for _, c := range Contestants() {
		k, err := c.Open(r.Target, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		keys := keysOf("bench-key", n)
		if err := takeAll(t.Context(), k, keys); err != nil {
			t.Fatal(err)
		}
		client := server.Client(t)
		if n := client.Del(t.Context(), k.RedisKey(keys[7])).Val(); n != 1 {
			t.Errorf("%s does not use %s", c.Name, k.RedisKey(keys[7]))
		}
		if gone, err := missing(t.Context(), client, k, keys); gone != 1 || err != nil {
			t.Errorf("%s: %d missing, %v, want 1", c.Name, gone, err)
		}
		k.Drop(t.Context())
	}
}
