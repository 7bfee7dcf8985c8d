package measure_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lynx/lynx-redis-lock/bench/measure"
	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

func TestCPUIsUserAndSystemOfTheServerItself(t *testing.T) {
	info := "# CPU\r\nused_cpu_sys:1.250000\r\nused_cpu_user:0.500000\r\nused_cpu_sys_children:9.000000\r\nused_cpu_user_main_thread:0.400000\r\n"
	if got := measure.ParseCPU(info); got != 1750*time.Millisecond {
		t.Errorf("got %v, want 1.75 s", got)
	}
}

func TestAServerTellsCommandsMemoryAndOrigins(t *testing.T) {
	ctx, server := t.Context(), redistest.Start(t)
	client := server.Client(t)
	probe := measure.NewServer(server.Addr())
	t.Cleanup(probe.Close)
	before, err := probe.Commands(ctx)
	if err != nil {
		t.Fatal(err)
	}
	split, err := probe.Watch(func() error {
		script := redis.NewScript("redis.call('SET', KEYS[1], 1); redis.call('SET', KEYS[1], 2); return redis.call('SET', KEYS[1], 3)")
		for range 5 {
			if err := client.Set(ctx, "wire", 1, 0).Err(); err != nil {
				return err
			}
			if err := script.Eval(ctx, client, []string{"script"}).Err(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	after, err := probe.Commands(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if wire, script := split.Of(after.Since(before)); wire != 10 || script != 15 {
		t.Errorf("%v on the wire, %v in scripts, want 10 and 15; %v", wire, script, split)
	}
	keys, bytes, err := probe.Keyspace(ctx)
	if err != nil || keys != 2 || bytes < 80 {
		t.Errorf("%d keys of %d bytes, %v", keys, bytes, err)
	}
	if cpu, err := probe.CPU(ctx); err != nil || cpu <= 0 {
		t.Errorf("processor time %v, %v", cpu, err)
	}
	if err := probe.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if keys, _, _ := probe.Keyspace(ctx); keys != 0 {
		t.Errorf("%d keys after a flush", keys)
	}
}
