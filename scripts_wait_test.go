package redislock_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

const waiterKeys = "owner count mark counter room"

// acquire by a waiter: value, lease, TTL of the counter, clock, channel, how.
var acquireWaitCases = []scriptCase{
	{
		name: "a waiter takes a free lock and stays out of the room", keys: waiterKeys, before: "counter 5 100s",
		call: "me 30000 200000 '' [a] ''", reply: "1 6", after: "owner me 30s, counter 6 200s", again: "1 6",
	},
	{
		name: "a waiter that hears nothing is refused and writes nothing", keys: waiterKeys, before: "owner other 60s",
		call: "me 30000 200000 '' '' ''", reply: "2 ~60s", after: same,
	},
	{
		name: "a refused waiter is in the room once, as long as the owner", keys: waiterKeys, before: "owner other 60s",
		call: "me 30000 200000 '' [a] ''", reply: "6 ~60s other", after: "owner other 60s, room [a] 60s", again: "6 ~60s other",
	},
	{
		name: "the first to be told hears which hold it is", keys: waiterKeys, before: "owner other 60s, counter 6 200s",
		call: "me 30000 200000 '' [a] ''", reply: "6 ~60s other/6", after: "owner other 60s, counter 6 200s, room [a] 60s", again: "6 ~60s other/6",
	},
	{
		name: "a FenceKey says nothing of that", keys: waiterKeys, before: "owner other 60s, counter 6 -",
		call: "me 30000 0 '' [a] ''", reply: "6 ~60s other", after: "owner other 60s, counter 6 -, room [a] 60s", again: "6 ~60s other",
	},
	{
		name: "a refused waiter goes behind the others", keys: waiterKeys, before: "owner other 60s, room [x];[y] 30s",
		call: "me 30000 200000 '' [a] ''", reply: "6 ~60s", after: "owner other 60s, room [x];[y];[a] 60s", again: "6 ~60s",
	},
	{
		name: "one that was told and finds the lock taken keeps its place", keys: waiterKeys, before: "owner other 30s, room !0-1[a];[a];[x] 60s",
		call: "me 30000 200000 '' [a] ''", reply: "6 ~30s other", after: "owner other 30s, room [a];[x] 60s", again: "6 ~30s other",
	},
	{
		name: "behind one that was told it is not the first", keys: waiterKeys, before: "owner other 30s, room !0-1[x];[x] 60s",
		call: "me 30000 200000 '' [a] ''", reply: "6 ~30s", after: "owner other 30s, room !0-1[x];[x];[a] 60s", again: "6 ~30s",
	},
	{
		name: "behind nobody but a mark it is", keys: waiterKeys, before: "owner other 30s, room !0-1;[a] 60s",
		call: "me 30000 200000 '' [a] ''", reply: "6 ~30s other", after: same, again: "6 ~30s other",
	},
	{
		name: "one that gets the lock leaves the room", keys: waiterKeys, before: "room [x];[a] 30s",
		call: "me 30000 200000 '' [a] ''", reply: "1 1", after: "owner me 30s, counter 1 200s, room [x] 30s", again: "1 1",
	},
	{
		name: "and so does what was kept for it", keys: waiterKeys, before: "room !0-1[a];[a];[x] 30s",
		call: "me 30000 200000 '' [a] ''", reply: "1 1", after: "owner me 30s, counter 1 200s, room [x] 30s", again: "1 1",
	},
	{
		name: "what is kept for one that has lost its place is all that it takes", keys: waiterKeys, before: "room !0-1[a];[x];[y] 30s",
		call: "me 30000 200000 '' [a] ''", reply: "1 1", after: "owner me 30s, counter 1 200s, room [x];[y] 30s", again: "1 1",
	},
	{
		name: "what is kept for one that gets no token stays", keys: waiterKeys, before: "counter abc 100s, room !0-1[a];[a];[x] 30s",
		call: "me 30000 200000 '' [a] ''", reply: "error ERR counter", after: same,
	},
	{
		name: "one that polls leaves the room as it is", keys: waiterKeys, before: "room !0-1[a];[a];[x] 30s",
		call: "me 30000 200000 '' '' ''", reply: "1 1", after: "owner me 30s, counter 1 200s, room !0-1[a];[a];[x] 30s", again: "1 1",
	},
	{
		name: "beside an owner without a TTL the room lives for 2 s", keys: waiterKeys, before: "owner other -",
		call: "me 30000 200000 '' [a] ''", reply: "6 -1 other", after: "owner other -, room [a] 2s", again: "6 -1 other",
	},
	{
		name: "a probe that may publish is announced", keys: waiterKeys, before: "owner other 60s",
		call: "me 30000 200000 '' [a] probe", reply: "6 ~60s other", after: "owner other 60s, room [a] 60s", again: "6 ~60s other",
	},
	{
		name: "a room of another type costs the announcement only", keys: waiterKeys, before: "owner other 60s, room text 30s",
		call: "me 30000 200000 '' [a] ''", reply: "2 ~60s", after: same,
	},
	{
		name: "a free lock that was kept too long ago is taken", keys: waiterKeys, before: "room !0-1[x];[x];[y] 30s",
		call: "me 30000 200000 '' [a] ''", reply: "1 1", after: "owner me 30s, counter 1 200s, room !0-1[x];[x];[y] 30s", again: "1 1",
	},
	{
		name: "a free lock that is kept far ahead, by a clock that went back, is taken", keys: waiterKeys, before: "room !0-99999999999999[x];[x] 30s",
		call: "me 30000 200000 '' [a] ''", reply: "1 1", after: "owner me 30s, counter 1 200s, room !0-99999999999999[x];[x] 30s", again: "1 1",
	},
	{
		name: "nor is it left to those who poll for so long", keys: waiterKeys, before: "room !99999999999998-99999999999999[a];[a] 30s",
		call: "me 30000 200000 '' [a] ''", reply: "1 1", after: "owner me 30s, counter 1 200s", again: "1 1",
	},
	{
		name: "whoever does not wait takes no notice of the room", keys: "owner count mark counter", before: "room [x] 30s",
		call: "me 30000 200000 ''", reply: "1 1", after: "owner me 30s, counter 1 200s, room [x] 30s", again: "1 1",
	},
}

