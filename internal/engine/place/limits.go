package place

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Limits are kept apart from resources: most pods have none, and most nodes hold none of them.

// share is what is taken of a limit on a node.
type share struct {
	taken int64
	most  int32
}

// shares are what is taken of limits on a node by name; none is kept of which nothing is.
type shares map[string]share

// with are the shares when count more is taken of a limit; they stand for s from then on.
func (s shares) with(l core.Limit, count int64) shares {
	if s == nil {
		s = shares{}
	}
	is := s[l.Name]
	is.taken, is.most = is.taken+count, l.Most
	if !l.PerNode() {
		is.most = 1 << 30 // what domains have is counted over their nodes
	}
	if is.taken == 0 {
		delete(s, l.Name)
	} else {
		s[l.Name] = is
	}
	return s
}

// over reports whether more is taken of a limit than there is.
func (s shares) over(foreign shares) bool {
	for name, is := range s {
		if is.taken+foreign[name].taken > int64(is.most) {
			return true
		}
	}
	return false
}

// exceeds reports whether more is taken of a limit on the node of a hold than its pods admit,
// with what is booked in an account.
func (h Hold) exceeds(account core.Account) bool {
	return slices.ContainsFunc(h.Class.limits, func(l core.Limit) bool {
		return !l.Own && h.Node.shares[account][l.Name].taken+h.Node.foreign[l.Name].taken > int64(l.Most)
	})
}

// measureLimits notes what pods take of limits that the engine did not place.
func (n *Node) measureLimits() {
	n.foreign = nil
	for _, l := range n.spec.ForeignLimits {
		n.foreign = n.foreign.with(l, int64(l.Count))
	}
}

// takeLimits books what a hold takes of limits that are shared with others.
func (n *Node) takeLimits(l core.Account, h Hold, sign int64) {
	for _, limit := range h.Class.limits {
		if !limit.Own {
			n.shares[l] = n.shares[l].with(limit, sign*int64(limit.Count)*int64(h.Count))
		}
	}
	if h.Class.near == nil {
		return
	}
	for _, limit := range h.Class.near.shared {
		n.shares[l] = n.shares[l].with(limit, sign*int64(limit.Count)*int64(h.Count))
	}
}

// takeOwn books what a hold takes of limits of its own, as long as its workload is being placed.
func (n *Node) takeOwn(h Hold, sign int64) {
	for _, limit := range h.Class.limits {
		if limit.Own {
			for account := range n.shares {
				n.shares[account] = n.shares[account].with(limit, sign*int64(limit.Count)*int64(h.Count))
			}
		}
	}
}

// limited reports whether more than room for its requests bounds the pods of the class.
func (c *Class) limited() bool { return len(c.limits) > 0 || len(c.filter.Refused) > 0 }

// within returns how many of so many pods limits and the answers of nodes admit to a node in
// a view.
func (c *Class) within(n *Node, v View, pods int32) int32 {
	for _, l := range c.limits {
		left := int64(l.Most) - n.takenOf(l.Name, v)
		pods = int32(max(0, min(int64(pods), left/int64(l.Count)))) //nolint:gosec // not above pods
	}
	return min(pods, c.answered(n))
}

// withinEmpty is within for a node on which nothing is.
func (c *Class) withinEmpty(n *Node, pods int32) int32 {
	for _, l := range c.limits {
		pods = min(pods, l.Most/l.Count)
	}
	if r, refused := core.TakenOn(c.filter.Refused, n.spec.Name); refused {
		pods = min(pods, r.Most)
	}
	return pods
}

// takenOf is what is taken of a limit on a node in a view.
func (n *Node) takenOf(name string, v View) int64 {
	taken := n.shares[core.Projected][name].taken
	if v == Free {
		taken = max(taken, n.shares[core.Current][name].taken)
	}
	return taken + n.foreign[name].taken
}

// answered is how many pods of the class a node takes by what it answered.
func (c *Class) answered(n *Node) int32 {
	r, refused := core.TakenOn(c.filter.Refused, n.spec.Name)
	if !refused {
		return 1 << 30
	}
	return max(0, r.Most-int32(n.shares[core.Current][c.staying()].taken)) //nolint:gosec // pods of one workload
}

