package redislock_test

// The value is "me", the lease 60 s, the counter's least TTL 200 s.
const (
	acquireCall = "me 60000 200000 ''"
	clockCall   = "me 60000 200000 clock"
	fenceCall   = "me 60000 0 ''"
	fenceClock  = "me 60000 0 clock"
)

var acquireCases = []scriptCase{
	{
		name: "a free lock is taken, and a re-send gets the same answer", call: acquireCall,
		reply: "1 1", after: "owner me 60s, counter 1 200s", again: "1 1",
	},
	{
		name: "a new hold gets the next token", before: "counter 41 100s", call: acquireCall,
		reply: "1 42", after: "owner me 60s, counter 42 200s", again: "1 42",
	},
	{
		name: "the counter's TTL is never shortened", before: "counter 41 500s", call: acquireCall,
		reply: "1 42", after: "owner me 60s, counter 42 500s", again: "1 42",
	},
	{
		name: "a counter without a TTL gets one", before: "counter 41 -", call: acquireCall,
		reply: "1 42", after: "owner me 60s, counter 42 200s", again: "1 42",
	},
	{
		name: "another owner refuses, and nothing is written", before: "owner other 30s, count 2 30s, counter 5 100s",
		call: acquireCall, reply: "2 ~30s", after: same, again: "2 ~30s",
	},
	{
		name: "another owner without a TTL refuses and says so", before: "owner other -, counter 5 100s",
		call: acquireCall, reply: "2 -1", after: same, again: "2 -1",
	},
	{
		name: "an empty owner value is another owner", before: "owner '' 30s",
		call: acquireCall, reply: "2 ~30s", after: same,
	},
	{
		name: "a refused acquire leaves a wrong type under the other keys alone", before: "owner other 30s, count [x] 30s, counter [x] 100s",
		call: acquireCall, reply: "2 ~30s", after: same,
	},
	{
		name: "a re-send to a deeper hold changes neither depth nor TTL", before: "owner me 30s, count 3 30s, counter 5 100s",
		call: acquireCall, reply: "1 5", after: same, again: "1 5",
	},
	{
		name: "a re-send whose counter is gone mints again", before: "owner me 30s, count 3 30s",
		call: acquireCall, reply: "1 1", after: "owner me 30s, count 3 30s, counter 1 200s", again: "1 1",
	},
	{
		name: "a re-send whose counter holds no string fails and keeps the owner", before: "owner me 30s, counter [x] 100s",
		call: acquireCall, reply: "error WRONGTYPE counter", after: same,
	},
	{
		name: "a value that was given up takes nothing", before: "mark 1 80s, counter 5 100s",
		call: acquireCall, reply: "4 0", after: same, again: "4 0",
	},
	{
		name: "a value that was given up touches no stale count", before: "mark 1 80s, count 3 30s",
		call: acquireCall, reply: "4 0", after: same, again: "4 0",
	},
	{
		name: "a mark of any type refuses", before: "mark [x] 80s",
		call: acquireCall, reply: "4 0", after: same,
	},
	{
		name: "a value that was given up is told of another owner", before: "owner other 30s, mark 1 80s",
		call: acquireCall, reply: "2 ~30s", after: same,
	},
	{
		name: "a stale count without an owner is deleted", before: "count 3 30s, counter 5 100s",
		call: acquireCall, reply: "1 6", after: "owner me 60s, counter 6 200s", again: "1 6",
	},
	{
		name: "a stale count of any type is deleted", before: "count [x] -",
		call: acquireCall, reply: "1 1", after: "owner me 60s, counter 1 200s",
	},
	{
		name: "a stale count stays when the token fails", before: "count 3 30s, counter abc 100s",
		call: acquireCall, reply: "error ERR counter", after: same,
	},
	{
		name: "an owner key that holds no string is named", before: "owner [x] 30s, count 2 30s, counter 5 100s",
		call: acquireCall, reply: "error WRONGTYPE owner", after: same,
	},
}

