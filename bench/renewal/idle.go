package renewal

import (
	"context"
	"time"
)

// Idle is what many locks cost of which none is due.
type Idle struct {
	Held
	// AddRemove is the time of one acquire and release beside many held locks, over
	// that beside few, round by round; Few and Many are the counts.
	AddRemove []float64
	Few, Many int
}

const (
	addRemoveRounds = 15
	addRemoveBlock  = 200
)

// Idle holds many locks with a lease so long that none is due, and then takes and
// gives back one more, beside them and beside few, in turns.
func (r *Rig) Idle(ctx context.Context, few, many int, hold time.Duration) (Idle, error) {
	const ttl = 10 * time.Minute
	i := Idle{Few: few, Many: many}
	var crowded *ours
	open := func(t Target, ttl time.Duration) (Keeper, error) {
		k, err := openOurs(t, ttl)
		crowded = k.(*ours)
		return crowdedKeeper{crowded}, err
	}
	var err error
	if i.Held, err = r.Hold(ctx, Contestant{Ours, open}, many, ttl, hold); err != nil {
		return i, err
	}
	defer crowded.Drop(ctx)
	keeper, err := openOurs(r.Target, ttl)
	if err != nil {
		return i, err
	}
	sparse := keeper.(*ours)
	defer sparse.Drop(ctx)
	if err := takeAll(ctx, sparse, keysOf("beside-few", few)); err != nil {
		return i, err
	}
	for range addRemoveRounds {
		a, err := sparse.pairs(ctx, "one-more-beside-few", addRemoveBlock)
		if err != nil {
			return i, err
		}
		b, err := crowded.pairs(ctx, "one-more-beside-many", addRemoveBlock)
		if err != nil {
			return i, err
		}
		i.AddRemove = append(i.AddRemove, float64(b)/float64(a))
	}
	return i, nil
}

// crowdedKeeper keeps its locks when it is told to drop them: they are needed on.
type crowdedKeeper struct{ *ours }

func (crowdedKeeper) Drop(context.Context) {}

// pairs takes and gives back one lock n times.
func (o *ours) pairs(ctx context.Context, key string, n int) (time.Duration, error) {
	lock, err := o.locks.NewLock(ctx, key, o.options)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	for range n {
		if err := lock.Acquire(ctx); err != nil {
			return 0, err
		}
		if err := lock.Release(ctx); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}
