package measure

import (
	"maps"
	"strconv"
	"strings"
)

// Commands counts what Redis ran, by command in lower case, subcommands as
// "client|setinfo". Redis counts a script's commands beside the EVALSHA.
type Commands map[string]int64

// ParseCommandStats reads INFO commandstats.
func ParseCommandStats(info string) Commands {
	counts := Commands{}
	for line := range strings.Lines(info) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), ":")
		name, stat := strings.CutPrefix(name, "cmdstat_")
		if !ok || !stat {
			continue
		}
		for field := range strings.SplitSeq(rest, ",") {
			if calls, ok := strings.CutPrefix(field, "calls="); ok {
				n, err := strconv.ParseInt(calls, 10, 64)
				if err == nil {
					counts[name] = n
				}
			}
		}
	}
	return counts
}

// Since is what was run after before was taken, without what a benchmark asks itself.
func (c Commands) Since(before Commands) Commands {
	diff := Commands{}
	for name, n := range c {
		if d := n - before[name]; d > 0 && !ownCommand(name) {
			diff[name] = d
		}
	}
	return diff
}

// Add counts other's commands too.
func (c Commands) Add(other Commands) {
	for name, n := range other {
		c[name] += n
	}
}

// Total is the number of all commands.
func (c Commands) Total() int64 {
	var sum int64
	for n := range maps.Values(c) {
		sum += n
	}
	return sum
}

// ownCommand tells the benchmark's own questions, and what clients say when they
// connect, from the work of a lock.
func ownCommand(name string) bool {
	verb, _, _ := strings.Cut(name, "|")
	switch verb {
	case "info", "monitor", "config", "memory", "flushall", "dbsize", "scan", "hello", "client", "command", "cluster", "ping", "auth", "select":
		return true
	}
	return false
}

// Split says which share of each command the clients sent; the rest scripts ran.
// It is found out with MONITOR, which tells the two apart, as INFO does not.
type Split map[string]Origin

// Origin is how often MONITOR saw a command from a client and from a script.
type Origin struct{ Wire, Script int64 }

// Note counts one line of MONITOR.
func (s Split) Note(line string) {
	name, fromScript, ok := ParseMonitorLine(line)
	if !ok || ownCommand(name) {
		return
	}
	o := s[name]
	if fromScript {
		o.Script++
	} else {
		o.Wire++
	}
	s[name] = o
}

// Of is how many of the commands came over the wire and how many from scripts.
func (s Split) Of(counts Commands) (wire, script float64) {
	for name, n := range counts {
		share := s.wireShare(name)
		wire += share * float64(n)
		script += (1 - share) * float64(n)
	}
	return wire, script
}

// wireShare of a command that MONITOR has not shown goes by its name. MONITOR does
// not name subcommands, so "script|load" counts as "script".
func (s Split) wireShare(name string) float64 {
	verb, _, _ := strings.Cut(name, "|")
	if o, seen := s[verb]; seen {
		return float64(o.Wire) / float64(o.Wire+o.Script)
	}
	switch verb {
	case "evalsha", "eval", "script", "subscribe", "ssubscribe", "unsubscribe", "sunsubscribe", "psubscribe":
		return 1
	}
	return 0
}

// ParseMonitorLine reads one line of MONITOR, such as
//
//	1700000000.000001 [0 127.0.0.1:40000] "evalsha" "5f…"
//	1700000000.000002 [0 lua] "get" "key"
func ParseMonitorLine(line string) (name string, fromScript, ok bool) {
	_, rest, ok := strings.Cut(line, " [")
	if !ok {
		return "", false, false
	}
	origin, rest, ok := strings.Cut(rest, "] \"")
	if !ok {
		return "", false, false
	}
	name, _, ok = strings.Cut(rest, "\"")
	return strings.ToLower(name), strings.HasSuffix(origin, " lua"), ok && name != ""
}
