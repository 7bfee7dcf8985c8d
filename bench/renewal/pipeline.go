package renewal

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// pipeline is the least that keeps leases: the keys stand in a few queues in the order
// in which they fall due, each with a goroutine that renews them in batches, by a compare
// and a PEXPIRE, when 0.3 of the lease is left, as ours does by default.
type pipeline struct {
	client redis.UniversalClient
	sha    string
	ttl    time.Duration
	lost   atomic.Int64
	stop   chan struct{}
	all    sync.WaitGroup

	mu    sync.Mutex // guards the rest
	parts [pipelineKeepers][]entry
	taken int
}

// entry is a lock that was taken or renewed last at a time.
type entry struct {
	key string
	at  time.Time
}

const (
	pipelineKeepers = 4
	pipelineBatch   = 250
	pipelineValue   = "a-value-of-thirty-bytes-or-so!"
)

const renewSource = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`

func openPipeline(t Target, ttl time.Duration) (Keeper, error) {
	p := &pipeline{client: t.Client(), ttl: ttl, stop: make(chan struct{})}
	var err error
	if p.sha, err = loadScript(context.Background(), p.client, renewSource); err != nil {
		return nil, err
	}
	for n := range pipelineKeepers {
		p.all.Go(func() { p.keep(n) }) // ended and awaited by Drop
	}
	return p, nil
}

// loadScript loads it on every primary of a Cluster.
func loadScript(ctx context.Context, client redis.UniversalClient, source string) (string, error) {
	if cluster, ok := client.(*redis.ClusterClient); ok {
		err := cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
			return c.ScriptLoad(ctx, source).Err()
		})
		if err != nil {
			return "", err
		}
	}
	return client.ScriptLoad(ctx, source).Result()
}

func (p *pipeline) Take(ctx context.Context, key string) error {
	at := time.Now()
	if err := p.client.Set(ctx, key, pipelineValue, p.ttl).Err(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	part := &p.parts[p.taken%pipelineKeepers]
	*part = append(*part, entry{key, at})
	p.taken++
	return nil
}

// keep renews a part until Drop.
func (p *pipeline) keep(n int) {
	for {
		batch := p.due(n)
		if len(batch) == 0 {
			if !p.pause(p.ttl / 50) {
				return
			}
			continue
		}
		at := time.Now()
		p.renew(batch)
		p.mu.Lock()
		for _, e := range batch {
			p.parts[n] = append(p.parts[n], entry{e.key, at})
		}
		p.mu.Unlock()
	}
}

// due takes what has to be renewed now from the head of a part.
func (p *pipeline) due(n int) []entry {
	limit := time.Now().Add(-p.ttl * 7 / 10)
	p.mu.Lock()
	defer p.mu.Unlock()
	part, size := p.parts[n], 0
	for size < min(len(part), pipelineBatch) && part[size].at.Before(limit) {
		size++
	}
	p.parts[n] = part[size:]
	return part[:size:size]
}

func (p *pipeline) pause(d time.Duration) bool {
	select {
	case <-p.stop:
		return false
	case <-time.After(d):
		return true
	}
}

func (p *pipeline) renew(batch []entry) {
	ctx, ttl := context.Background(), p.ttl.Milliseconds()
	cmds, _ := p.client.Pipelined(ctx, func(pipe redis.Pipeliner) error { // errors are those of the commands
		for _, e := range batch {
			pipe.EvalSha(ctx, p.sha, []string{e.key}, pipelineValue, ttl)
		}
		return nil
	})
	for _, cmd := range cmds {
		if n, err := cmd.(*redis.Cmd).Int(); err != nil || n != 1 {
			p.lost.Add(1)
		}
	}
}

func (p *pipeline) RedisKey(key string) string { return key }

// ToldLost counts renewals that failed: a lost lock at each of them.
func (p *pipeline) ToldLost() int { return int(p.lost.Load()) }

func (p *pipeline) Drop(ctx context.Context) {
	close(p.stop)
	p.all.Wait()
	for _, part := range p.parts {
		_ = forEach(part, takers, func(e entry) error { return p.client.Del(ctx, e.key).Err() })
	}
	_ = p.client.Close()
}
