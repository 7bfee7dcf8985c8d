package main

import (
	"errors"
	"fmt"
	"sync"
)

// errStale refuses a write whose lock was taken by somebody else since.
var errStale = errors.New("stale write refused")

// resource is what the workers write to. The lock's fencing token goes with every
// write, because a worker may have lost its lock without knowing it yet.
type resource interface {
	write(token int64, text string) error
}

// account is a resource that looks at the token. In a database it is a condition of
// the UPDATE: … SET text = ?, token = ? WHERE id = ? AND token <= ?
type account struct {
	mu     sync.Mutex // makes the check and the write one step
	newest int64
	text   string
}

func (a *account) write(token int64, text string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if token < a.newest {
		return fmt.Errorf("%w: token %d is older than %d", errStale, token, a.newest)
	}
	a.newest, a.text = token, text
	return nil
}

// write passes a worker's write on and counts a refused one.
func (d *demo) write(who string, token int64) {
	switch err := d.account.write(token, who); {
	case errors.Is(err, errStale):
		d.seen.stale.Add(1)
		d.say(who, "%v", err)
	case err != nil:
		d.failed(who, err)
	default:
		d.say(who, "wrote with token %d", token)
	}
}
