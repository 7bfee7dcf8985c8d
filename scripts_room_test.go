package redislock_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

// roomServer has one process that hears, whose channel is the lock's name.
type roomServer struct {
	scriptServer
	server *redistest.Server
	lock   string
	hears  *redis.PubSub
}

func newRoomServer(t *testing.T, server *redistest.Server, lock string) *roomServer {
	t.Helper()
	s := &roomServer{scriptServer: scriptServer{client: server.Client(t)}, server: server, lock: lock}
	s.hears = s.client.Subscribe(t.Context(), lock)
	t.Cleanup(func() { _ = s.hears.Close() })
	if _, err := s.hears.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// released is the room after a release that found a mark there, of whose, as setKept makes
// it, and the others.
func (s *roomServer) released(t *testing.T, whose string, quiet, ends int64, others ...any) []string {
	t.Helper()
	s.prepare(t, parseState(t, s.lock, "owner old 30s"))
	s.setKept(t, whose, quiet, ends)
	if len(others) > 0 {
		must(t, "RPUSH", s.client.RPush(t.Context(), keyOf(s.lock, "room"), others...).Err())
	}
	s.eval(t, s.lock, "release", "owner room", "old 0 0")
	return s.room(t)
}

func (s *roomServer) room(t *testing.T) []string {
	t.Helper()
	return s.client.LRange(t.Context(), keyOf(s.lock, "room"), 0, -1).Val()
}

func (s *roomServer) wantTold(t *testing.T) {
	t.Helper()
	told, err := s.hears.ReceiveTimeout(t.Context(), 5*time.Second)
	if message, ok := told.(*redis.Message); !ok || message.Payload != keyOf(s.lock, "owner") {
		t.Fatalf("told %v (%v), want the owner key", told, err)
	}
}

// Who was told keeps what is kept for it in its time, and loses its place when it has
// not asked by then, or does not hear any more.
func TestOneThatWasToldHasItsTime(t *testing.T) {
	t.Parallel()
	s := newRoomServer(t, redistest.Start(t), "told")
	if left := s.released(t, s.lock, 0, 100, s.lock, "absent"); len(left) != 3 || left[1] != s.lock || left[2] != "absent" {
		t.Fatalf("in its time: the room is %q", left)
	}
	s.wantTold(t)
	for _, ends := range []int64{100, -1} {
		if left := s.released(t, "absent", 0, ends, "absent", s.lock); len(left) != 2 || !strings.HasSuffix(left[0], s.lock) || left[1] != s.lock {
			t.Fatalf("its time ends in %d ms: the room is %q", ends, left)
		}
		s.wantTold(t)
	}
}

// A quiet time for which nobody was there to be told goes on for the first who has come since.
func TestWhoComesInTheQuietTimeIsToldByTheNextRelease(t *testing.T) {
	t.Parallel()
	s := newRoomServer(t, redistest.Start(t), "since")
	s.released(t, "", 100, 100, s.lock)
	s.wantTold(t)
	if quiet, ends := s.kept(t, s.lock); quiet == 0 || ends != quiet+50 {
		t.Fatalf("quiet until %d, kept until %d", quiet, ends)
	}
}

// Where the time is not to be had nothing is kept, and nobody told twice in a row.
func TestTellingWithoutTheTime(t *testing.T) {
	t.Parallel()
	s := newRoomServer(t, redistest.Start(t), "timeless")
	rules := slices.DeleteFunc(slices.Concat(leastRules, wakeRules), func(rule string) bool { return rule == "+time" })
	s.server.ACLUser(t, "locker", "secret", append(rules, "&*")...)
	s.prepare(t, parseState(t, s.lock, "owner old 30s, room [dead];"+s.lock+";[next] 30s"))
	timeless := scriptServer{client: s.server.Client(t, asLocker)}
	timeless.eval(t, s.lock, "release", "owner room", "old 0 0")
	s.wantTold(t)
	if left := s.room(t); len(left) != 1 || left[0] != "[next]" {
		t.Fatalf("the room is %q", left)
	}
}

// A quiet release tells the first, who gets the lock after those who poll.
func TestAQuietReleaseLeavesTheLockToWhoPolls(t *testing.T) {
	t.Parallel()
	s := newRoomServer(t, redistest.Start(t), "quiet")
	lock := s.lock
	s.prepare(t, parseState(t, lock, "owner old 30s, room [dead];"+lock+";[last] 30s"))
	from := s.now(t) / 1000
	s.eval(t, lock, "release", "owner room", "old 0 60")
	if quiet, ends := s.kept(t, lock); quiet < from+60 || quiet > from+5000 || ends != quiet+50 {
		t.Fatalf("quiet until %d ms and kept until %d ms from its beginning", quiet-from, ends-from)
	}
	s.wantTold(t)
	const soon, later = 100, 150 // a busy machine keeps them
	for _, c := range []struct {
		name, call  string
		quiet, ends int64
		code        int64
	}{
		{"another waiter in the quiet time", "me 30000 200000 '' [x] ''", soon, later, 6},
		{"the one that was told", "me 30000 200000 '' " + lock + " ''", soon, later, 9},
		{"a waiter that has no channel yet", "me 30000 200000 '' '' soon", soon, later, 2},
		{"a waiter that polls", "me 30000 200000 '' '' ''", soon, later, 1},
		{"another waiter after that", "me 30000 200000 '' [x] ''", -1, soon, 6},
		{"a waiter that has no channel yet, after that", "me 30000 200000 '' '' soon", -1, soon, 2},
		{"a waiter that polls, after that", "me 30000 200000 '' '' ''", -1, soon, 1},
		{"the one that was told, after that", "me 30000 200000 '' " + lock + " ''", -1, soon, 1},
	} {
		must(t, "FLUSHALL", s.client.FlushAll(t.Context()).Err())
		s.setKept(t, lock, c.quiet, c.ends)
		got := s.eval(t, lock, "acquire", waiterKeys, c.call)
		if got[0].(int64) != c.code || (c.code != 1 && got[1].(int64) > soon) {
			t.Errorf("%s is answered %v, want the code %d", c.name, got, c.code)
		}
	}
}

// Nobody has heard it: the lock is for whoever polls.
func TestAQuietReleaseOfALockThatNobodyElseWaitsFor(t *testing.T) {
	t.Parallel()
	s := newRoomServer(t, redistest.Start(t), "alone")
	lock := s.lock
	s.prepare(t, parseState(t, lock, "owner old 30s"))
	s.eval(t, lock, "release", "owner room", "old 0 60")
	if quiet, ends := s.kept(t, ""); ends != quiet {
		t.Fatalf("kept for %d ms after that", ends-quiet)
	}
	s.setKept(t, "", 100, 100)
	if got := s.eval(t, lock, "acquire", waiterKeys, "me 30000 200000 '' [x] ''"); got[0].(int64) != 6 {
		t.Fatalf("a waiter is answered %v", got)
	}
	s.setKept(t, "", 100, 100)
	if got := s.eval(t, lock, "acquire", "owner count mark counter", "me 30000 200000 ''"); got[0].(int64) != 1 {
		t.Fatalf("who does not wait is answered %v", got)
	}
}

// kept is until when, in ms, the lock is left to those who poll, and kept for the channel.
func (s *roomServer) kept(t *testing.T, channel string) (quiet, ends int64) {
	t.Helper()
	room := s.room(t)
	if len(room) == 0 {
		t.Fatal("the room is empty")
	}
	n, err := fmt.Sscanf(strings.TrimSuffix(room[0], channel), "!%d-%d", &quiet, &ends)
	if n != 2 || !strings.HasSuffix(room[0], channel) {
		t.Fatalf("the room is %q (%v), want the lock kept for %q", room, err, channel)
	}
	return quiet, ends
}

// setKept has the lock left to those who poll, and kept for a channel, for so many ms from now.
func (s *roomServer) setKept(t *testing.T, channel string, quiet, ends int64) {
	t.Helper()
	now := s.now(t) / 1000
	kept := fmt.Sprintf("!%d-%d%s", now+quiet, now+ends, channel)
	key := keyOf(s.lock, "room")
	must(t, "the room", errors.Join(s.client.Del(t.Context(), key).Err(), s.client.RPush(t.Context(), key, kept).Err()))
}

// wantKept: the lock is kept for the one that hears up to 50 ms from then on, for
// everybody who waits but that process.
func (s *roomServer) wantKept(t *testing.T, from int64) {
	t.Helper()
	lock := s.lock
	quiet, ends := s.kept(t, lock)
	if past := ends - from/1000; quiet != 0 || past < 50 || past > 5000 {
		t.Fatalf("quiet until %d, kept until %d ms from now", quiet, past)
	}
	s.setKept(t, lock, 0, 100) // the clock does not stand still for the test
	other := s.eval(t, lock, "acquire", waiterKeys, "other 30000 200000 '' [z] ''")
	if code := other[0].(int64); code != 6 || other[1].(int64) > 100 {
		t.Fatalf("another waiter is answered %v, want {6, at most 100}", other)
	}
	if mine := s.eval(t, lock, "acquire", waiterKeys, "mine 30000 200000 '' "+lock+" ''"); mine[0].(int64) != 1 {
		t.Fatalf("the one that was told is answered %v", mine)
	}
}
