package redislock

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-lynx/lynx-redis-lock/internal/inbox"
	"github.com/go-lynx/lynx-redis-lock/internal/script"
	"github.com/go-lynx/lynx-redis-lock/internal/timeheap"
)

const (
	channelPrefix = "lynx:lock:wake:"      // and a value of this process
	inboxPatience = 300 * time.Millisecond // of a waiter, for the subscription
	inboxLinger   = time.Second            // after the last waiter
	deafFor       = 5 * time.Second        // after a refusal: it costs no more than the polls meanwhile
	wakeWorth     = longestNap             // after it whoever waits looks by itself
	wakeTimeout   = 500 * time.Millisecond // of the call that passes on
)

// inboxes are a manager's subscriptions: one a node, whatever the number of keys,
// while somebody waits. Guarded by manager.mu.
type inboxes struct {
	byNode map[any]*mailbox
	// channels are the mailboxes' names, also of those that are closed: a process that
	// waits now and then is in a room once.
	channels map[any]string
	open     int  // with a goroutine
	warned   bool // that waiters poll
}

// mailbox is where the waiters for the keys of one node are told.
type mailbox struct {
	*inbox.Inbox
	node   any
	proven atomic.Bool  // whoever is this user may tell us
	until  atomic.Int64 // the timeheap.Moment up to which it is deaf

	// Guarded by manager.mu.
	users  int
	linger *time.Timer
}

// node is the client of the node that has the key.
func (m *manager) node(ctx context.Context, key string) (inbox.Subscriber, any, error) {
	if cluster, ok := m.client.(script.Cluster); ok {
		primary, err := cluster.MasterForKey(ctx, key)
		return primary, primary, err
	}
	return m.client, m.id, nil
}

// moved: the key has another node by now than the mailbox.
func (m *manager) moved(ctx context.Context, box *mailbox, key string) bool {
	if box == nil || !m.cluster {
		return false
	}
	_, node, err := m.node(ctx, key)
	return err == nil && node != box.node
}

// deaf: it is no use for the moment, Redis has refused what telling takes.
func (b *mailbox) deaf() bool {
	return b != nil && timeheap.Moment(b.until.Load()) > timeheap.MomentOf(time.Now())
}

// hears is the channel on which a word would be heard now; "": on none.
func (b *mailbox) hears(ctx context.Context) string {
	if b == nil || b.deaf() {
		return ""
	}
	if ready, _ := b.Ready(ctx, 0); !ready {
		return ""
	}
	return b.Channel()
}

// hears is the channel on which this process would hear of a key now; "": on none.
func (m *manager) hears(ctx context.Context, key string) string {
	_, node, err := m.node(ctx, key)
	if err != nil {
		return ""
	}
	m.mu.Lock()
	box := m.inboxes.byNode[node]
	m.mu.Unlock()
	return box.hears(ctx)
}

// listen is the mailbox for a key, with one user more. open: of one that exists only.
// nil: there is none.
func (m *manager) listen(ctx context.Context, key string, open bool) *mailbox {
	if open && !m.listens() { // a Cluster's client may know no node yet, and would ask for them
		return nil
	}
	client, node, err := m.node(ctx, key)
	if err != nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	box := m.inboxes.byNode[node]
	if box == nil {
		if open || m.drains.Load() > 0 {
			return nil
		}
		box = m.openInbox(client, node)
	}
	box.users++
	return box
}

func (m *manager) listens() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.inboxes.byNode) > 0
}

// openInbox subscribes. Under mu.
func (m *manager) openInbox(client inbox.Subscriber, node any) *mailbox {
	channel := m.inboxes.channels[node]
	if channel == "" {
		channel = channelPrefix + newValue()
		if m.inboxes.channels == nil {
			m.inboxes.channels = make(map[any]string)
		}
		m.inboxes.channels[node] = channel
	}
	box := &mailbox{node: node}
	box.Inbox = inbox.Open(client, channel, inbox.Handlers{
		Message: func(owner string) { m.heard(channel, owner) },
		Missed:  m.tellAll,
		Ended:   func() { m.inboxEnded(box) },
	})
	if m.inboxes.byNode == nil {
		m.inboxes.byNode = make(map[any]*mailbox)
	}
	m.inboxes.byNode[node] = box
	m.inboxes.open++
	process.enlistAnyway(m)
	return box
}

