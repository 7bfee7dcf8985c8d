package measure

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server asks one or more redis-servers, such as all nodes of a Cluster, about themselves.
type Server struct {
	clients []*redis.Client
	addrs   []string
}

// NewServer connects to the servers. The connections are its own, so that what it
// asks does not wait behind what is measured.
func NewServer(addrs ...string) *Server {
	s := &Server{addrs: addrs}
	for _, addr := range addrs {
		s.clients = append(s.clients, redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1}))
	}
	return s
}

// Close closes the connections.
func (s *Server) Close() {
	for _, c := range s.clients {
		_ = c.Close()
	}
}

// Commands is what all servers have run since they started.
func (s *Server) Commands(ctx context.Context) (Commands, error) {
	all := Commands{}
	for _, c := range s.clients {
		info, err := c.Info(ctx, "commandstats").Result()
		if err != nil {
			return nil, err
		}
		all.Add(ParseCommandStats(info))
	}
	return all, nil
}

// CPU is the processor time that the servers have used, user and system. It is what
// getrusage told them: /proc/<pid>/stat counts in ticks of 10 ms.
func (s *Server) CPU(ctx context.Context) (time.Duration, error) {
	var sum time.Duration
	for _, c := range s.clients {
		info, err := c.Info(ctx, "cpu").Result()
		if err != nil {
			return 0, err
		}
		sum += ParseCPU(info)
	}
	return sum, nil
}

// ParseCPU reads INFO cpu.
func ParseCPU(info string) time.Duration {
	var seconds float64
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			v, _ := strconv.ParseFloat(value, 64)
			seconds += v
		}
	}
	return time.Duration(seconds * float64(time.Second))
}

// Version is the version of the first server.
func (s *Server) Version(ctx context.Context) string {
	info, _ := s.clients[0].Info(ctx, "server").Result()
	for line := range strings.Lines(info) {
		if version, ok := strings.CutPrefix(strings.TrimSpace(line), "redis_version:"); ok {
			return version
		}
	}
	return "unknown"
}

// Keyspace is how many keys there are, and what MEMORY USAGE says of all of them.
func (s *Server) Keyspace(ctx context.Context) (keys, bytes int64, err error) {
	for _, c := range s.clients {
		iter := c.Scan(ctx, 0, "*", 1000).Iterator()
		for iter.Next(ctx) {
			n, err := c.MemoryUsage(ctx, iter.Val()).Result()
			if err != nil {
				return 0, 0, err
			}
			keys++
			bytes += n
		}
		if err := iter.Err(); err != nil {
			return 0, 0, err
		}
	}
	return keys, bytes, nil
}

// Flush deletes every key. Scripts stay loaded. Replicas refuse, and follow.
func (s *Server) Flush(ctx context.Context) error {
	for _, c := range s.clients {
		if err := c.FlushAll(ctx).Err(); err != nil && !redis.IsReadOnlyError(err) {
			return err
		}
	}
	return nil
}

// Watch lets MONITOR run on the first server during work, and says who sent what.
func (s *Server) Watch(work func() error) (Split, error) {
	conn, err := net.Dial("tcp", s.addrs[0])
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil {
		return nil, err
	}
	lines := bufio.NewReaderSize(conn, 1<<20)
	if ok, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(ok, "+OK") {
		return nil, fmt.Errorf("MONITOR: %q, %w", ok, err)
	}
	split, read := Split{}, make(chan struct{})
	go func() { // ends when the connection has been silent or is closed; awaited below
		defer close(read)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			split.Note(line)
		}
	}()
	err = work()
	_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond)) // for what is on its way
	<-read
	return split, err
}
