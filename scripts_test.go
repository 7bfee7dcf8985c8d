package redislock_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
	"github.com/go-lynx/lynx-redis-lock/internal/script"
)

// scriptCase runs one script once on a prepared state, and compares the reply
// and every key of the lock afterwards.
//
// A state lists cells, "owner me 30s, count 3 30s, counter 5 -": the key, what
// it holds ([x]: a list, no string; now: the server's time in µs) and its TTL
// (-: none). What is not listed does not exist.
//
// A reply is "1 42", "2 ~30s" (a TTL), "1 now", or "error PREFIX key" with the
// key the message has to name.
type scriptCase struct {
	name   string
	before string
	keys   string // "": all of the script's keys
	call   string // the arguments, '' is an empty one
	reply  string
	after  string // same: as before
	again  string // the reply when the same request comes a second time, and changes nothing; "": not asked
}

const same = "same"

// ttlSlack is what a busy machine may take off a TTL between two steps. TTLs in
// the cases differ by more.
const ttlSlack = 9 * time.Second

type scriptGroup struct {
	script string
	keys   string // in the order of KEYS
	cases  []scriptCase
}

var scriptGroups = []scriptGroup{
	{"acquire", "owner count mark counter", slices.Concat(acquireCases, acquireTokenCases, acquireClockCases, acquireWaitCases)},
	{"reenter", "owner count counter", reenterCases},
	{"release", "owner room count mark", releaseCases},
	{"leave", "owner count", leaveCases},
	{"handover", "owner room count mark counter", handoverCases},
	{"wake", "owner room", wakeCases},
	{"renew", "owner count", renewCases},
	{"renew_many", "owner count owner2", renewManyCases},
	{"touch", "counter", touchCases},
	{"touch_many", "counter counter2", touchManyCases},
	{"status", "owner", statusCases},
	{"unlock", "owner count room", unlockCases},
}

// fullGroups are asked of a server that is at maxmemory and evicts nothing.
var fullGroups = []scriptGroup{
	{"acquire", "owner count mark counter", acquireFullCases},
	{"reenter", "owner count counter", reenterFullCases},
	{"release", "owner room count mark", releaseFullCases},
	{"leave", "owner count", leaveFullCases},
	{"handover", "owner room count mark counter", handoverFullCases},
	{"renew", "owner count", renewFullCases},
	{"renew_many", "owner count owner2", renewManyCases},
	{"touch", "counter", touchFullCases},
	{"touch_many", "counter counter2", touchManyFullCases},
	{"status", "owner", statusCases},
	{"unlock", "owner count room", unlockFullCases},
}

func TestScripts(t *testing.T) {
	t.Parallel()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		c := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
		t.Cleanup(func() { _ = c.Close() })
		runScriptGroups(t, &scriptServer{client: c}, scriptGroups)
	})
	t.Run("standalone", func(t *testing.T) {
		t.Parallel()
		runScriptGroups(t, &scriptServer{client: redistest.Start(t).Client(t)}, scriptGroups)
	})
	t.Run("standalone at maxmemory", func(t *testing.T) {
		t.Parallel()
		c := redistest.Start(t, "--maxmemory-policy", "noeviction").Client(t)
		runScriptGroups(t, &scriptServer{client: c, full: true}, fullGroups)
	})
}

func runScriptGroups(t *testing.T, s *scriptServer, groups []scriptGroup) {
	for _, group := range groups {
		t.Run(group.script, func(t *testing.T) {
			source := luaSource(t, group.script)
			for i, c := range group.cases {
				if c.keys == "" {
					c.keys = group.keys
				}
				t.Run(c.name, func(t *testing.T) {
					s.run(t, source, fmt.Sprintf("%s-%d", group.script, i), c)
				})
			}
		})
	}
}

