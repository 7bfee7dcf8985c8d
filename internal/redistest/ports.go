package redistest

import (
	"errors"
	"net"
	"strconv"
	"sync"
)

// Ports come from blocks below the kernel's ephemeral range (32768 and up on
// Linux), and so do the Cluster bus ports, which are the port plus 10000. An
// outgoing connection can therefore never sit on the port of a server that is
// stopped and about to be restarted.
const (
	firstPort  = 12000
	lastPort   = 22000
	blockPorts = 200
)

const loopback = "127.0.0.1"

// ports is shared by the whole test binary: ports are a resource of the
// machine, not of one test.
var ports portBlock

// portBlock is this process's block of ports. A block is claimed by listening
// on its first port for the life of the process, so that test binaries that
// run at the same time (go test ./...) never ask for the same ports, and the
// kernel releases the claim however the process ends.
type portBlock struct {
	mu    sync.Mutex // guards the fields below; only bind calls are made under it
	claim net.Listener
	base  int
	next  int
	inUse map[int]bool
}

// take reserves a port until free is called, even while nobody listens on it.
// Ports are used in turn, so that one just freed is the last to be given out
// again and no straggling client meets a stranger's server.
func (b *portBlock) take() (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.ensureClaim(); err != nil {
		return 0, err
	}
	for range blockPorts {
		port := b.base + 1 + b.next
		b.next = (b.next + 1) % (blockPorts - 1)
		if b.inUse[port] {
			continue
		}
		// Somebody unrelated may listen here. The check can go out of date, and
		// a child being forked can hold the checking socket a moment longer: a
		// server that finds its port taken is started on another one.
		ln, err := net.Listen("tcp", hostPort(port))
		if err != nil {
			continue
		}
		_ = ln.Close()
		b.inUse[port] = true
		return port, nil
	}
	return 0, errors.New("redistest: every port of this process's block is in use")
}

func (b *portBlock) free(port int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.inUse, port)
}

// ensureClaim is called with mu held.
func (b *portBlock) ensureClaim() error {
	if b.claim != nil {
		return nil
	}
	for base := firstPort; base < lastPort; base += blockPorts {
		ln, err := net.Listen("tcp", hostPort(base))
		if err != nil {
			continue
		}
		b.claim, b.base, b.inUse = ln, base, map[int]bool{}
		return nil
	}
	return errors.New("redistest: every block of ports is claimed by another test process")
}

func hostPort(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
