package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-lynx/lynx/observability/metrics"
)

const (
	acquireSuccess = `lynx_redis_lock_acquire_total{result="success"}`
	activeLocks    = "lynx_redis_lock_active_locks"
)

// site serves /metrics.
type site struct {
	server http.Server
	url    string
}

// serveMetrics serves what Lynx collects; the plugin has registered the lock's
// metrics there.
func serveMetrics(addr string) (*site, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("serving /metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", metrics.Handler())
	s := &site{server: http.Server{Handler: mux}, url: "http://" + listener.Addr().String() + "/metrics"}
	go func() { _ = s.server.Serve(listener) }() // close ends it
	return s, nil
}

func (s *site) close() { _ = s.server.Close() }

// scrape reads the lock's metrics as Prometheus does, also after ctx has ended.
func (s *site) scrape(ctx context.Context) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", s.url, response.Status)
	}
	values := make(map[string]float64)
	for lines := bufio.NewScanner(response.Body); ; {
		if !lines.Scan() {
			return values, lines.Err()
		}
		name, value, ok := strings.Cut(lines.Text(), " ")
		if ok && strings.HasPrefix(name, "lynx_redis_lock_") {
			if values[name], err = strconv.ParseFloat(value, 64); err != nil {
				return nil, fmt.Errorf("%s: %w", s.url, err)
			}
		}
	}
}
