// Package lease is the arithmetic of a lease's time. It is pure: now is always
// a parameter, and nothing in it starts a timer or asks Redis.
//
// A lease starts when the command that asked for it was sent, never when the
// answer came: Redis cannot have started its own clock for the key any earlier
// than that, so a holder that counts from the send always stops first.
package lease

import "time"

// Margin is taken off every lease: 1 % of ttl for clocks that run at different
// speeds, and 2 ms for the time between the check and the act.
func Margin(ttl time.Duration) time.Duration {
	return ttl/100 + 2*time.Millisecond
}

// Until is the moment up to which a lease of ttl, asked for at sent, is trusted.
func Until(sent time.Time, ttl time.Duration) time.Time {
	return sent.Add(ttl - Margin(ttl))
}

// Left is the trusted time left until the given moment; 0 or less: over.
//
// The smaller of what the monotonic and the wall clock say: the monotonic clock
// stops while a machine is suspended and Redis's does not. A wall clock set
// back says "more time is left" and is outvoted by the monotonic one.
func Left(until, now time.Time) time.Duration {
	return min(until.Sub(now), until.Round(0).Sub(now.Round(0)))
}

// Later is the later of two trusted moments, by the monotonic clock.
func Later(a, b time.Time) time.Time {
	if b.Sub(a) > 0 {
		return b
	}
	return a
}

// Earlier is the earlier of two trusted moments, by the monotonic clock.
func Earlier(a, b time.Time) time.Time {
	if b.Sub(a) < 0 {
		return b
	}
	return a
}

// Due is when a lease of ttl that is trusted until the given moment has to be
// renewed: once the lease Redis keeps has fallen to threshold of ttl, early
// enough for one call (bounded by call) to answer before the trust ends, but
// never in the first half of the lease, which keeps a threshold near 1 or a
// call time near the ttl from renewing without a pause.
func Due(until time.Time, ttl time.Duration, threshold float64, call time.Duration) time.Time {
	left := max(time.Duration(threshold*float64(ttl)), Margin(ttl)+call)
	left = min(left, ttl/2)
	return until.Add(Margin(ttl) - left)
}

// Half is when the first half of a lease that is trusted until the given moment is over.
func Half(until time.Time, ttl time.Duration) time.Time {
	return until.Add(Margin(ttl) - ttl/2)
}

// Spread is due, or earlier: by a share (0 to 1) of a tenth of the lease, but not in
// its first half. Leases that began together are so kept from being due together.
func Spread(due, until time.Time, ttl time.Duration, share float64) time.Time {
	room := min(ttl/10, due.Sub(Half(until, ttl)))
	return due.Add(-time.Duration(share * float64(room)))
}

// MinGap is the least time between the sends of two renewals of one lease.
func MinGap(ttl time.Duration) time.Duration {
	return ttl / 20
}

// Backoff is the pause after the attempt'th failed try in a row (from 0): it
// doubles from base, for at most doublings times, up to ceiling, and never
// takes more than a third of the lease time that is left.
func Backoff(attempt, doublings int, base, ceiling, left time.Duration) time.Duration {
	d := base
	for range min(attempt, doublings) {
		if d >= ceiling/2 {
			d = ceiling
			break
		}
		d *= 2
	}
	return max(min(d, ceiling, left/3), time.Millisecond)
}
