package renewal

import (
	"net"
	"sync"
	"time"
)

// DelayLine carries connections to target and holds every byte back for delay, in
// both directions: a longer way, on which nothing queues. (The proxy of redistest
// delays command by command, so that a pipeline would wait for each.)
type DelayLine struct {
	delay  time.Duration
	target string
	ln     net.Listener
	all    sync.WaitGroup

	mu    sync.Mutex // guards conns
	conns []net.Conn
}

// NewDelayLine listens on a port of its own.
func NewDelayLine(target string, delay time.Duration) (*DelayLine, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &DelayLine{delay: delay, target: target, ln: ln}
	d.all.Go(d.accept) // ends with ln; Close waits for it and for all that it starts
	return d, nil
}

// Addr is where to dial.
func (d *DelayLine) Addr() string { return d.ln.Addr().String() }

// Close cuts all connections.
func (d *DelayLine) Close() {
	_ = d.ln.Close()
	d.mu.Lock()
	for _, c := range d.conns {
		_ = c.Close()
	}
	d.mu.Unlock()
	d.all.Wait()
}

func (d *DelayLine) accept() {
	for {
		client, err := d.ln.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", d.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		d.mu.Lock()
		d.conns = append(d.conns, client, server)
		d.mu.Unlock()
		d.carry(client, server)
		d.carry(server, client)
	}
}

type parcel struct {
	due  time.Time
	data []byte
}

// carry reads at once and writes later, until either end closes.
func (d *DelayLine) carry(from, to net.Conn) {
	way := make(chan parcel, 1024)
	d.all.Go(func() {
		defer close(way)
		for {
			data := make([]byte, 16<<10)
			n, err := from.Read(data)
			if err != nil {
				return
			}
			way <- parcel{time.Now().Add(d.delay), data[:n]}
		}
	})
	d.all.Go(func() {
		defer to.Close()
		for p := range way {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.data); err != nil {
				_ = from.Close() // what is still on its way is dropped
			}
		}
	})
}