// luaSource is a script as it is sent.
func luaSource(t testing.TB, name string) string {
	t.Helper()
	source, err := script.Source(os.DirFS("scripts"), name)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

type scriptServer struct {
	client *redis.Client
	full   bool // at maxmemory while the script runs
}

func (s *scriptServer) run(t *testing.T, source, lock string, c scriptCase) {
	ctx := t.Context()
	before, after := parseState(t, lock, c.before), parseState(t, lock, c.after)
	if c.after == same {
		after = before
	}
	s.setFull(t, false)
	s.prepare(t, before)
	s.setFull(t, s.full)
	var keys []string
	for _, name := range strings.Fields(c.keys) {
		keys = append(keys, keyOf(lock, name))
	}
	var args []any
	for _, arg := range strings.Fields(c.call) {
		args = append(args, strings.Trim(arg, "'"))
	}
	from := s.now(t)
	got, err := s.client.Eval(ctx, source, keys, args...).Result()
	span := clockSpan{from, s.now(t)}
	span.checkReply(t, "the reply", lock, c.reply, got, err)
	s.compare(t, "after the call", lock, after, span)
	if c.again == "" {
		return
	}
	second, err := s.client.Eval(ctx, source, keys, args...).Result()
	span.checkReply(t, "the reply to the second send", lock, c.again, second, err)
	s.compare(t, "after the second send", lock, after, span)
	if c.again == c.reply && strings.Contains(c.reply, "now") && fmt.Sprint(listOf(second)) != fmt.Sprint(listOf(got)) {
		t.Errorf("the second send was answered %v, the first %v", second, got)
	}
}

func (s *scriptServer) setFull(t *testing.T, on bool) {
	t.Helper()
	if !s.full {
		return
	}
	limit := "0"
	if on {
		limit = "1"
	}
	if err := s.client.ConfigSet(t.Context(), "maxmemory", limit).Err(); err != nil {
		t.Fatal(err)
	}
}

// now is the server's time in µs.
func (s *scriptServer) now(t *testing.T) int64 {
	t.Helper()
	now, err := s.client.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return now.UnixMicro()
}

// cell is one key of a lock.
type cell struct {
	key, value string
	ttl        time.Duration // 0: none
}

func keyOf(lock, name string) string {
	key := "{lynx:lock:" + lock + "}:" + name
	if name == "mark" {
		key += ":me" // every case's own value
	}
	if name == "counter" {
		key = strings.Replace(key, ":counter", ":token", 1)
	}
	return key
}

func parseState(t *testing.T, lock, text string) []cell {
	t.Helper()
	var cells []cell
	for part := range strings.SplitSeq(text, ",") {
		words := strings.Fields(part)
		if text == same || len(words) == 0 {
			continue
		}
		one := cell{key: keyOf(lock, words[0]), value: strings.Trim(words[1], "'")}
		if words[2] != "-" {
			d, err := time.ParseDuration(words[2])
			if err != nil {
				t.Fatal(err)
			}
			one.ttl = d
		}
		cells = append(cells, one)
	}
	return cells
}

func (s *scriptServer) prepare(t *testing.T, cells []cell) {
	t.Helper()
	for _, c := range cells {
		var err error
		if strings.HasPrefix(c.value, "[") || strings.HasPrefix(c.value, "!") {
			err = s.client.RPush(t.Context(), c.key, strings.Split(c.value, ";")).Err()
		} else {
			err = s.client.Set(t.Context(), c.key, c.value, 0).Err()
		}
		if err == nil && c.ttl > 0 {
			err = s.client.PExpire(t.Context(), c.key, c.ttl).Err()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// compare looks at every key that carries the lock's hash tag.
func (s *scriptServer) compare(t *testing.T, when, lock string, want []cell, span clockSpan) {
	t.Helper()
	ctx := t.Context()
	keys, err := s.client.Keys(ctx, "{lynx:lock:"+lock+"}*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if !slices.ContainsFunc(want, func(c cell) bool { return c.key == key }) {
			t.Errorf("%s: %s exists, with %q", when, key, s.value(ctx, key))
		}
	}
	for _, c := range want {
		if !slices.Contains(keys, c.key) {
			t.Errorf("%s: %s does not exist, want %q", when, c.key, c.value)
			continue
		}
		if got := s.value(ctx, c.key); !span.is(c.value, got) {
			t.Errorf("%s: %s holds %q, want %q", when, c.key, got, c.value)
		}
		// Milliseconds, and -1 without a TTL.
		left, err := s.client.Do(ctx, "PTTL", c.key).Int64()
		if err != nil || !isTTL(left, c.ttl) {
			t.Errorf("%s: %s has PTTL %d (%v), want %s", when, c.key, left, err, c.ttl)
		}
	}
}

func (s *scriptServer) value(ctx context.Context, key string) string {
	v, err := s.client.Get(ctx, key).Result()
	if err == nil {
		return v
	}
	items, err := s.client.LRange(ctx, key, 0, -1).Result()
	if err != nil {
		return err.Error()
	}
	return strings.Join(items, ";")
}

func isTTL(ms int64, want time.Duration) bool {
	if want == 0 {
		return ms == -1
	}
	got := time.Duration(ms) * time.Millisecond
	return got <= want && got > want-ttlSlack
}

// clockSpan is the server's time around a call, in µs.
type clockSpan struct{ from, to int64 }

func (s clockSpan) is(want, got string) bool {
	if want != "now" {
		return want == got
	}
	n, err := strconv.ParseInt(got, 10, 64)
	return err == nil && s.from <= n && n <= s.to
}

// listOf is a reply in full: a number alone is short for 1 and that number.
func listOf(reply any) []any {
	if n, ok := reply.(int64); ok {
		return []any{int64(1), n}
	}
	list, _ := reply.([]any)
	return list
}

func (s clockSpan) checkReply(t *testing.T, what, lock, want string, got any, err error) {
	t.Helper()
	words := strings.Fields(want)
	if words[0] == "error" {
		ok := err != nil && strings.HasPrefix(err.Error(), words[1])
		if len(words) > 2 {
			ok = ok && strings.Contains(err.Error(), "(key "+keyOf(lock, words[2])+")")
		}
		if !ok {
			t.Errorf("%s is %v (error %v), want %s", what, got, err, want)
		}
		return
	}
	pair := listOf(got)
	if err != nil || len(pair) != len(words) || (len(words) == 3 && pair[2] != words[2]) {
		t.Errorf("%s is %v (error %v), want %s", what, got, err, want)
		return
	}
	ok := s.is(words[1], fmt.Sprint(pair[1]))
	if ttl, found := strings.CutPrefix(words[1], "~"); found {
		ms, isInt := pair[1].(int64)
		d, err := time.ParseDuration(ttl)
		ok = err == nil && isInt && isTTL(ms, d)
	}
	if fmt.Sprint(pair[0]) != words[0] || !ok {
		t.Errorf("%s is %v, want %s", what, got, want)
	}
}
