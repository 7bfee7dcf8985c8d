package redislock_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// families are the metrics of the contract.
var families = map[string]dto.MetricType{
	"lynx_redis_lock_acquire_total":          dto.MetricType_COUNTER,
	"lynx_redis_lock_unlock_total":           dto.MetricType_COUNTER,
	"lynx_redis_lock_renew_total":            dto.MetricType_COUNTER,
	"lynx_redis_lock_lost_total":             dto.MetricType_COUNTER,
	"lynx_redis_lock_skipped_renewals_total": dto.MetricType_COUNTER,
	"lynx_redis_lock_renew_lateness_seconds": dto.MetricType_HISTOGRAM,
	"lynx_redis_lock_active_locks":           dto.MetricType_GAUGE,
	"lynx_redis_lock_waiters":                dto.MetricType_GAUGE,
	"lynx_redis_lock_hand_overs_total":       dto.MetricType_COUNTER,
	"lynx_redis_lock_script_latency_seconds": dto.MetricType_HISTOGRAM,
	"lynx_redis_lock_wait_duration_seconds":  dto.MetricType_HISTOGRAM,
}

// registry is a fresh one with the package's metrics.
func registry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	redislock.InitMetrics(reg)
	return reg
}

// samples are the values of all series; a histogram's is its number of samples.
func samples(t *testing.T) map[string]float64 {
	t.Helper()
	gathered, err := registry().Gather()
	must(t, "Gather", err)
	values := map[string]float64{}
	for _, family := range gathered {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			if labels := m.GetLabel(); len(labels) > 0 {
				name += fmt.Sprintf("{%s=%q}", labels[0].GetName(), labels[0].GetValue())
			}
			values[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return values
}

// since gathers the counters and the numbers of samples as they have grown since,
// and leaves out what has not. What a process counted before does not matter then.
func since(t *testing.T, before map[string]float64) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		gathered, err := registry().Gather()
		var grown []*dto.MetricFamily
		for _, family := range gathered {
			kept := &dto.MetricFamily{Name: family.Name, Help: new(string), Type: dto.MetricType_COUNTER.Enum()}
			for _, m := range family.GetMetric() {
				name := family.GetName()
				if labels := m.GetLabel(); len(labels) > 0 {
					name += fmt.Sprintf("{%s=%q}", labels[0].GetName(), labels[0].GetValue())
				}
				value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount()) - before[name]
				if value != 0 {
					kept.Metric = append(kept.Metric, &dto.Metric{Label: m.GetLabel(), Counter: &dto.Counter{Value: &value}})
				}
			}
			if len(kept.Metric) > 0 {
				grown = append(grown, kept)
			}
		}
		return grown, err
	})
}

// expect is the text of what has to have grown, one "name{label} value" a line
// without the names' common prefix.
func expect(lines string) string {
	byName := map[string][]string{}
	for line := range strings.Lines(lines) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name := line[:strings.IndexAny(line, "{ ")]
		byName[name] = append(byName[name], line)
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		fmt.Fprintf(&text, "# HELP lynx_redis_lock_%s\n# TYPE lynx_redis_lock_%[1]s counter\n", name)
		for _, line := range byName[name] {
			fmt.Fprintf(&text, "lynx_redis_lock_%s\n", line)
		}
	}
	return text.String()
}

// counted is a behaviour: what a call adds to the metrics, and nothing else.
func counted(sentence string, setup func(*testing.T, *bed), call func(*testing.T, *bed), want string) behaviour {
	return behaviour{sentence, func(t *testing.T, b *bed) {
		if setup != nil {
			setup(t, b)
		}
		before := samples(t)
		call(t, b)
		if err := testutil.GatherAndCompare(since(t, before), strings.NewReader(expect(want))); err != nil {
			t.Error(err)
		}
	}}
}

func held(t *testing.T, b *bed) { b.held(t) }

func elsewhere(depth int) func(*testing.T, *bed) {
	return func(t *testing.T, b *bed) { b.takenElsewhere(t, "a-peer", depth, time.Minute) }
}

func unlockElsewhere(t *testing.T, b *bed) { _ = b.locks.UnlockByValue(t.Context(), b.key, "a-peer") }

