package measure_test

import (
	"maps"
	"testing"

	"github.com/go-lynx/lynx-redis-lock/bench/measure"
)

const info = "# Commandstats\r\n" +
	"cmdstat_set:calls=20,usec=30,usec_per_call=1.50,rejected_calls=1,failed_calls=0\r\n" +
	"cmdstat_evalsha:calls=10,usec=90,usec_per_call=9.00,rejected_calls=0,failed_calls=2\r\n" +
	"cmdstat_client|setinfo:calls=4,usec=4,usec_per_call=1.00,rejected_calls=0,failed_calls=0\r\n" +
	"cmdstat_info:calls=3,usec=3,usec_per_call=1.00,rejected_calls=0,failed_calls=0\r\n"

func TestCommandStatsAreReadByCalls(t *testing.T) {
	want := measure.Commands{"set": 20, "evalsha": 10, "client|setinfo": 4, "info": 3}
	if got := measure.ParseCommandStats(info); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestADifferenceLeavesTheBenchmarksOwnQuestionsOut(t *testing.T) {
	diff := measure.ParseCommandStats(info).Since(measure.Commands{"set": 5, "evalsha": 10})
	if want := (measure.Commands{"set": 15}); !maps.Equal(diff, want) {
		t.Errorf("got %v, want %v", diff, want)
	}
}

func TestMonitorTellsScriptsFromClients(t *testing.T) {
	for _, c := range []struct {
		line, name     string
		fromScript, ok bool
	}{
		{`1700000000.000001 [0 127.0.0.1:40000] "EVALSHA" "5f" "1" "k"`, "evalsha", false, true},
		{`1700000000.000002 [0 lua] "get" "k] \"x"`, "get", true, true},
		{`1700000000.000003 [0 unix:/tmp/sock] "set" "k" "v"`, "set", false, true},
		{`+OK`, "", false, false},
		{``, "", false, false},
	} {
		name, fromScript, ok := measure.ParseMonitorLine(c.line)
		if name != c.name || fromScript != c.fromScript || ok != c.ok {
			t.Errorf("%q is %q, %v, %v", c.line, name, fromScript, ok)
		}
	}
}

func TestASplitSharesOutWhatBothSend(t *testing.T) {
	split := measure.Split{}
	for _, line := range []string{
		`1 [0 127.0.0.1:4] "set" "a"`, `1 [0 lua] "set" "a"`, `1 [0 lua] "set" "a"`, `1 [0 lua] "set" "a"`,
		`1 [0 lua] "get" "a"`, `1 [0 127.0.0.1:4] "evalsha" "a"`, `1 [0 127.0.0.1:4] "info"`,
	} {
		split.Note(line)
	}
	wire, script := split.Of(measure.Commands{"set": 40, "get": 7, "evalsha": 5, "ssubscribe": 1, "publish": 2})
	if wire != 10+5+1 || script != 30+7+2 {
		t.Errorf("%v on the wire and %v in scripts, want 16 and 39", wire, script)
	}
}