// staying is what pods of the class that stay on a node are counted under while others of
// their workload are placed.
func (c *Class) staying() string { return "pods of " + c.key }

// stay counts pods that stay where they are with their own limits, or no longer.
func (s *Nodes) stay(holds []Hold, sign int64) {
	for _, h := range holds {
		h.Node.takeOwn(h, sign)
		if len(h.Class.filter.Refused) > 0 {
			h.Node.shares[core.Current] = h.Node.shares[core.Current].with(
				core.Limit{Name: h.Class.staying(), Most: 1 << 30},
				sign*int64(h.Count),
			)
		}
		s.touch(h.Node)
	}
}

// crowding names the limit that keeps most nodes in service from taking one more pod for
// which they have room; "" if none does.
func (s *Nodes) crowding(c *Class, v View) string {
	if len(c.limits) == 0 {
		return ""
	}
	s.settle()
	nodes := make([]int, len(c.limits))
	for _, n := range s.order {
		if !n.TakesWork() || !s.admits(c, n.rank) || s.room(c, v, n) == 0 {
			continue
		}
		for i, l := range c.limits {
			if n.takenOf(l.Name, v)+int64(l.Count) > int64(l.Most) {
				nodes[i]++
			}
		}
	}
	return c.named(nodes)
}

// binding names the limit that lets empty nodes hold fewer pods than they have room for.
func (s *Nodes) binding(c *Class) string {
	if len(c.limits) == 0 {
		return ""
	}
	s.settle()
	nodes := make([]int, len(c.limits))
	for _, n := range s.order {
		if !s.admits(c, n.rank) {
			continue
		}
		room := c.count(n.cap, n.cap)
		for i, l := range c.limits {
			if l.Most/l.Count < room {
				nodes[i]++
			}
		}
	}
	return c.named(nodes)
}

// named is the first limit with the most nodes; "" if none has any.
func (c *Class) named(nodes []int) string {
	most, name := 0, ""
	for i, n := range nodes {
		if n > most {
			most, name = n, c.limits[i].Name
		}
	}
	return name
}

// refusal counts the nodes that refused pods of the class and could have held them, and
// returns what the first of them answered.
func (s *Nodes) refusal(c *Class) (nodes int32, answer string) {
	if len(c.filter.Refused) == 0 {
		return 0, ""
	}
	s.settle()
	willing := c.filter.Unrefused()
	for _, n := range s.order {
		r, refused := core.TakenOn(c.filter.Refused, n.spec.Name)
		if !refused || !willing.Admits(&n.spec) || r.Most >= c.count(n.cap, n.cap) {
			continue
		}
		if nodes++; answer == "" {
			answer = r.Why
		}
	}
	return nodes, answer
}

// columns lets a search count limits like resources: what is left of each is a column behind
// those of the resources.
type columns struct {
	resources int
	limits    []core.Limit
	needs     [][]need // by set, with what it takes of limits
}

func (s *Nodes) columns(sets []Set) columns {
	c := columns{resources: len(s.resources), needs: make([][]need, len(sets))}
	for i, set := range sets {
		c.needs[i] = set.Class.needs
		for _, l := range set.Class.limits {
			at := slices.IndexFunc(c.limits, func(o core.Limit) bool { return o.Name == l.Name })
			if at < 0 {
				at, c.limits = len(c.limits), append(c.limits, l)
			}
			c.needs[i] = append(slices.Clip(c.needs[i]), need{c.resources + at, int64(l.Count)})
		}
	}
	return c
}

// left is what is left of a node: of its resources, as given, and of limits; taken is nil for
// an empty node.
func (c *columns) left(resources []int64, taken func(limit string) int64) []int64 {
	if len(c.limits) == 0 {
		return slices.Clone(resources)
	}
	out := make([]int64, c.resources, c.resources+len(c.limits))
	copy(out, resources)
	for _, l := range c.limits {
		left := int64(l.Most)
		if taken != nil {
			left -= taken(l.Name)
		}
		out = append(out, left)
	}
	return out
}
