package fence_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
	"github.com/go-lynx/lynx-redis-lock/fence"
)

// startRedis is a Redis inside this process and a client of it.
func startRedis() (*miniredis.Miniredis, *redis.Client, func()) {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		panic(err)
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	return server, client, func() {
		_ = client.Close()
		server.Close()
	}
}

// A holder that loses its lease and does not know it is refused by the resource.
func ExampleRedis() {
	server, client, stop := startRedis()
	defer stop()
	fenced, err := fence.NewRedis(client)
	if err != nil {
		fmt.Println(err)
		return
	}
	locks := redislock.NewProvider(client)
	ctx := context.Background()

	// The counter of this lock has no TTL, as the resource remembers its token for good.
	options := redislock.LockOptions{
		Expiration: 30 * time.Second,
		FenceKey:   redislock.HashTag("stock:42") + ":fence",
	}
	hold := func() *redislock.RedisLock {
		lock, err := locks.NewLock(ctx, "stock:42", options)
		if err == nil {
			err = lock.Acquire(ctx)
		}
		if err != nil {
			fmt.Println(err)
		}
		return lock
	}

	paused := hold()
	server.Del(redislock.HashTag("stock:42") + ":owner") // its lease runs out
	next := hold()
	fmt.Println("next:  ", fenced.Set(ctx, "stock:42", next.GetToken(), "7 pieces", 0))

	err = fenced.Set(ctx, "stock:42", paused.GetToken(), "8 pieces", 0)
	fmt.Println("paused:", errors.Is(err, fence.ErrStale), err)
	fmt.Println("stock: ", client.Get(ctx, "stock:42").Val())
	_ = next.Release(ctx)
	// Output:
	// next:   <nil>
	// paused: true fence: stale token 1 for "stock:42": token 2 was applied already
	// stock:  7 pieces
}

// The check in front of a script of one's own.
func ExampleNewScript() {
	_, client, stop := startRedis()
	defer stop()
	fenced, err := fence.NewRedis(client)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()

	sell := fence.NewScript(`
		redis.call('RPUSH', KEYS[2], ARGV[1])
		return redis.call('DECR', KEYS[1])`)
	sales := []string{"{stock:42}:sales"}
	for _, token := range []int64{5, 5, 4} {
		left, err := redis.NewCmdResult(fenced.Run(ctx, "{stock:42}:left", token, sell, sales, "one piece")).Int()
		fmt.Println(left, err)
	}
	fmt.Println(client.LLen(ctx, sales[0]).Val(), "sales")
	// Output:
	// -1 <nil>
	// -2 <nil>
	// 0 fence: stale token 4 for "{stock:42}:left": token 5 was applied already
	// 2 sales
}

// Where Redis keeps the highest applied token, to set or delete it by hand.
func ExampleAppliedKey() {
	for _, key := range []string{"stock:42", "{stock:42}:left"} {
		applied, err := fence.AppliedKey(key)
		fmt.Println(applied, err)
	}
	// Output:
	// applied-token:{stock:42} <nil>
	// {stock:42}:left:applied-token <nil>
}
