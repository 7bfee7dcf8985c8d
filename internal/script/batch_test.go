package script_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
	"github.com/go-lynx/lynx-redis-lock/internal/script"
)

// eachScript counts every key up and answers with what each part wants.
var eachScript = script.New("each", `
local codes = {}
for i = 1, #KEYS do redis.call('INCR', KEYS[i]); codes[i] = tonumber(ARGV[i]) end
return codes`)

// each is a batch with a part for each key; a part's code is its place, from 1.
func each(timeout time.Duration, keys ...string) script.Batch {
	b := script.Batch{Script: eachScript, Timeout: timeout}
	for i, key := range keys {
		b.Parts = append(b.Parts, script.Part{Keys: []string{key}, Args: []string{strconv.Itoa(i + 1)}})
	}
	return b
}

func TestABatchAnswersForEachPart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 2 { // the first one brings the source along
		codes, res := r.runner.RunBatch(t.Context(), each(5*time.Second, "a", "b", "c"))
		if !slices.Equal(codes, []int64{1, 2, 3}) || res.Err != nil {
			t.Fatalf("codes %v, %+v", codes, res)
		}
	}
}

func TestARefusedBatchLeavesEachPartToBeAskedForAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := r.direct.LPush(t.Context(), "b", "no number").Err(); err != nil {
		t.Fatal(err)
	}
	codes, res := r.runner.RunBatch(t.Context(), each(5*time.Second, "a", "b", "c"))
	if !slices.Equal(codes, []int64{script.Alone, script.Alone, script.Alone}) || res.Err != nil {
		t.Fatalf("codes %v, %+v", codes, res)
	}
	short := script.New("short", "return {1}")
	codes, res = r.runner.RunBatch(t.Context(), script.Batch{Script: short, Parts: each(0, "a", "b").Parts})
	if !slices.Equal(codes, []int64{script.Alone, script.Alone}) || res.Err != nil {
		t.Fatalf("of a reply that is too short: codes %v, %+v", codes, res)
	}
}

// The client would send a pipeline three times more by itself.
func TestABatchToAClusterIsSentTwiceAtMost(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	primary := cluster.PrimaryFor(t, "{a}")
	proxy := redistest.StartProxy(t, primary.Addr())
	client := cluster.Client(t, func(o *redis.ClusterOptions) {
		o.MaxRetries, o.MaxRedirects = 3, 3
		o.Dialer = through(primary.Addr(), proxy.Addr())
	})
	var keys []string
	for i := 0; len(keys) < 6; i++ {
		if key := fmt.Sprintf("{%d}", i); cluster.PrimaryFor(t, key) == primary {
			keys = append(keys, key, key+"-too") // two of a slot
		}
	}
	runner := script.NewRunner(client)
	codes, res := runner.RunBatch(t.Context(), each(10*time.Second, keys...))
	if !slices.Equal(codes, []int64{1, 2, 3, 4, 5, 6}) || res.Err != nil {
		t.Fatalf("codes %v, %+v", codes, res)
	}
	scripts := func(cmd []string) bool { return strings.HasPrefix(strings.ToLower(cmd[0]), "eval") }
	before := proxy.Count(scripts)
	proxy.DropReplies(100, scripts)
	codes, res = runner.RunBatch(t.Context(), each(10*time.Second, keys...))
	if codes != nil || res.Err == nil || !res.Unanswered {
		t.Fatalf("without an answer: codes %v, %+v", codes, res)
	}
	if sent := proxy.Count(scripts) - before; sent > 2*3 {
		t.Errorf("%d commands were sent for 3 slots, want each twice at most", sent)
	}
}

// through is a dialer that goes to another address instead of one.
func through(addr, proxy string) func(ctx context.Context, network, to string) (net.Conn, error) {
	return func(ctx context.Context, network, to string) (net.Conn, error) {
		if to == addr {
			to = proxy
		}
		return new(net.Dialer).DialContext(ctx, network, to)
	}
}

func TestAPartInAnotherSlotOfAnotherNodeIsLeftToBeAskedForAlone(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	runner := script.NewRunner(cluster.Client(t))
	here, there := "{a}", ""
	for i := 0; there == ""; i++ {
		if key := fmt.Sprintf("{%d}", i); cluster.PrimaryFor(t, key) != cluster.PrimaryFor(t, here) {
			there = key
		}
	}
	if runner.Route(here) != runner.Route(there) {
		t.Error("the client knew the nodes before its first command")
	}
	codes, res := runner.RunBatch(t.Context(), each(5*time.Second, here, there, "{a}-too"))
	if !slices.Equal(codes, []int64{1, script.Alone, 3}) || res.Err != nil {
		t.Fatalf("codes %v, %+v", codes, res)
	}
	if runner.Route(here) == runner.Route(there) || runner.Route(here) != runner.Route("{a}-too") {
		t.Error("the routes are not those of the nodes")
	}
}

// A caller leaves at its deadline; what it has left behind writes to nothing it has.
func TestABatchIsOverInTimeOnASilentServer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.connect(t)
	r.proxy.BlackHole(true)
	defer r.proxy.BlackHole(false)
	const limit = 300 * time.Millisecond
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			start := time.Now()
			codes, res := r.runner.RunBatch(t.Context(), each(limit, "a", "b"))
			if took := time.Since(start); took > limit+200*time.Millisecond || codes != nil || res.Err == nil {
				t.Errorf("after %s: codes %v, %+v", took, codes, res)
			}
		})
	}
	calls.Wait()
}
