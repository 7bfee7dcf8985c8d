package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-lynx/lynx"
	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// demo is one run: a lock's key, what the lock protects, and what has happened.
type demo struct {
	key     string // new for every run, so that two runs on one server do not meet
	section section
	account resource
	reports reports
	peer    redis.UniversalClient
	disturb func()

	start time.Time
	outMu sync.Mutex // one line at a time
	out   io.Writer

	seen tally
}

// tally counts what happened; differences compares it with what should have.
type tally struct {
	acquired, renewed, lost, stale atomic.Int64
	short                          atomic.Int64 // sections of the competition

	mu       sync.Mutex // guards failures
	failures []string
}

func newDemo(cfg config, app *lynx.LynxApp, out io.Writer) (*demo, error) {
	locks, err := provider(app)
	if err != nil {
		return nil, fmt.Errorf("the application has no lock provider: %w", err)
	}
	d := &demo{
		key: "quickstart-" + rand.Text()[:8], account: cfg.fence, disturb: cfg.disturb,
		peer: dial(cfg.redis), start: time.Now(), out: out,
	}
	if d.account == nil {
		d.account = &account{}
	}
	d.reports = reports{locks: locks, key: d.key}
	redislock.SetCallback(renewals{demo: d})
	d.say("lynx", "started, lynx.redis at %s", strings.Join(cfg.redis, ", "))
	return d, nil
}

// close leaves nothing behind: the fencing counter would live for a week.
func (d *demo) close() {
	redislock.SetCallback(nil)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	d.peer.Del(ctx, redislock.HashTag(d.key)+":token")
	_ = d.peer.Close()
}

// all runs the steps, between two looks at /metrics because it counts for the whole
// process. The error says what happened otherwise than planned.
func (d *demo) all(ctx context.Context, site *site) (summary string, err error) {
	before, err := site.scrape(ctx)
	if err != nil {
		return "", err
	}
	d.compete(ctx)
	d.outlive(ctx)
	d.lose(ctx)
	after, err := site.scrape(ctx)
	if err != nil {
		d.failed("reading /metrics", err)
	}
	d.say("metrics", "%s says %s: %.0f", site.url, acquireSuccess, after[acquireSuccess])
	if list := d.differences(before, after); len(list) > 0 {
		return "", fmt.Errorf("not as planned: %s", strings.Join(list, "; "))
	}
	return fmt.Sprintf("%d acquisitions, %d overlaps, %d loss noticed, %d stale write refused",
		d.seen.acquired.Load(), d.section.overlaps.Load(), d.seen.lost.Load(), d.seen.stale.Load()), nil
}

// say prints one line: since when, who, what.
func (d *demo) say(who, format string, args ...any) {
	d.outMu.Lock()
	defer d.outMu.Unlock()
	fmt.Fprintf(d.out, "%5.2fs  %-13s  %s\n", time.Since(d.start).Seconds(), who, fmt.Sprintf(format, args...))
}

// failed notes an error that no step expects.
func (d *demo) failed(who string, err error) {
	text := strings.ReplaceAll(err.Error(), "\n", "; ") // joined errors come on lines of their own
	d.say(who, "failed: %s", text)
	d.seen.mu.Lock()
	defer d.seen.mu.Unlock()
	d.seen.failures = append(d.seen.failures, who+": "+text)
}

// sleep is work that takes d; it ends early when ctx does.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