var metricsContract = []behaviour{
	counted("an_acquire_is_one_sample", nil, held, `
		acquire_total{result="success"} 1
		script_latency_seconds{op="acquire"} 1`),
	counted("a_refused_acquire_is_one_sample", held, func(t *testing.T, b *bed) { _ = b.lock(t).Acquire(t.Context()) }, `
		acquire_total{result="conflict"} 1
		script_latency_seconds{op="acquire"} 1`),
	counted("a_failed_acquire_is_one_sample", func(t *testing.T, b *bed) { b.set(t, b.tokenKey(), "abc", time.Minute) },
		func(t *testing.T, b *bed) { _ = b.lock(t).Acquire(t.Context()) }, `
		acquire_total{result="error"} 1
		script_latency_seconds{op="acquire"} 1`),
	counted("retries_are_one_sample_each_and_one_wait", held, func(t *testing.T, b *bed) {
		_ = b.lock(t).AcquireWithRetry(t.Context(), strategy(3, time.Millisecond))
	}, `
		acquire_total{result="conflict"} 4
		script_latency_seconds{op="acquire"} 4
		wait_duration_seconds{result="conflict"} 1`),
	counted("a_reentry_and_releases_are_one_sample_each", nil, func(t *testing.T, b *bed) {
		lock := b.held(t)
		must(t, "Acquire", lock.Acquire(t.Context()))
		must(t, "Release", lock.Release(t.Context()))
		must(t, "Release", lock.Release(t.Context()))
		_ = lock.Release(t.Context())
	}, `
		acquire_total{result="success"} 2
		unlock_total{result="full"} 1
		unlock_total{result="not_held"} 1
		unlock_total{result="partial"} 1
		script_latency_seconds{op="acquire"} 2
		script_latency_seconds{op="unlock"} 3`),
	counted("a_release_that_finds_a_loss_is_not_held", nil, func(t *testing.T, b *bed) {
		lock := b.held(t)
		b.del(t, b.ownerKey())
		_ = lock.Release(t.Context())
	}, `
		acquire_total{result="success"} 1
		unlock_total{result="not_held"} 1
		lost_total{reason="vanished"} 1
		script_latency_seconds{op="acquire"} 1
		script_latency_seconds{op="unlock"} 1`),
	counted("a_release_without_an_answer_is_an_error", nil, func(t *testing.T, b *bed) {
		lock := b.held(t, timeout(callTimeout))
		b.wire.refuse()
		_ = lock.Release(t.Context())
		b.wire.heal()
	}, `
		acquire_total{result="success"} 1
		unlock_total{result="error"} 1
		script_latency_seconds{op="acquire"} 1
		script_latency_seconds{op="unlock"} 1`),
	counted("an_active_lock_is_in_the_gauge", nil, func(t *testing.T, b *bed) { b.held(t, renewed) }, `
		acquire_total{result="success"} 1
		active_locks 1
		script_latency_seconds{op="acquire"} 1`),
	counted("each_Lock_function_is_one_wait_and_leaves_no_active_lock", nil, func(t *testing.T, b *bed) {
		for name, run := range runners(b) {
			must(t, name, run(t.Context(), func() error { return nil }))
		}
	}, `
		acquire_total{result="success"} 4
		unlock_total{result="full"} 4
		script_latency_seconds{op="acquire"} 4
		script_latency_seconds{op="unlock"} 4
		wait_duration_seconds{result="success"} 4`),
	counted("a_WaitTimeout_that_runs_out_is_one_wait", nil, func(t *testing.T, b *bed) {
		b.wire.break_(func(ctx context.Context, _ func(context.Context) error) error { <-ctx.Done(); return ctx.Err() })
		_ = b.locks.LockWithOptions(t.Context(), b.key, options(wait(50*time.Millisecond)), func() error { return nil })
		b.wire.heal()
	}, `
		acquire_total{result="error"} 1
		script_latency_seconds{op="acquire"} 1
		wait_duration_seconds{result="timeout"} 1`),
	counted("an_AcquireWait_is_one_wait", nil, func(t *testing.T, b *bed) { _ = b.lock(t).AcquireWait(t.Context()) }, `
		acquire_total{result="success"} 1
		script_latency_seconds{op="acquire"} 1
		wait_duration_seconds{result="success"} 1`),
	{"waiters_and_hand_overs_are_counted_by_kind", func(t *testing.T, b *bed) {
		kinds := []string{"local", "woken", "fallback"}
		for _, want := range kinds {
			holder, providers := b.held(t), b.locks
			if want == "woken" {
				providers = b.provider(t) // another process, as far as Redis can see
			}
			before := samples(t)
			waiter := lockOf(t, providers, b.key)
			got := async(func() error { return waiter.AcquireWait(t.Context()) })
			awaitQueued(t, b.control, b.key, 1)
			awaitAsleep(t, 1)
			equal(t, "waiters", samples(t)["lynx_redis_lock_waiters"]-before["lynx_redis_lock_waiters"], 1)
			if want == "fallback" {
				b.del(t, b.ownerKey())
			} else {
				must(t, "Release", holder.Release(t.Context()))
			}
			must(t, "AcquireWait", closes(t, "the waiter has it", got))
			after := samples(t)
			equal(t, "waiters", after["lynx_redis_lock_waiters"], before["lynx_redis_lock_waiters"])
			for _, kind := range kinds {
				name, n := `lynx_redis_lock_hand_overs_total{kind="`+kind+`"}`, 0.0
				if kind == want {
					n = 1
				}
				equal(t, want+": "+name, after[name]-before[name], n)
			}
			must(t, "Release", waiter.Release(t.Context()))
		}
	}},
	counted("a_failed_Lock_call_is_one_wait", func(t *testing.T, b *bed) { b.set(t, b.tokenKey(), "abc", time.Minute) },
		func(t *testing.T, b *bed) {
			_ = b.locks.LockWithOptions(t.Context(), b.key, options(), func() error { return nil })
		}, `
		acquire_total{result="error"} 1
		script_latency_seconds{op="acquire"} 1
		wait_duration_seconds{result="error"} 1`),
	counted("a_Renew_is_one_sample", nil, func(t *testing.T, b *bed) { _ = b.held(t).Renew(t.Context(), time.Minute) }, `
		acquire_total{result="success"} 1
		renew_total{result="success"} 1
		script_latency_seconds{op="acquire"} 1
		script_latency_seconds{op="renew"} 1`),
	counted("a_Renew_without_an_owner_key_is_not_exist", nil, func(t *testing.T, b *bed) {
		lock := b.held(t)
		b.del(t, b.ownerKey())
		_ = lock.Renew(t.Context(), time.Minute)
	}, `
		acquire_total{result="success"} 1
		renew_total{result="not_exist"} 1
		lost_total{reason="vanished"} 1
		script_latency_seconds{op="acquire"} 1
		script_latency_seconds{op="renew"} 1`),
	counted("a_Renew_of_anothers_lock_is_not_owner", nil, func(t *testing.T, b *bed) {
		lock := b.held(t)
		b.takenElsewhere(t, "a-peer", 1, time.Minute)
		_ = lock.Renew(t.Context(), time.Minute)
	}, `
		acquire_total{result="success"} 1
		renew_total{result="not_owner"} 1
		lost_total{reason="taken"} 1
		script_latency_seconds{op="acquire"} 1
		script_latency_seconds{op="renew"} 1`),
	counted("a_Renew_without_an_answer_is_an_error", nil, func(t *testing.T, b *bed) {
		lock := b.held(t, timeout(callTimeout))
		b.wire.refuse()
		_ = lock.Renew(t.Context(), time.Minute)
		b.wire.heal()
	}, `
		acquire_total{result="success"} 1
		renew_total{result="error"} 1
		script_latency_seconds{op="acquire"} 1
		script_latency_seconds{op="renew"} 1`),
	counted("an_automatic_renewal_that_finds_a_loss_is_one_sample", nil, func(t *testing.T, b *bed) {
		lock := b.held(t, renewed, expiration(lease))
		b.del(t, b.ownerKey())
		closes(t, "Done", lock.Done())
		settle(t)
	}, `
		acquire_total{result="success"} 1
		renew_total{result="not_exist"} 1
		lost_total{reason="vanished"} 1
		renew_lateness_seconds 1
		script_latency_seconds{op="acquire"} 1
		script_latency_seconds{op="renew"} 1`),
	counted("UnlockByValue_elsewhere_of_one_of_two_levels_is_partial", elsewhere(2), unlockElsewhere, `
		unlock_total{result="partial"} 1
		script_latency_seconds{op="unlock"} 1`),
	counted("UnlockByValue_elsewhere_of_the_last_level_is_full", elsewhere(1), unlockElsewhere, `
		unlock_total{result="full"} 1
		script_latency_seconds{op="unlock"} 1`),
	counted("UnlockByValue_of_nothing_is_not_held", nil, unlockElsewhere, `
		unlock_total{result="not_held"} 1
		script_latency_seconds{op="unlock"} 1`),
	counted("UnlockByValue_of_a_hold_of_this_process_is_one_sample", nil, func(t *testing.T, b *bed) {
		must(t, "UnlockByValue", b.locks.UnlockByValue(t.Context(), b.key, b.held(t, renewed).GetValue()))
	}, `
		acquire_total{result="success"} 1
		unlock_total{result="full"} 1
		script_latency_seconds{op="acquire"} 1
		script_latency_seconds{op="unlock"} 1`),
	counted("bad_input_is_no_sample", nil, func(t *testing.T, b *bed) {
		_ = b.locks.LockWithOptions(t.Context(), b.key, options(expiration(0)), func() error { return nil })
		_ = b.locks.LockWithOptions(t.Context(), b.key, options(), nil)
		_ = b.locks.UnlockByValue(t.Context(), "", "value")
	}, ``),
	{"a_renewal_given_up_at_the_deadline_is_fail_once_and_error_per_attempt", func(t *testing.T, b *bed) {
		before := samples(t)
		lock := b.held(t, renewed, expiration(500*time.Millisecond))
		b.wire.reset()
		b.wire.refuse()
		runsOut(t, lock)
		settle(t)
		b.wire.heal()
		after := samples(t)
		grown := func(result string) float64 {
			name := `lynx_redis_lock_renew_total{result="` + result + `"}`
			return after[name] - before[name]
		}
		equal(t, "fail", grown("fail"), 1)
		const lost = `lynx_redis_lock_lost_total{reason="expired"}`
		equal(t, lost, after[lost]-before[lost], 1)
		if grown("error") < 1 {
			t.Error("no attempt was counted as an error")
		}
		equal(t, "success", grown("success"), 0)
		equal(t, "active_locks", after["lynx_redis_lock_active_locks"], before["lynx_redis_lock_active_locks"])
	}},
}