// inboxEnded has those who relied on it look how it stands, when it is Redis that has
// ended it.
func (m *manager) inboxEnded(box *mailbox) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inboxes.open--
	if box.users > 0 {
		m.tellAll()
	}
	m.settle()
}

func (m *manager) tellAll() {
	waiters.TellAll(func(line waitKey) bool { return line.client == m.id })
}

// startWaiting takes a waiter in; the channel is closed when a drain ends its wait.
func (m *manager) startWaiting() (<-chan struct{}, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.drains.Load() > 0 || !process.enlist(m) {
		return nil, stopping()
	}
	m.waiting++
	recordWaiting(1)
	return m.giveUp, nil
}

func (m *manager) endWaiting() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting--
	recordWaiting(-1)
	m.settle()
}

// unlisten takes a user off; the subscription outlives the last one a little.
func (m *manager) unlisten(box *mailbox) {
	m.mu.Lock()
	defer m.mu.Unlock()
	box.users--
	switch {
	case box.users > 0:
	case m.drains.Load() > 0:
		m.closeInbox(box)
	case box.linger == nil:
		box.linger = time.AfterFunc(inboxLinger, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.closeInbox(box)
		})
	default:
		box.linger.Reset(inboxLinger)
	}
}

// closeInboxes closes those that nobody uses. Under mu.
func (m *manager) closeInboxes() {
	for _, box := range m.inboxes.byNode {
		m.closeInbox(box)
	}
}

// closeInbox closes one, unless somebody uses it. Under mu.
func (m *manager) closeInbox(box *mailbox) {
	if box.users > 0 {
		return
	}
	if box.linger != nil {
		box.linger.Stop()
	}
	if m.inboxes.byNode[box.node] == box {
		delete(m.inboxes.byNode, box.node)
	}
	box.Close()
}

// heard is told that the lock with that owner key may be free.
func (m *manager) heard(channel, owner string) {
	key, ours := strings.CutPrefix(owner, tagPrefix)
	key, whole := strings.CutSuffix(key, "}"+ownerSuffix)
	if !ours || !whole { // a probe
		return
	}
	if !waiters.Tell(m.line(key)) {
		m.passOn(key, channel)
	}
}

// passOn tells the next process what this one has no waiter for any more.
func (m *manager) passOn(key, channel string) {
	tag := HashTag(key)
	m.later(&cleanup{
		key: key, worth: wakeWorth,
		call: script.Call{
			Script: wakeScript, Keys: []string{tag + ownerSuffix, tag + roomSuffix}, Args: []string{channel}, Timeout: wakeTimeout,
		},
	})
}

// pollInstead has the waiters of a mailbox poll for a while, and warns once: it may be
// rights that are missing, or a Redis that takes no writes now.
func (m *manager) pollInstead(box *mailbox, why error) {
	box.proven.Store(false)
	box.until.Store(int64(timeheap.MomentOf(time.Now().Add(deafFor))))
	m.mu.Lock()
	warn := !m.inboxes.warned
	m.inboxes.warned = true
	m.mu.Unlock()
	if warn {
		logWarn("redislock: waiters poll every %s, and try in %s again to be told: Redis refuses it "+
			"(the README has the ACL rules that a lock needs; a full Redis, or one without its replicas, refuses it as well): %v", longestPoll, deafFor, why)
	}
}

// forget drops a mailbox whose client was closed, so that the next waiter opens another.
func (m *manager) forget(box *mailbox) {
	m.mu.Lock()
	if m.inboxes.byNode[box.node] == box {
		delete(m.inboxes.byNode, box.node)
		delete(m.inboxes.channels, box.node)
	}
	m.mu.Unlock()
	m.unlisten(box)
}
