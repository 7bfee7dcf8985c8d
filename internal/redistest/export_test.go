package redistest

import "bufio"

// ReadFrameRaw reads one RESP value and returns its bytes and first-level strings.
func ReadFrameRaw(r *bufio.Reader) ([]byte, []string, error) {
	f, err := readFrame(r)
	return f.raw, f.items, err
}

// TakePort and FreePort are the reservation that Start and StartProxy use.
func TakePort() (int, error) { return ports.take() }
func FreePort(port int)      { ports.free(port) }