// handover: old value, new value, lease, TTL of the counter, clock, channel, how.
var handoverCases = []scriptCase{
	{
		name: "the lock goes to the new value with a new token", before: "owner old 5s, counter 5 100s",
		call: "old me 30000 200000 '' [a] ''", reply: "1 6", after: "owner me 30s, counter 6 200s", again: "1 6",
	},
	{
		name: "a stale count is deleted", before: "owner old 5s, count 3 5s, counter 5 100s",
		call: "old me 30000 200000 '' [a] ''", reply: "1 6", after: "owner me 30s, counter 6 200s", again: "1 6",
	},
	{
		name: "the announcement is taken back", before: "owner old 5s, counter 5 100s, room [x];[a] 30s",
		call: "old me 30000 200000 '' [a] queued", reply: "1 6", after: "owner me 30s, counter 6 200s, room [x] 30s", again: "1 6",
	},
	{
		name: "nobody else waits, so nobody goes first", before: "owner old 5s, counter 5 100s, room [a] 30s",
		call: "old me 30000 200000 '' [a] yield", reply: "1 6", after: "owner me 30s, counter 6 200s", again: "1 6",
	},
	{
		name: "a mark is nobody who waits", before: "owner old 5s, counter 5 100s, room !0-1 30s",
		call: "old me 30000 200000 '' [a] yield", reply: "1 6", after: "owner me 30s, counter 6 200s, room !0-1 30s", again: "1 6",
	},
	{
		name: "others go first, and those that cannot be told are dropped", before: "owner old 5s, counter 5 100s, room [x] 10s",
		call: "old me 30000 200000 '' [a] yield", reply: "8 1", after: "counter 5 100s", again: "3 0",
	},
	{
		name: "another owner is untouched", before: "owner other 5s, count 2 5s, room [x] 30s",
		call: "old me 30000 200000 '' [a] ''", reply: "2 0", after: same, again: "2 0",
	},
	{
		name: "an absent owner gets nobody the lock", before: "counter 5 100s, room [x] 30s",
		call: "old me 30000 200000 '' [a] ''", reply: "3 0", after: same, again: "3 0",
	},
	{
		name: "a value that was given up gets nothing, the lock is freed", before: "owner old 5s, counter 5 100s, mark 1 60s",
		call: "old me 30000 200000 '' [a] ''", reply: "8 0", after: "counter 5 100s, mark 1 60s", again: "3 0",
	},
	{
		name: "a counter that is no number frees the lock", before: "owner old 5s, counter abc 100s",
		call: "old me 30000 200000 '' [a] ''", reply: "8 0", after: "counter abc 100s", again: "3 0",
	},
	{
		name: "a counter that was lost since is minted anew", before: "owner me 30s",
		call: "old me 30000 200000 '' [a] ''", reply: "1 1", after: "owner me 30s, counter 1 200s", again: "1 1",
	},
	{
		name: "and for one that was announced as well", before: "owner me 30s, room [a];[x] 30s",
		call: "old me 30000 200000 '' [a] queued", reply: "1 1", after: "owner me 30s, counter 1 200s, room [x] 30s", again: "1 1",
	},
	{
		name: "a re-send takes no announcement back that came since", before: "owner me 30s, counter 6 200s, room [a] 30s",
		call: "old me 30000 200000 '' [a] queued", reply: "1 6", after: same, again: "1 6",
	},
	{
		name: "with the owner key alone the lock is freed", keys: "owner", before: "owner old 5s, counter 5 100s, count 2 5s",
		call: "old me 30000 200000 '' [a] ''", reply: "8 0", after: "counter 5 100s, count 2 5s", again: "3 0",
	},
	{
		name: "an owner key that holds no string is untouched", before: "owner [old] 5s",
		call: "old me 30000 200000 '' [a] ''", reply: "2 0", after: same,
	},
}

