package redislock

import (
	"context"
	"slices"
	"sync"

	"github.com/go-lynx/lynx"
	lynxredis "github.com/go-lynx/lynx-redis"
	"github.com/go-lynx/lynx/plugins"
	"github.com/redis/go-redis/v9"
)

// pluginSource is the client of one running plugin. The framework's registry is
// asked once and then only after the client was found closed: asking it from
// several goroutines is a data race inside the framework.
type pluginSource struct {
	rt plugins.Runtime
	// failed: the framework gave the start up after our part of it, and will not stop it.
	failed func() bool

	mu   sync.Mutex // guards the rest; nothing of Redis is asked under it
	m    *manager
	over bool
}

func (s *pluginSource) manager() (*manager, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil, newError(ErrRedisClientNotFound, nil, "the plugin %s has stopped; %s", pluginName, howTo)
	}
	return s.m, nil
}

func (s *pluginSource) replaced(m *manager) *manager {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.m != m {
		return s.m // another caller has found the new client
	}
	if client, err := clientFrom(s.rt); err == nil && client != m.client {
		s.m = newManager(client)
	}
	return s.m
}

// stop drains the holds of the plugin's client and gives it up. It returns what was
// left of them.
func (s *pluginSource) stop(ctx context.Context) leftOver {
	m, err := s.manager()
	if err != nil {
		return leftOver{}
	}
	m.drains.Add(1) // for good: this client takes no new lock any more
	left := m.drain(ctx)
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	host.stopped(s, m.client)
	return left
}

// clientFrom is the client that redis.client has published.
func clientFrom(rt plugins.Runtime) (redis.UniversalClient, error) {
	if rt == nil {
		return nil, newError(ErrRedisClientNotFound, nil, "the plugin was not initialized by a Lynx application")
	}
	client, err := plugins.GetTypedResource[redis.UniversalClient](rt, clientResource)
	switch {
	case err != nil:
		return nil, newError(ErrRedisClientNotFound, err, "the application has no resource %q; %s", clientResource, howTo)
	case isNil(client):
		return nil, newError(ErrRedisClientNotFound, nil, "the resource %q is nil; %s", clientResource, howTo)
	}
	return client, nil
}

// hosts are the process's running plugins, for the package functions and GetProvider.
type hosts struct {
	mu       sync.Mutex // guards the rest
	running  []*pluginSource
	retired  redis.UniversalClient // of the plugin that stopped last: its end is near
	fallback *manager              // over the client of a redis.client without our plugin
}

var host hosts

func (h *hosts) started(s *pluginSource) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running = append(h.running, s)
	h.retired = nil
}

func (h *hosts) forget(s *pluginSource) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.strike(s)
}

// strike is under mu.
func (h *hosts) strike(s *pluginSource) {
	h.running = slices.DeleteFunc(h.running, func(other *pluginSource) bool { return other == s })
}

func (h *hosts) stopped(s *pluginSource, client redis.UniversalClient) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.strike(s)
	h.retired = client
}

// last is the plugin that started last and still runs.
func (h *hosts) last() *pluginSource {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range slices.Backward(h.running) {
		if !s.failed() {
			return s
		}
	}
	return nil
}

// hostSource is what the package functions lock through: the plugin that started
// last and still runs, or else the default application's redis.client.
type hostSource struct{}

func (hostSource) manager() (*manager, error) {
	if s := host.last(); s != nil {
		return s.manager()
	}
	host.mu.Lock()
	defer host.mu.Unlock()
	client := defaultClient()
	if isNil(client) || client == host.retired {
		return nil, newError(ErrRedisClientNotFound, nil, "no Lynx application with Redis runs in this process; %s", howTo)
	}
	if host.fallback == nil || host.fallback.client != client {
		host.fallback = newManager(client)
	}
	return host.fallback, nil
}

func (hostSource) replaced(m *manager) *manager {
	if s := host.last(); s != nil {
		return s.replaced(m)
	}
	if next, err := (hostSource{}).manager(); err == nil {
		return next
	}
	return m
}

// defaultClient asks lynx-redis, which panics when there is no default application
// or when that is closing.
func defaultClient() (client redis.UniversalClient) {
	defer func() {
		if recover() != nil {
			client = nil
		}
	}()
	if lynx.Lynx() == nil {
		return nil
	}
	return lynxredis.GetUniversalRedis()
}
