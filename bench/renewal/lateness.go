package renewal

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

const latenessMetric = "lynx_redis_lock_renew_lateness_seconds"

// bucket is one of a histogram: how many samples were at most bound.
type bucket struct {
	bound float64
	count uint64
}

type histogram []bucket

// lateness reads the library's own histogram; empty when it has none.
func lateness() histogram {
	registry := prometheus.NewRegistry()
	redislock.InitMetrics(registry)
	families, err := registry.Gather()
	if err != nil {
		return nil
	}
	for _, family := range families {
		if family.GetName() != latenessMetric {
			continue
		}
		h := family.GetMetric()[0].GetHistogram()
		var buckets histogram
		for _, b := range h.GetBucket() {
			buckets = append(buckets, bucket{b.GetUpperBound(), b.GetCumulativeCount()})
		}
		return append(buckets, bucket{math.Inf(1), h.GetSampleCount()})
	}
	return nil
}

// since is what came after before.
func (h histogram) since(before histogram) histogram {
	diff := make(histogram, len(h))
	copy(diff, h)
	for i := range before {
		diff[i].count -= before[i].count
	}
	return diff
}

// percentile is the upper bound of the bucket that p falls into: the true one is not
// above it. It is false when there are no samples, or when it is above every bound.
func (h histogram) percentile(p float64) (time.Duration, bool) {
	if len(h) == 0 || h[len(h)-1].count == 0 {
		return 0, false
	}
	rank := uint64(math.Ceil(p / 100 * float64(h[len(h)-1].count)))
	for _, b := range h {
		if b.count >= rank && !math.IsInf(b.bound, 1) {
			return time.Duration(b.bound * float64(time.Second)), true
		}
	}
	return math.MaxInt64, true
}
