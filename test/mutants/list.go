package main

import "github.com/go-lynx/lynx-redis-lock/test/nemesis"

// patch replaces a text that must be in the file exactly once.
type patch struct{ file, old, new string }

// mutant is a lock that breaks one promise, and the nemesis under which it shows.
type mutant struct {
	name    string
	patches []patch
	moves   []string
}

// What the scripts say when another value owns the lock.
const (
	renewCheck   = "if owner ~= ARGV[1] then return {2, 0} end\n"
	releaseCheck = "if owner ~= ARGV[1] then return owed and {7, 2} or {2, 0} end\n"
)

var (
	lateness = []string{nemesis.LateRequests, nemesis.LateReplies, nemesis.LostReplies, nemesis.BlackHoleMove}
	losses   = []string{nemesis.FlushAll, nemesis.LateRequests}
)

var mutants = []mutant{
	{"reentry counts up on a re-send", []patch{
		{"scripts/reenter.lua", "redis.call('SET', KEYS[2], ARGV[3], 'PX', left)", "redis.call('SET', KEYS[2], (tonumber(found) or 1) + 1, 'PX', left)"},
		{"release.go", "h.depth = h.lowered(res, h.depth) + 1", "h.depth = int32(max(res.Reply.N, 1)) + 1"},
	}, []string{nemesis.LostReplies}},
	{"expiry counted from the reply", []patch{
		{"acquire.go", "until: lease.Until(sent, rl.opts.Expiration)", "until: lease.Until(now, rl.opts.Expiration)"},
	}, []string{nemesis.LateReplies}},
	{"release without the owner check", []patch{
		{"scripts/release.lua", releaseCheck, ""},
	}, lateness},
	{"hand-over without the owner check", []patch{
		{"scripts/handover.lua", "if not again and owner ~= ARGV[1] then return {2, 0} end\n", ""},
	}, losses},
	{"renewal extends another's key", []patch{
		{"scripts/renew.lua", renewCheck, ""},
	}, losses},
	{"token read, not minted, on a second acquire", []patch{
		{"scripts/mint.lua", "local token = redis.pcall('INCR', counter)", "local token = tonumber(redis.call('GET', counter)) or redis.pcall('INCR', counter)"},
	}, lateness},
	{"token minted after the owner, by its release", []patch{
		{"scripts/mint.lua", "local token = redis.pcall('INCR', counter)", "local token = (tonumber(redis.call('GET', counter)) or 0) + 1"},
		{"scripts/release.lua", "local done = owed", "redis.call('INCR', (string.gsub(KEYS[1], ':owner$', ':token')))\nlocal done = owed"},
	}, lateness},
	{"late packet frees the next hold: the owner value is the instance's", []patch{
		{"acquire.go", "\t\"context\"\n", "\t\"context\"\n\t\"fmt\"\n"},
		{"acquire.go", "value := newValue()", "value := fmt.Sprintf(\"%s%p\", prefix(), rl)"},
		{"scripts/acquire.lua", "  if not owner and redis.call('EXISTS', KEYS[3]) == 1 then return {4, 0} end\n", ""},
	}, lateness},
	{"partial release frees the lock", []patch{
		{"scripts/leave.lua", "  redis.call('DEL', KEYS[2]) -- no count means one level\n", "  redis.call('DEL', KEYS[1], KEYS[2])\n"},
	}, lateness},
	{"a loss that a renewal finds is not told", []patch{
		{"batch.go", "case res.Reply.Code != script.Done:", "case res.Reply.Code != script.Done && res.Unanswered:"},
	}, losses},
	{"a shorter Renew does not shorten the trust", []patch{
		{"renew.go", "h.until = lease.Earlier(before, lease.Until(sent, ttl))", "_ = sent"},
	}, lateness},
	{"Err reads valid for 50 ms after the deadline", []patch{
		{"hold.go", "expired := h.phase == held && lease.Left(h.until, now) <= 0", "expired := h.phase == held && lease.Left(h.until, now) <= -50*time.Millisecond"},
	}, []string{nemesis.BlackHoleMove}},
	{"the release only says that it freed the lock", []patch{
		{"scripts/release.lua", "else redis.call('DEL', KEYS[1]) end", "else redis.call('PERSIST', KEYS[1]) end"},
	}, lateness},
}
