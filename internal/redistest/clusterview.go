package redistest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// view is what one node of a cluster says about all nodes.
type view map[*Server]node

type node struct {
	flags  []string
	master *Server // nil for a primary
	epoch  uint64
	link   string
	slots  []slotRange
}

type slotRange struct{ first, last int }

func (n node) is(flag string) bool { return slices.Contains(n.flags, flag) }

// view reads CLUSTER NODES
// (https://redis.io/docs/latest/commands/cluster-nodes/#serialization-format).
func (c *Cluster) view(s *Server) (view, error) {
	text, err := s.do("CLUSTER", "NODES").Text()
	if err != nil {
		return nil, err
	}
	v := view{}
	for line := range strings.Lines(text) {
		// id address flags master ping pong epoch link slot…
		f := strings.Fields(line)
		if len(f) < 8 {
			return nil, fmt.Errorf("CLUSTER NODES said %q", line)
		}
		server := c.byID(f[0])
		if server == nil {
			continue // a node in handshake has no id of its own yet
		}
		n := node{flags: strings.Split(f[2], ","), master: c.byID(f[3]), link: f[7]}
		if n.epoch, err = strconv.ParseUint(f[6], 10, 64); err != nil {
			return nil, fmt.Errorf("CLUSTER NODES said %q: %w", line, err)
		}
		if n.slots, err = slotRanges(f[8:]); err != nil {
			return nil, fmt.Errorf("CLUSTER NODES said %q: %w", line, err)
		}
		v[server] = n
	}
	return v, nil
}

func (c *Cluster) byID(id string) *Server {
	for server, known := range c.ids {
		if known == id {
			return server
		}
	}
	return nil
}

func slotRanges(fields []string) ([]slotRange, error) {
	var ranges []slotRange
	for _, field := range fields {
		if strings.HasPrefix(field, "[") {
			continue // a slot on the move is still listed with its owner
		}
		first, last, isRange := strings.Cut(field, "-")
		if !isRange {
			last = first
		}
		var r slotRange
		var err error
		if r.first, err = strconv.Atoi(first); err != nil {
			return nil, err
		}
		if r.last, err = strconv.Atoi(last); err != nil {
			return nil, err
		}
		ranges = append(ranges, r)
	}
	return ranges, nil
}

// shape is the view of the living nodes in a form that can be compared. It is an
// error if one of them is missing or not well.
func (v view) shape(alive []*Server) (string, error) {
	var b strings.Builder
	for _, s := range alive {
		n, known := v[s]
		if !known {
			return "", fmt.Errorf("%s is not known yet", s.Addr())
		}
		for _, bad := range []string{"fail", "fail?", "handshake", "noaddr"} {
			if n.is(bad) {
				return "", fmt.Errorf("%s is marked %v", s.Addr(), n.flags)
			}
		}
		if n.link != "connected" {
			return "", fmt.Errorf("the link to %s is %s", s.Addr(), n.link)
		}
		follows := "no one"
		if n.master != nil {
			follows = n.master.Addr()
		}
		fmt.Fprintf(&b, "%s follows %s and has %v\n", s.Addr(), follows, n.slots)
	}
	return b.String(), nil
}
