package redistest_test

import (
	"bufio"
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/go-lynx/lynx-redis-lock/internal/redistest"
)

func TestAFrameEndsWhereItsValueEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		frame string
		items []string
	}{
		"simple string":        {"+OK\r\n", nil},
		"error":                {"-ERR no\r\n", nil},
		"integer":              {":-7\r\n", nil},
		"bulk with line ends":  {"$6\r\na\r\nb\r\n\r\n", nil},
		"empty bulk":           {"$0\r\n\r\n", nil},
		"RESP2 null":           {"$-1\r\n", nil},
		"RESP2 null array":     {"*-1\r\n", nil},
		"empty array":          {"*0\r\n", nil},
		"nested arrays":        {"*3\r\n$1\r\na\r\n*2\r\n:1\r\n$1\r\nx\r\n:2\r\n", []string{"a", "2"}},
		"RESP3 null":           {"_\r\n", nil},
		"RESP3 double":         {",1.5\r\n", nil},
		"RESP3 boolean":        {"#t\r\n", nil},
		"RESP3 big number":     {"(123456789012345678901234567890\r\n", nil},
		"RESP3 bulk error":     {"!5\r\nERR x\r\n", nil},
		"RESP3 verbatim":       {"=6\r\ntxt:ab\r\n", nil},
		"RESP3 map":            {"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n", []string{"a", "1", "b"}},
		"RESP3 set":            {"~2\r\n+a\r\n+b\r\n", []string{"a", "b"}},
		"RESP3 push":           {">2\r\n$7\r\nmessage\r\n$1\r\nc\r\n", []string{"message", "c"}},
		"attribute then value": {"|1\r\n+ttl\r\n:3\r\n*1\r\n+v\r\n", []string{"v"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := bufio.NewReader(strings.NewReader(tc.frame + "+next\r\n"))
			raw, items, err := redistest.ReadFrameRaw(r)
			if err != nil || string(raw) != tc.frame || !slices.Equal(items, tc.items) {
				t.Errorf("got %q %q, %v; want %q %q", raw, items, err, tc.frame, tc.items)
			}
			if raw, _, err = redistest.ReadFrameRaw(r); err != nil || string(raw) != "+next\r\n" {
				t.Errorf("the next frame is %q, %v", raw, err)
			}
		})
	}
}

func TestBytesThatAreNotRESPAreAnError(t *testing.T) {
	for _, in := range []string{"", "\r\n", "hello\r\n", "$x\r\n", "$99999999999\r\n", "*x\r\n", "$5\r\nab", "*2\r\n:1\r\n"} {
		if raw, _, err := redistest.ReadFrameRaw(bufio.NewReader(strings.NewReader(in))); err == nil {
			t.Errorf("%q was read as %q", in, raw)
		}
	}
}

// Frames are what passes through the proxy, so together they must be the input,
// with no byte lost or added, whatever the input is.
func FuzzReadFrame(f *testing.F) {
	f.Add([]byte("*1\r\n$4\r\nPING\r\n+OK\r\n%1\r\n+a\r\n_\r\n|1\r\n+x\r\n:1\r\n:2\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bufio.NewReader(bytes.NewReader(in))
		var out []byte
		for {
			raw, _, err := redistest.ReadFrameRaw(r)
			if err != nil {
				break
			}
			out = append(out, raw...)
		}
		if !bytes.HasPrefix(in, out) {
			t.Errorf("%q came out as %q", in, out)
		}
	})
}
