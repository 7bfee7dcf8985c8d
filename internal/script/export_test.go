package script

import (
	"context"
	"time"
)

var soon = deadlines{epoch: time.Now()}

// Deadline is the context of a call that ends soon.
func Deadline(parent context.Context, limit time.Time) context.Context {
	return LateDeadline(parent, time.Now(), limit)
}

// LateDeadline is that of a call that read the clock a while ago.
func LateDeadline(parent context.Context, now, limit time.Time) context.Context {
	c := soon.at(parent, now, limit)
	return &c
}

// Classify names what a send that ended in err is known to have done.
func Classify(err error) string {
	return map[outcome]string{answered: "answered", notRun: "not run", unknown: "unknown"}[classify(err)]
}

// Parse checks the shape of a reply of a script with that name.
func Parse(name string, v any) (Reply, error) { return New(name, "").parse(v) }

// ParseShort is Parse for one that answers with a number alone.
func ParseShort(v any) (Reply, error) { return New("short", "").Short().parse(v) }

// ShareFrom is how many sends are under way before further ones share a round trip.
const (
	ShareFrom     = shareFrom
	ShareFromNear = shareFromNear
	Near          = near
)

// Trip is what the runner takes for the shortest round trip of late.
func (r *Runner) Trip() time.Duration { return time.Duration(r.sharing.trip.Load()) }

// NoteTrip is a round trip that took so long.
func (r *Runner) NoteTrip(took time.Duration) { r.sharing.trip.note(took) }

// UnderWay is how many sends are.
func (r *Runner) UnderWay() int { return int(r.sharing.underWay.Load()) }

// Queued is how many sends wait for a round trip to share.
func (r *Runner) Queued() (n int) {
	r.sharing.mu.Lock()
	defer r.sharing.mu.Unlock()
	for _, q := range r.sharing.queues {
		n += len(q.waiting)
	}
	return n
}
