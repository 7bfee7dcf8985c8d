package renewal

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// pipeline is the least that keeps leases: the keys lie in slices, a few goroutines go
// round them in batches, and each lock is renewed by a compare and a PEXPIRE when 0.3
// of its lease is left, as ours is by default.
type pipeline struct {
	client redis.UniversalClient
	sha    string
	ttl    time.Duration
	lost   atomic.Int64
	stop   chan struct{}
	all    sync.WaitGroup

	mu    sync.Mutex // guards parts until they are kept
	parts [pipelineKeepers][]string
	taken int
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
	if err := p.client.Set(ctx, key, pipelineValue, p.ttl).Err(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	part := &p.parts[p.taken%pipelineKeepers]
	*part = append(*part, key)
	p.taken++
	return nil
}

// keep goes round its keys once in 0.7 of the lease, at an even pace.
func (p *pipeline) keep(n int) {
	for {
		start := time.Now()
		p.mu.Lock()
		keys := p.parts[n]
		p.mu.Unlock()
		batches := (len(keys) + pipelineBatch - 1) / pipelineBatch
		period := p.ttl * 7 / 10
		for i := range batches {
			p.renew(keys[i*pipelineBatch : min((i+1)*pipelineBatch, len(keys))])
			if !p.pause(time.Until(start.Add(period * time.Duration(i+1) / time.Duration(batches)))) {
				return
			}
		}
		if batches == 0 && !p.pause(p.ttl/20) {
			return
		}
	}
}

func (p *pipeline) pause(d time.Duration) bool {
	select {
	case <-p.stop:
		return false
	case <-time.After(d):
		return true
	}
}

func (p *pipeline) renew(keys []string) {
	ctx, ttl := context.Background(), p.ttl.Milliseconds()
	cmds, _ := p.client.Pipelined(ctx, func(pipe redis.Pipeliner) error { // errors are those of the commands
		for _, key := range keys {
			pipe.EvalSha(ctx, p.sha, []string{key}, pipelineValue, ttl)
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
		_ = forEach(part, takers, func(key string) error { return p.client.Del(ctx, key).Err() })
	}
	_ = p.client.Close()
}