var handoverFullCases = []scriptCase{
	{
		name: "the lock is freed when nothing can be written", before: "owner old 5s, counter 5 100s, count 2 5s",
		call: "old me 30000 200000 '' [a] ''", reply: "8 0", after: "counter 5 100s", again: "3 0",
	},
	{
		name: "nor the clock", before: "owner old 5s, counter 5 100s, count 2 5s",
		call: "old me 30000 200000 clock [a] ''", reply: "8 0", after: "counter 5 100s", again: "3 0",
	},
}

// wake: channel of the process that was told.
var wakeCases = []scriptCase{
	{name: "beside an owner nobody is told", before: "owner other 5s, room [x] 30s", call: "[a]", reply: "1 0", after: same, again: "1 0"},
	{name: "what was kept for it is given up", before: "owner other 5s, room !0-5[a];[a];[x] 30s", call: "[a]", reply: "1 0", after: "owner other 5s, room [x] 30s", again: "1 0"},
	{name: "what is kept for another stays", before: "owner other 5s, room !0-5[x];[x] 30s", call: "[a]", reply: "1 0", after: same, again: "1 0"},
	{name: "another was told since", before: "room !0-5[x];[x];[y] 30s", call: "[a]", reply: "1 0", after: same, again: "1 0"},
	{name: "one that has asked since stays in the room", before: "owner other 5s, room [a];[x] 30s", call: "[a]", reply: "1 0", after: same, again: "1 0"},
	{name: "those that cannot be told are dropped", before: "room [x];[y] 30s", call: "[a]", reply: "1 0", after: "", again: "1 0"},
}

// TestTelling: of the processes in the room the first that hears is told, and the lock
// kept for it.
func TestTelling(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, freeing := range []struct{ script, keys, args string }{
		{"release", "owner room", "old 0 0"},
		{"unlock", "owner count room", "old 1"},
		{"wake", "owner room", "nobody"},
		{"handover", "owner room count mark counter", "old me 30000 200000 '' [a] yield"},
	} {
		t.Run(freeing.script, func(t *testing.T) {
			s := newRoomServer(t, server, "telling-"+freeing.script)
			lock := s.lock
			state := "owner old 30s, room [dead];%s;[last] 30s"
			if freeing.script == "wake" {
				state = "room [dead];%s;[last] 30s"
			}
			s.prepare(t, parseState(t, lock, fmt.Sprintf(state, lock)))
			from := s.now(t)
			s.eval(t, lock, freeing.script, freeing.keys, freeing.args)
			s.wantTold(t)
			s.wantKept(t, from)
		})
	}
}

func (s *scriptServer) eval(t *testing.T, lock, script, keys, call string) []any {
	t.Helper()
	var names []string
	for _, name := range strings.Fields(keys) {
		names = append(names, keyOf(lock, name))
	}
	var args []any
	for _, arg := range strings.Fields(call) {
		args = append(args, strings.Trim(arg, "'"))
	}
	got, err := s.client.Eval(t.Context(), luaSource(t, script), names, args...).Result()
	if err != nil {
		t.Fatal(err)
	}
	return listOf(got)
}
