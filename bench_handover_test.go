package redislock_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

const (
	handOverHold = 5 * time.Millisecond
	handOverRun  = 5 * time.Second
)

// turnOf is one acquisition, on the wall clock of the machine, in ns.
type turnOf struct{ process, worker, acquired, released int64 }

// workersRole takes turns with as many workers as it is told, until its input ends.
func workersRole(addr string) {
	var n int
	if _, err := fmt.Scan(&n); err != nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	provider := redislock.NewProvider(redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true}))
	turns := make([][]turnOf, n)
	var over sync.WaitGroup
	for i := range n {
		lock, err := provider.NewLock(ctx, "job", redislock.DefaultLockOptions)
		if err != nil {
			panic(err)
		}
		over.Go(func() {
			for lock.AcquireWait(ctx) == nil {
				acquired := time.Now()
				time.Sleep(handOverHold)
				turns[i] = append(turns[i], turnOf{0, int64(i), acquired.UnixNano(), time.Now().UnixNano()})
				_ = lock.Release(context.Background())
			}
		})
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	stop()
	over.Wait()
	out := bufio.NewWriter(os.Stdout)
	for _, t := range slices.Concat(turns...) {
		fmt.Fprintln(out, t.worker, t.acquired, t.released)
	}
	_ = out.Flush()
}

// BenchmarkHandOver has two processes hand one lock to and fro, each acquisition held for
// 5 ms, and compares the time from a release to the next acquisition with what nothing can
// beat: a PUBLISH that reaches a subscriber, who then sends one EVALSHA. Run it with
// -benchtime 1x.
func BenchmarkHandOver(b *testing.B) {
	for _, workers := range []int{1, 32} {
		b.Run(fmt.Sprint(2*workers, "-waiters"), func(b *testing.B) {
			server := redistest.Start(b)
			for range b.N {
				turns := takeTurns(b, server.Addr(), workers)
				floor := publishAndRun(b, server.Client(b), 500)
				reportHandOvers(b, turns, floor, workers)
			}
		})
	}
}

func takeTurns(b *testing.B, addr string, workers int) (all []turnOf) {
	b.Helper()
	const processes = 2
	var commands [processes]*exec.Cmd
	var inputs [processes]io.WriteCloser
	var outputs [processes]io.Reader
	for i := range commands {
		cmd := exec.Command(os.Args[0], addr)
		cmd.Env, cmd.Stderr = append(os.Environ(), roleEnv+"=workers"), os.Stderr
		var err error
		if inputs[i], err = cmd.StdinPipe(); err == nil {
			outputs[i], err = cmd.StdoutPipe()
		}
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			b.Fatal(err)
		}
		commands[i] = cmd
		fmt.Fprintln(inputs[i], workers)
	}
	time.Sleep(handOverRun)
	for i, cmd := range commands {
		_ = inputs[i].Close()
		for lines := bufio.NewScanner(outputs[i]); lines.Scan(); {
			t := turnOf{process: int64(i)}
			if _, err := fmt.Sscan(lines.Text(), &t.worker, &t.acquired, &t.released); err != nil {
				b.Fatal(err)
			}
			all = append(all, t)
		}
		_ = cmd.Wait()
	}
	slices.SortFunc(all, func(x, y turnOf) int { return int(x.acquired - y.acquired) })
	return all
}

// publishAndRun measures the floor.
func publishAndRun(b *testing.B, c *redis.Client, n int) (took []float64) {
	b.Helper()
	ctx := context.Background()
	ps := c.Subscribe(ctx, "floor")
	defer func() { _ = ps.Close() }()
	if _, err := ps.Receive(ctx); err != nil {
		b.Fatal(err)
	}
	one := redis.NewScript("return 1")
	arrived := make(chan time.Time)
	go func() { // until the subscription is closed
		for {
			if _, err := ps.ReceiveMessage(ctx); err != nil {
				return
			}
			_ = one.Run(ctx, c, nil).Err()
			arrived <- time.Now()
		}
	}()
	for range n {
		start := time.Now()
		if err := c.Publish(ctx, "floor", "").Err(); err != nil {
			b.Fatal(err)
		}
		took = append(took, float64((<-arrived).Sub(start).Microseconds()))
		time.Sleep(handOverHold)
	}
	return took
}

func reportHandOvers(b *testing.B, turns []turnOf, floor []float64, workers int) {
	b.Helper()
	var local, across []float64 // µs
	byWorker, byProcess := map[[2]int64]float64{}, map[int64]float64{}
	for i, t := range turns {
		byWorker[[2]int64{t.process, t.worker}]++
		byProcess[t.process]++
		if i == 0 {
			continue
		}
		last := turns[i-1]
		if t.acquired < last.released {
			b.Errorf("two at once: %+v %+v", last, t)
		}
		took := float64(t.acquired-last.released) / 1000
		if last.process == t.process {
			local = append(local, took)
		} else {
			across = append(across, took)
		}
	}
	for name, all := range map[string][]float64{"local": local, "across": across, "floor": floor} {
		if len(all) > 0 {
			slices.Sort(all)
			b.ReportMetric(all[len(all)/2], name+"-p50-µs")
			b.ReportMetric(all[len(all)*99/100], name+"-p99-µs")
		}
	}
	b.ReportMetric(float64(len(turns))/handOverRun.Seconds(), "turns/s")
	b.ReportMetric(jain(byWorker, 2*workers), "Jain-workers")
	b.ReportMetric(jain(byProcess, 2), "Jain-processes")
	b.ReportMetric(0, "ns/op")
}

// jain is 1 when n have the same share, and 1/n when one has all (Jain, Chiu and Hawe 1984).
func jain[K comparable](shares map[K]float64, n int) float64 {
	sum, squares := 0.0, 0.0
	for _, share := range shares {
		sum += share
		squares += share * share
	}
	return sum * sum / (float64(n) * squares)
}
