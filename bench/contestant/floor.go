package contestant

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

const trivialSource = "return 1"

// twoEvalSha is what no lock on two scripts can beat with the same client.
var twoEvalSha = Contestant{
	Name: TwoEvalSha, Kind: Floor, NoLock: true,
	Open: func(addr string) (Session, error) {
		client := newClient(addr)
		sha, err := client.ScriptLoad(context.Background(), trivialSource).Result()
		return &evalShaSession{client, sha}, err
	},
}

type evalShaSession struct {
	client *redis.Client
	sha    string
}

func (s *evalShaSession) Close() error { return s.client.Close() }

func (s *evalShaSession) Locker(key string) (Locker, error) {
	return &evalSha{s, []string{key}}, nil
}

type evalSha struct {
	*evalShaSession
	keys []string
}

func (e *evalSha) Lock(ctx context.Context) error { return e.client.EvalSha(ctx, e.sha, e.keys).Err() }

func (e *evalSha) Unlock(ctx context.Context) error { return e.Lock(ctx) }

// twoEvalShaRueidis is the same through a client that pipelines by itself.
var twoEvalShaRueidis = Contestant{
	Name: "two EVALSHA, rueidis", Kind: Floor, NoLock: true,
	Open: func(addr string) (Session, error) {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
		return rueidisFloorSession{client, rueidis.NewLuaScript(trivialSource)}, err
	},
}

type rueidisFloorSession struct {
	client rueidis.Client
	script *rueidis.Lua
}

func (s rueidisFloorSession) Close() error { s.client.Close(); return nil }

func (s rueidisFloorSession) Locker(key string) (Locker, error) {
	return &rueidisFloor{s, []string{key}}, nil
}

type rueidisFloor struct {
	rueidisFloorSession
	keys []string
}

func (f *rueidisFloor) Lock(ctx context.Context) error {
	return f.script.Exec(ctx, f.client, f.keys, nil).Error()
}

func (f *rueidisFloor) Unlock(ctx context.Context) error { return f.Lock(ctx) }

// setNX is the least that a lock has to do: one SET, and a script that deletes the
// key of its own value. On a held lock it tries again after 1 to 2 ms.
var setNX = Contestant{
	Name: SetNX, Kind: Floor,
	Open: func(addr string) (Session, error) { return &setNXSession{newClient(addr)}, nil },
}

var deleteOwn = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

type setNXSession struct{ client *redis.Client }

func (s *setNXSession) Close() error { return s.client.Close() }

func (s *setNXSession) Locker(key string) (Locker, error) {
	return &setNXLocker{setNXSession: s, key: key}, nil
}

type setNXLocker struct {
	*setNXSession
	key, value string
}

func (l *setNXLocker) Lock(ctx context.Context) error {
	l.value = strconv.FormatUint(rand.Uint64(), 36)
	for {
		err := l.client.SetArgs(ctx, l.key, l.value, redis.SetArgs{Mode: "NX", TTL: lease}).Err()
		if !errors.Is(err, redis.Nil) {
			return err
		}
		select {
		case <-time.After(jitter(aggressive)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *setNXLocker) Unlock(ctx context.Context) error {
	n, err := deleteOwn.Run(ctx, l.client, []string{l.key}, l.value).Int()
	if err == nil && n != 1 {
		return errors.New("the key was another's")
	}
	return err
}

// jitter is d to 2 d.
func jitter(d time.Duration) time.Duration { return d + rand.N(d) }