// used makes each labelled family have a series.
func used(t *testing.T) {
	t.Helper()
	b := newBed(t, startMiniredis(t))
	must(t, "Lock", b.locks.LockContext(t.Context(), b.key, options(), func(ctx context.Context, lock *redislock.RedisLock) error {
		return lock.Renew(ctx, time.Minute)
	}))
}

// wantFamilies checks what a registry gathers, but for those left out.
func wantFamilies(t *testing.T, reg prometheus.Gatherer, without ...string) {
	t.Helper()
	gathered, err := reg.Gather()
	must(t, "Gather", err)
	got := map[string]dto.MetricType{}
	for _, family := range gathered {
		if strings.HasPrefix(family.GetName(), "lynx_redis_lock_") {
			got[family.GetName()] = family.GetType()
		}
	}
	want := maps.Clone(families)
	for _, name := range without {
		delete(want, name)
		delete(got, name)
	}
	if !maps.Equal(got, want) {
		t.Errorf("families %v, want %v", got, want)
	}
}

func TestMetricsAreThoseOfTheContractAndPassTheLinter(t *testing.T) {
	used(t)
	reg := registry()
	wantFamilies(t, reg)
	problems, err := testutil.GatherAndLint(reg)
	must(t, "GatherAndLint", err)
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}

func TestInitMetricsManyTimesConcurrentlyAndOnSeveralRegistries(t *testing.T) {
	used(t)
	registries := []*prometheus.Registry{prometheus.NewRegistry(), prometheus.NewRegistry()}
	var wg sync.WaitGroup
	for range 8 {
		for _, reg := range registries {
			wg.Go(func() { redislock.InitMetrics(reg) })
		}
	}
	wg.Wait()
	for _, reg := range registries {
		redislock.InitMetrics(reg)
		wantFamilies(t, reg)
	}
	redislock.InitMetrics(nil)
	redislock.InitMetrics(nil)
	wantFamilies(t, prometheus.DefaultGatherer)
}

func TestInitMetricsRegistersTheRestWhenAStrangerHasOneName(t *testing.T) {
	used(t)
	for name := range families {
		reg := prometheus.NewRegistry()
		stranger := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: "Of somebody else."})
		reg.MustRegister(stranger)
		stranger.Add(41)
		redislock.InitMetrics(reg)
		redislock.InitMetrics(reg)
		wantFamilies(t, reg, name)
		equal(t, "the stranger's value", testutil.ToFloat64(stranger), 41)
	}
}