var acquireTokenCases = []scriptCase{
	{
		name: "a counter that holds no string is named, and no owner is left", before: "counter [x] 100s",
		call: acquireCall, reply: "error WRONGTYPE counter", after: same,
	},
	{
		name: "a counter that is no number is named, and no owner is left", before: "counter abc 100s",
		call: acquireCall, reply: "error ERR counter", after: same, again: "error ERR counter",
	},
	{
		name: "an empty counter is named, and no owner is left", before: "counter '' 100s",
		call: acquireCall, reply: "error ERR counter", after: same,
	},
	{
		name: "a counter at the largest integer is named, and no owner is left", before: "counter 9223372036854775807 100s",
		call: acquireCall, reply: "error ERR counter", after: same, again: "error ERR counter",
	},
	{
		name: "a negative counter is refused and stays as it was", before: "counter -5 100s",
		call: acquireCall, reply: "error ERR counter", after: same, again: "error ERR counter",
	},
	{
		name: "a counter at -1 gives no token 0", before: "counter -1 100s",
		call: acquireCall, reply: "error ERR counter", after: same, again: "error ERR counter",
	},
	{
		name: "a counter at 0 gives 1", before: "counter 0 100s",
		call: acquireCall, reply: "1 1", after: "owner me 60s, counter 1 200s", again: "1 1",
	},
	{
		name: "below 2^53 a token is exact", before: "counter 9007199254740990 100s",
		call: acquireCall, reply: "1 9007199254740991", after: "owner me 60s, counter 9007199254740991 200s", again: "1 9007199254740991",
	},
	{
		name: "at 2^53 a token is exact", before: "counter 9007199254740991 100s",
		call: acquireCall, reply: "1 9007199254740992", after: "owner me 60s, counter 9007199254740992 200s", again: "1 9007199254740992",
	},
	{
		name: "above 2^53 a token is exact", before: "counter 9007199254740992 100s",
		call: acquireCall, reply: "1 9007199254740993", after: "owner me 60s, counter 9007199254740993 200s", again: "1 9007199254740993",
	},
	{
		name: "the largest token is exact", before: "counter 9223372036854775806 100s",
		call: acquireCall, reply: "1 9223372036854775807", after: "owner me 60s, counter 9223372036854775807 200s", again: "1 9223372036854775807",
	},
	{
		name: "a FenceKey gets no TTL", call: fenceCall,
		reply: "1 1", after: "owner me 60s, counter 1 -", again: "1 1",
	},
	{
		name: "a FenceKey counts on without a TTL", before: "counter 7 -", call: fenceCall,
		reply: "1 8", after: "owner me 60s, counter 8 -", again: "1 8",
	},
	{
		name: "a FenceKey keeps the TTL it has", before: "counter 7 100s", call: fenceCall,
		reply: "1 8", after: "owner me 60s, counter 8 100s", again: "1 8",
	},
	{
		name: "a re-send whose FenceKey is gone mints again", before: "owner me 30s", call: fenceCall,
		reply: "1 1", after: "owner me 30s, counter 1 -", again: "1 1",
	},
}

var acquireClockCases = []scriptCase{
	{
		name: "TokenClock without a counter gives the server's time", call: clockCall,
		reply: "1 now", after: "owner me 60s, counter now 200s", again: "1 now",
	},
	{
		name: "TokenClock with a counter behind gives the server's time", before: "counter 41 100s", call: clockCall,
		reply: "1 now", after: "owner me 60s, counter now 200s", again: "1 now",
	},
	{
		name: "TokenClock never shortens the counter's TTL", before: "counter 41 500s", call: clockCall,
		reply: "1 now", after: "owner me 60s, counter now 500s", again: "1 now",
	},
	{
		name: "TokenClock with a counter ahead counts on", before: "counter 9000000000000000 100s", call: clockCall,
		reply: "1 9000000000000001", after: "owner me 60s, counter 9000000000000001 200s", again: "1 9000000000000001",
	},
	{
		name: "TokenClock with a counter far ahead is exact", before: "counter 9007199254740992 500s", call: clockCall,
		reply: "1 9007199254740993", after: "owner me 60s, counter 9007199254740993 500s", again: "1 9007199254740993",
	},
	{
		name: "TokenClock with a counter at the largest integer fails, no owner is left", before: "counter 9223372036854775807 100s",
		call: clockCall, reply: "error ERR counter", after: same,
	},
	{
		name: "TokenClock with a counter that is no number fails, no owner is left", before: "counter abc 100s",
		call: clockCall, reply: "error ERR counter", after: same,
	},
	{
		name: "TokenClock with a negative counter fails, no owner is left", before: "counter -5 100s",
		call: clockCall, reply: "error ERR counter", after: same,
	},
	{
		name: "TokenClock with a counter that holds no string fails, no owner is left", before: "counter [x] 100s",
		call: clockCall, reply: "error WRONGTYPE counter", after: same,
	},
	{
		name: "TokenClock, a re-send whose counter is gone mints again", before: "owner me 30s", call: clockCall,
		reply: "1 now", after: "owner me 30s, counter now 200s", again: "1 now",
	},
	{
		name: "TokenClock in a FenceKey sets no TTL", call: fenceClock,
		reply: "1 now", after: "owner me 60s, counter now -", again: "1 now",
	},
	{
		name: "TokenClock in a FenceKey keeps the TTL it has", before: "counter 7 100s", call: fenceClock,
		reply: "1 now", after: "owner me 60s, counter now 100s", again: "1 now",
	},
	{
		name: "TokenClock in a FenceKey ahead counts on and keeps the TTL", before: "counter 9000000000000000 100s", call: fenceClock,
		reply: "1 9000000000000001", after: "owner me 60s, counter 9000000000000001 100s", again: "1 9000000000000001",
	},
}

var acquireFullCases = []scriptCase{
	{name: "a free lock is not taken", call: acquireCall, reply: "error OOM counter", after: ""},
	{name: "the counter does not move", before: "counter 5 100s", call: acquireCall, reply: "error OOM counter", after: same},
	{name: "a stale count stays", before: "count 3 30s, counter 5 100s", call: acquireCall, reply: "error OOM", after: same},
	{name: "TokenClock does not move the counter", before: "counter 5 100s", call: clockCall, reply: "error OOM", after: same},
	{name: "a FenceKey does not move", before: "counter 5 -", call: fenceCall, reply: "error OOM", after: same},
	{
		name: "a re-send is still answered", before: "owner me 30s, counter 5 100s", call: acquireCall,
		reply: "1 5", after: same, again: "1 5",
	},
	{name: "another owner still refuses", before: "owner other 30s", call: acquireCall, reply: "2 ~30s", after: same},
	{name: "a mark still refuses", before: "mark 1 80s", call: acquireCall, reply: "4 0", after: same},
}
