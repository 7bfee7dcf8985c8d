package redistest

import (
	"slices"
	"testing"
)

// SlotMove is a slot on its way from one primary of a cluster to another. Until
// Finish the old one answers for the keys it still has, and sends clients to the
// new one (ASK) for those it has not.
type SlotMove struct {
	cluster  *Cluster
	slot     uint16
	from, to *Server
}

// MoveSlot moves a slot with its keys.
func (c *Cluster) MoveSlot(tb testing.TB, slot uint16, to *Server) {
	tb.Helper()
	c.BeginMove(tb, slot, to).Finish(tb)
}

// BeginMove marks the slot as importing at to, a primary, and as migrating at its
// owner. No key is moved yet.
func (c *Cluster) BeginMove(tb testing.TB, slot uint16, to *Server) *SlotMove {
	tb.Helper()
	from := c.primaryOf(tb, slot)
	if from == to {
		tb.Fatalf("redistest: %s has slot %d already", to.Addr(), slot)
	}
	// In this order, or the owner would for a moment send clients to a node that
	// sends them back.
	to.must(tb, "CLUSTER", "SETSLOT", slot, "IMPORTING", c.ids[from])
	from.must(tb, "CLUSTER", "SETSLOT", slot, "MIGRATING", c.ids[to])
	return &SlotMove{cluster: c, slot: slot, from: from, to: to}
}

const migrateTimeoutMs = 10_000

// MoveKey moves one key, which splits the keys of its tag between two nodes.
func (m *SlotMove) MoveKey(tb testing.TB, key string) {
	tb.Helper()
	m.from.must(tb, "MIGRATE", loopback, m.to.port, key, 0, migrateTimeoutMs)
}

// MoveKeys moves all keys that the old owner has now.
func (m *SlotMove) MoveKeys(tb testing.TB) {
	tb.Helper()
	const batch = 100
	for {
		keys, err := m.from.do("CLUSTER", "GETKEYSINSLOT", m.slot, batch).Slice()
		if err != nil {
			tb.Fatalf("redistest: %v", err)
		}
		if len(keys) == 0 {
			return
		}
		m.from.must(tb, slices.Concat([]any{"MIGRATE", loopback, m.to.port, "", 0, migrateTimeoutMs, "KEYS"}, keys)...)
	}
}

// Finish moves the keys that are left, gives the slot to its new owner, and
// returns when all living nodes know.
func (m *SlotMove) Finish(tb testing.TB) {
	tb.Helper()
	m.MoveKeys(tb)
	// The new owner first: until it answers for the slot, the old one must.
	m.to.must(tb, "CLUSTER", "SETSLOT", m.slot, "NODE", m.cluster.ids[m.to])
	m.from.must(tb, "CLUSTER", "SETSLOT", m.slot, "NODE", m.cluster.ids[m.to])
	for _, s := range aliveOf(m.cluster.servers) {
		// Replicas refuse, and learn it from their primary. The others would by
		// gossip, only later; one that fails over meanwhile will.
		_ = s.do("CLUSTER", "SETSLOT", m.slot, "NODE", m.cluster.ids[m.to]).Err()
	}
	await(tb, "the nodes agree on the slot", m.cluster.settled)
	if owner := m.cluster.primaryOf(tb, m.slot); owner != m.to {
		tb.Fatalf("redistest: slot %d went to %s", m.slot, owner.Addr())
	}
}
