package redislock

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Values of the label "result".
const (
	resultSuccess  = "success"
	resultConflict = "conflict"
	resultTimeout  = "timeout"
	resultError    = "error"
	resultFull     = "full"
	resultPartial  = "partial"
	resultNotHeld  = "not_held"
	resultNotOwner = "not_owner"
	resultNotExist = "not_exist"
	resultFail     = "fail"
)

// Values of the label "op".
const (
	opAcquire = "acquire"
	opUnlock  = "unlock"
	opRenew   = "renew"
)

// Values of the label "kind".
const (
	handedLocal    = "local"
	handedWoken    = "woken"
	handedFallback = "fallback"
)

const namespace, subsystem = "lynx", "redis_lock"

func counterVec(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: name, Help: help,
	}, labels)
}

func histogramVec(name, help, label string, buckets []float64) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, Buckets: buckets,
	}, []string{label})
}

// The collectors. They count from the start of the process, registered or not.
var (
	acquireTotal = counterVec("acquire_total", "Attempts to acquire a lock, by result.", "result")
	unlockTotal  = counterVec("unlock_total", "Releases of a lock, by result.", "result")
	renewTotal   = counterVec("renew_total", "Renewals of a lease, by result.", "result")
	lostTotal    = counterVec("lost_total", "Leases that ended under their holder, by reason.", "reason")
	skippedTotal = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "skipped_renewals_total",
		Help: "Renewals that had to wait because every worker was busy.",
	})
	renewLateness = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "renew_lateness_seconds",
		Help: "How far behind its due time an automatic renewal went out.",
		// 1 ms to 16 s: from a round trip to more than any lease should bear.
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
	})
	activeLocks = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "active_locks",
		Help: "Locks held and renewed by this process.",
	})
	waiting = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: "waiters",
		Help: "Calls that wait for a lock in this process, those of a retry strategy apart.",
	})
	handOverTotal = counterVec("hand_overs_total",
		"Locks that came to a waiter: from a release in this process, because it was told, or because it looked.", "kind")
	// 0.1 ms to 3.3 s: a round trip on loopback up to a call's time.
	scriptLatency = histogramVec("script_latency_seconds", "Time of a call to Redis with its re-sends, by operation.",
		"op", prometheus.ExponentialBuckets(0.0001, 2, 16))
	// 1 ms to 65 s.
	waitDuration = histogramVec("wait_duration_seconds", "Time from asking for a lock to having it or giving up, by result.",
		"result", prometheus.ExponentialBuckets(0.001, 2, 17))
)

// What is rare starts at 0, so that the first one shows as an increase.
func init() {
	for _, reason := range []LossReason{lossExpired, lossTaken, lossVanished} {
		lostTotal.WithLabelValues(string(reason))
	}
	for _, kind := range []string{handedLocal, handedWoken, handedFallback} {
		handOverTotal.WithLabelValues(kind)
	}
}

// stats are the numbers of GetStats that no collector can be asked for cheaply.
var stats struct {
	active, renewals, renewalErrors, skipped, latency, latencyCount, lateness, latenessCount atomic.Int64
}

// InitMetrics registers the collectors; nil: on the default registerer. It may be
// called many times, at once and for several registries. When another collector
// has one of the names, the others are registered and the clash is logged.
func InitMetrics(reg prometheus.Registerer) {
	if reg == nil {
		reg = prometheus.DefaultRegisterer
	}
	for _, c := range []prometheus.Collector{
		acquireTotal, unlockTotal, renewTotal, lostTotal, skippedTotal, renewLateness, activeLocks, waiting, handOverTotal,
		scriptLatency, waitDuration,
	} {
		err := reg.Register(c)
		var already prometheus.AlreadyRegisteredError
		if errors.As(err, &already) && already.ExistingCollector == c {
			continue
		}
		if err != nil {
			logError("redislock: a metric could not be registered: %v", err)
		}
	}
}

