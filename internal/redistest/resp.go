package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxBulk bounds one string, so that a broken length is an error and not an
// allocation of gigabytes. Redis's own limit is 512 MB; tests send far less.
const maxBulk = 64 << 20

// frame is one RESP value: the bytes as they came, to be passed on unchanged,
// and the strings at its first level, which is all that faults are chosen by.
type frame struct {
	raw   []byte
	kind  byte
	items []string
}

// readCommand reads one request: an array of bulk strings, or an inline
// command, which is a bare line of words.
func readCommand(r *bufio.Reader) (frame, error) {
	first, err := r.Peek(1)
	if err != nil {
		return frame{}, err
	}
	if first[0] == '*' {
		return readFrame(r)
	}
	line, err := r.ReadString('\n')
	return frame{raw: []byte(line), items: strings.Fields(line)}, err
}

// readFrame reads one value of RESP2 or RESP3, with any attributes before it.
func readFrame(r *bufio.Reader) (frame, error) {
	var f frame
	for {
		start := len(f.raw)
		f.items = nil
		if err := f.read(r, 0); err != nil {
			return frame{}, err
		}
		if f.kind = f.raw[start]; f.kind != '|' {
			return f, nil
		}
	}
}

// read appends one value to raw, and to items if it is a string one level down.
func (f *frame) read(r *bufio.Reader, depth int) error {
	line, err := r.ReadString('\n')
	if err != nil {
		return err
	}
	f.raw = append(f.raw, line...)
	head := strings.TrimRight(line, "\r\n")
	if head == "" {
		return errors.New("redistest: empty line where a RESP value was expected")
	}
	switch kind, rest := head[0], head[1:]; kind {
	case '+', '-', ':', ',', '#', '(', '_':
		f.note(depth, rest)
		return nil
	case '$', '=', '!':
		return f.readBulk(r, depth, rest)
	case '*', '~', '>', '%', '|':
		return f.readItems(r, depth, kind, rest)
	default:
		return fmt.Errorf("redistest: %q is not RESP", head)
	}
}

func (f *frame) readBulk(r *bufio.Reader, depth int, length string) error {
	n, err := strconv.Atoi(length)
	if err != nil || n > maxBulk {
		return fmt.Errorf("redistest: bad length of a RESP string: %q", length)
	}
	if n < 0 { // RESP2's null
		f.note(depth, "")
		return nil
	}
	start := len(f.raw)
	f.raw = append(f.raw, make([]byte, n+len("\r\n"))...)
	if _, err := io.ReadFull(r, f.raw[start:]); err != nil {
		return err
	}
	f.note(depth, string(f.raw[start:start+n]))
	return nil
}

func (f *frame) readItems(r *bufio.Reader, depth int, kind byte, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return fmt.Errorf("redistest: bad count of RESP items: %q", count)
	}
	if kind == '%' || kind == '|' { // maps count pairs
		n *= 2
	}
	for range max(n, 0) { // -1 is RESP2's null array
		if err := f.read(r, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (f *frame) note(depth int, s string) {
	if depth == 1 {
		f.items = append(f.items, s)
	}
}
