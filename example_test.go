package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	redislock "github.com/go-lynx/lynx-redis-lock"
)

// startRedis is a Redis inside this process and a client of it. In a Lynx
// application the client is the one of lynx.redis, and GetProvider has it.
func startRedis() (*miniredis.Miniredis, *redis.Client, func()) {
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true) // leases run out
	if err := server.Start(); err != nil {
		panic(err)
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true})
	return server, client, func() {
		_ = client.Close()
		server.Close()
	}
}

// orders is a resource that refuses a write with an older token than it has seen.
type orders struct{ newest int64 }

func (o *orders) save(status string, token int64) error {
	if token < o.newest {
		return fmt.Errorf("token %d is older than %d", token, o.newest)
	}
	o.newest = token
	fmt.Println("saved:", status)
	return nil
}

// The main use: a function that runs in one place at a time.
func ExampleNewProvider() {
	_, client, stop := startRedis()
	defer stop()
	locks := redislock.NewProvider(client)
	ctx := context.Background()

	err := locks.Lock(ctx, "order:42", 30*time.Second, func() error {
		fmt.Println("nobody else works on order 42")
		return nil
	})
	fmt.Println("error:", err)

	// The token goes with every write: a resource that refuses older tokens is
	// safe from a holder that lost its lease without knowing it yet.
	var orders orders
	err = locks.LockWithToken(ctx, "order:42", 30*time.Second, func(token int64) error {
		return orders.save("paid", token)
	})
	fmt.Println("error:", err)
	// Output:
	// nobody else works on order 42
	// error: <nil>
	// saved: paid
	// error: <nil>
}

// A holder that loses its lease is told while it works.
func ExampleContextProvider() {
	server, client, stop := startRedis()
	defer stop()
	locks := redislock.NewProvider(client).(redislock.ContextProvider)

	options := redislock.LockOptions{Expiration: time.Second, RenewalEnabled: true}
	err := locks.LockContext(context.Background(), "order:42", options,
		func(ctx context.Context, lock *redislock.RedisLock) error {
			server.Del(redislock.HashTag("order:42") + ":owner") // an accident

			<-ctx.Done() // pass ctx on to whatever takes time
			fmt.Println("stop:", errors.Is(context.Cause(ctx), redislock.ErrLockLost))
			return context.Cause(ctx)
		})

	var lost *redislock.LostError
	if errors.As(err, &lost) {
		fmt.Println("lost:", lost.Key, "token", lost.Token)
	}
	// Output:
	// stop: true
	// lost: order:42 token 1
}

// A lock is reentrant per instance: what it acquired twice it releases twice, and
// any other instance is another holder.
func ExampleRedisLock() {
	_, client, stop := startRedis()
	defer stop()
	locks := redislock.NewProvider(client)
	ctx := context.Background()
	options := redislock.LockOptions{Expiration: 30 * time.Second, RenewalEnabled: true}

	lock, err := locks.NewLock(ctx, "order:42", options)
	if err != nil {
		fmt.Println(err)
		return
	}
	other, err := locks.NewLock(ctx, "order:42", options)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("acquire:", lock.Acquire(ctx))
	fmt.Println("again:  ", lock.Acquire(ctx))
	fmt.Println("release:", lock.Release(ctx))

	fmt.Println("another holder is refused:", errors.Is(other.Acquire(ctx), redislock.ErrLockAcquireConflict))
	fmt.Println("release:", lock.Release(ctx))
	fmt.Println("then it gets the lock:", other.Acquire(ctx))
	fmt.Println("release:", other.Release(ctx))
	// Output:
	// acquire: <nil>
	// again:   <nil>
	// release: <nil>
	// another holder is refused: true
	// release: <nil>
	// then it gets the lock: <nil>
	// release: <nil>
}

// AcquireWait waits for a lock until its context ends.
func ExampleRedisLock_AcquireWait() {
	_, client, stop := startRedis()
	defer stop()
	locks := redislock.NewProvider(client)
	ctx := context.Background()
	options := redislock.LockOptions{Expiration: 30 * time.Second}

	holder, err := locks.NewLock(ctx, "order:42", options)
	if err != nil {
		fmt.Println(err)
		return
	}
	waiter, err := locks.NewLock(ctx, "order:42", options)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("holder:", holder.Acquire(ctx))
	time.AfterFunc(50*time.Millisecond, func() { _ = holder.Release(ctx) })

	fmt.Println("waiter:", waiter.AcquireWait(ctx))
	fmt.Println("token:", waiter.GetToken())
	fmt.Println("release:", waiter.Release(ctx))
	// Output:
	// holder: <nil>
	// waiter: <nil>
	// token: 2
	// release: <nil>
}

// A FenceKey is a fencing counter of one's own, without a TTL. With the lock's hash
// tag in it, both live in one slot of a Redis Cluster.
func ExampleHashTag() {
	_, client, stop := startRedis()
	defer stop()
	locks := redislock.NewProvider(client)
	ctx := context.Background()

	options := redislock.LockOptions{
		Expiration: 30 * time.Second,
		FenceKey:   redislock.HashTag("order:42") + ":fence",
	}
	fmt.Println(options.FenceKey)

	lock, err := locks.NewLock(ctx, "order:42", options)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		if err := lock.Acquire(ctx); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("token", lock.GetToken(), "release", lock.Release(ctx))
	}
	fmt.Println("counter", client.Get(ctx, options.FenceKey).Val(), "TTL", client.TTL(ctx, options.FenceKey).Val())
	// Output:
	// {lynx:lock:order:42}:fence
	// token 1 release <nil>
	// token 2 release <nil>
	// counter 2 TTL -1ns
}

// Errors are told apart with errors.Is; one error may be several of them.
func ExampleLockError() {
	_, client, stop := startRedis()
	defer stop()
	locks := redislock.NewProvider(client)
	ctx := context.Background()

	try := func(what, key string, options redislock.LockOptions) {
		options.Expiration = 30 * time.Second
		err := locks.LockWithOptions(ctx, key, options, func() error { return nil })
		fmt.Printf("%s: conflict %t, retries used up %t, timeout %t, bad options %t\n", what,
			errors.Is(err, redislock.ErrLockAcquireConflict), errors.Is(err, redislock.ErrMaxRetriesExceeded),
			errors.Is(err, redislock.ErrLockAcquireTimeout), errors.Is(err, redislock.ErrInvalidOptions))
	}
	err := locks.Lock(ctx, "order:42", 30*time.Second, func() error {
		try("once", "order:42", redislock.LockOptions{})
		try("again", "order:42", redislock.LockOptions{
			RetryStrategy: redislock.RetryStrategy{MaxRetries: 2, RetryDelay: 10 * time.Millisecond},
		})
		try("wait", "order:42", redislock.LockOptions{WaitTimeout: 300 * time.Millisecond})
		try("key", "order:{42}", redislock.LockOptions{})
		return errors.New("out of stock")
	})
	fmt.Println("the function's own error:", err)
	// Output:
	// once: conflict true, retries used up false, timeout false, bad options false
	// again: conflict true, retries used up true, timeout false, bad options false
	// wait: conflict true, retries used up false, timeout true, bad options false
	// key: conflict false, retries used up false, timeout false, bad options true
	// the function's own error: out of stock
}