// GetStats returns the process's numbers: total_locks and active_locks (holds
// under renewal), renewal_count, renewal_errors, skipped_renewals,
// renew_latency_ns (a sum, over renew_latency_count renewals), renew_lateness_ns
// (a sum, over the renew_lateness_count automatic renewals that went out, of how far
// behind their due time they did), and of the
// renewal workers worker_queue_len (renewals waiting) and worker_queue_cap
// (renewals that may be in flight for one client).
func GetStats() map[string]int64 {
	waiting, limit := process.load()
	return map[string]int64{
		"total_locks":          stats.active.Load(),
		"active_locks":         stats.active.Load(),
		"renewal_count":        stats.renewals.Load(),
		"renewal_errors":       stats.renewalErrors.Load(),
		"skipped_renewals":     stats.skipped.Load(),
		"renew_latency_ns":     stats.latency.Load(),
		"renew_latency_count":  stats.latencyCount.Load(),
		"renew_lateness_ns":    stats.lateness.Load(),
		"renew_lateness_count": stats.latenessCount.Load(),
		"worker_queue_len":     int64(waiting),
		"worker_queue_cap":     int64(limit),
	}
}

// recordAcquire counts one attempt.
func recordAcquire(err error, took time.Duration) {
	switch {
	case err == nil:
		acquireSuccess().Inc()
	case errors.Is(err, ErrLockAcquireConflict):
		acquireTotal.WithLabelValues(resultConflict).Inc()
	default:
		acquireTotal.WithLabelValues(resultError).Inc()
	}
	acquireLatency().Observe(took.Seconds())
}

// recordWait counts one call of the Lock… functions, AcquireWithRetry or AcquireWait.
func recordWait(err error, took time.Duration) {
	result := resultSuccess
	switch {
	case err == nil:
	case errors.Is(err, ErrLockAcquireTimeout):
		result = resultTimeout
	case errors.Is(err, ErrLockAcquireConflict):
		result = resultConflict
	default:
		result = resultError
	}
	waitDuration.WithLabelValues(result).Observe(took.Seconds())
}

// recordUnlock counts one release.
func recordUnlock(result string, took time.Duration) {
	if result == resultFull {
		unlockFull().Inc()
	} else {
		unlockTotal.WithLabelValues(result).Inc()
	}
	unlockLatency().Observe(took.Seconds())
}

// The series of what goes well, which may be tens of thousands a second: to look one up
// costs more than to count.
var (
	acquireSuccess = counterOf(acquireTotal, resultSuccess)
	unlockFull     = counterOf(unlockTotal, resultFull)
	renewSuccess   = counterOf(renewTotal, resultSuccess)
	acquireLatency = latencyOf(opAcquire)
	unlockLatency  = latencyOf(opUnlock)
	renewLatency   = latencyOf(opRenew)
)

// counterOf is a series, from when it is needed first.
func counterOf(vec *prometheus.CounterVec, label string) func() prometheus.Counter {
	return sync.OnceValue(func() prometheus.Counter { return vec.WithLabelValues(label) })
}

func latencyOf(op string) func() prometheus.Observer {
	return sync.OnceValue(func() prometheus.Observer { return scriptLatency.WithLabelValues(op) })
}

// recordRenew counts one renewal.
func recordRenew(result string, took time.Duration) {
	renewLatency().Observe(took.Seconds())
	if result == resultSuccess {
		renewSuccess().Inc()
		stats.renewals.Add(1)
	} else {
		renewTotal.WithLabelValues(result).Inc()
		stats.renewalErrors.Add(1)
	}
	stats.latency.Add(int64(took))
	stats.latencyCount.Add(1)
}

// recordRenewGivenUp counts a renewed lease whose deadline came.
func recordRenewGivenUp() {
	renewTotal.WithLabelValues(resultFail).Inc()
	stats.renewalErrors.Add(1)
}

// recordLost counts a lease that ended under its holder.
func recordLost(reason LossReason) { lostTotal.WithLabelValues(string(reason)).Inc() }

// recordWaiting counts calls that wait.
func recordWaiting(delta int) { waiting.Add(float64(delta)) }

// recordHandOver counts a lock that came to a waiter.
func recordHandOver(kind string) { handOverTotal.WithLabelValues(kind).Inc() }

// recordSkipped counts renewals that have to wait for a worker.
func recordSkipped(n int) {
	skippedTotal.Add(float64(n))
	stats.skipped.Add(int64(n))
}

// recordLateness counts a renewal that goes out.
func recordLateness(late time.Duration) {
	renewLateness.Observe(late.Seconds())
	stats.lateness.Add(int64(late))
	stats.latenessCount.Add(1)
}

// recordActive counts holds under renewal.
func recordActive(delta int) {
	activeLocks.Add(float64(delta))
	stats.active.Add(int64(delta))
}
