package place

import (
	"cmp"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Questions about nodes, for explanations, and changes that are only thought of.
// They cost time proportional to the nodes, and change nothing that a decision
// depends on.

// mostNamed is how many nodes out of service a Survey names.
const mostNamed = 10

// inNames are nodes, of which those with fewer faults come first, in order of their names.
func inNames(order []*Node) []*Node {
	if n := len(order); n == 0 || order[0].spec.Faults == order[n-1].spec.Faults {
		return order
	}
	return slices.SortedFunc(slices.Values(order), func(a, b *Node) int {
		return core.CompareNames(a.spec.Name, b.spec.Name)
	})
}

// Survey says how the nodes stand that a class may use. Facts that are the
// caller's own are left zero.
func (s *Nodes) Survey(c *Class) core.NodeFacts {
	s.settle()
	f := core.NodeFacts{
		Total: int32(len(s.order)),                 //nolint:gosec // few
		Fit:   int32(min(s.slots(c, Free), 1<<30)), //nolint:gosec // few
	}
	scarce := s.scarcest(c)
	if scarce.amount > 0 {
		f.Resource, f.Need = s.resourceName(scarce.resource), core.Amount(scarce.amount)
	}
	for _, n := range inNames(s.order) {
		if !s.admits(c, n.rank) {
			continue
		}
		f.Matching++
		if !n.TakesWork() {
			addDown(&f, n)
			continue
		}
		if s.fits(c, Free, n) == 0 {
			f.Full++
		}
		free := core.Amount(max(0, n.unused(scarce.resource)))
		f.Free, f.Largest = f.Free.Add(free), max(f.Largest, free)
	}
	return f
}

// addDown counts a node that takes no work.
func addDown(f *core.NodeFacts, n *Node) {
	if len(f.Down) < mostNamed {
		f.Down = append(f.Down, core.DownNode{Name: n.spec.Name, State: n.spec.State, Why: n.spec.Why})
	}
	switch n.spec.State {
	case core.NodeEvicted:
		f.Evicted++
	case core.NodeLost:
		f.Lost++
	case core.NodeClosed:
		if n.spec.Why == core.Cordoned {
			f.Cordoned++
		} else {
			f.Closed++
		}
	case core.NodeReady, core.NodeWarned:
	}
}

// unused is what is free of a resource now and reserved for none.
func (n *Node) unused(resource int) int64 {
	if resource >= len(n.free[core.Current]) || resource >= len(n.free[core.Projected]) {
		return 0
	}
	return min(n.free[core.Current][resource], n.free[core.Projected][resource])
}

// scarcest is the need of a class of which the least is free on its nodes in
// service, the packed resource first where several are.
func (s *Nodes) scarcest(c *Class) need {
	best, least := need{}, int64(-1)
	needs := slices.Clone(c.needs)
	slices.SortStableFunc(
		needs,
		func(a, b need) int { return order(a.resource != s.packID, b.resource != s.packID) },
	)
	for _, r := range needs {
		pods := int64(0)
		for _, n := range s.order {
			if n.TakesWork() && s.admits(c, n.rank) {
				pods += max(0, n.unused(r.resource)) / r.amount
			}
		}
		if least < 0 || pods < least {
			best, least = r, pods
		}
	}
	return best
}

// Occupied is a node in service that a class may use, and where it would get more
// places if a workload left.
type Occupied struct {
	*Node
	// scarce are the resources of which one more pod would need more than is free.
	scarce []int
	// limits of which one more pod would need more than is left.
	limits []core.Limit
}

// Occupied lists such nodes, of the first looks that the class may use in order of
// names.
func (s *Nodes) Occupied(c *Class, looks int) []Occupied {
	s.settle()
	var out []Occupied
	for _, n := range inNames(s.order) {
		if !n.TakesWork() || !s.admits(c, n.rank) {
			continue
		}
		if looks--; looks < 0 {
			break
		}
		more := int64(s.fits(c, Free, n)) + 1
		o := Occupied{Node: n}
		for _, r := range c.needs {
			has := int64(0)
			if r.resource < len(n.cap) {
				has = n.cap[r.resource]
			}
			if n.unused(r.resource) < more*r.amount && has >= more*r.amount {
				o.scarce = append(o.scarce, r.resource)
			}
		}
		for _, l := range c.limits {
			if !l.Own && n.takenOf(l.Name, Free)+more*int64(l.Count) > int64(l.Most) {
				o.limits = append(o.limits, l)
			}
		}
		if len(o.scarce)+len(o.limits) > 0 {
			out = append(out, o)
		}
	}
	return out
}

// Used lists nodes in service that a class may use with all that its pods need as
// scarce: for pod sets that lack room only beside others of the same workload.
func (s *Nodes) Used(c *Class, looks int) []Occupied {
	s.settle()
	var out []Occupied
	for _, n := range inNames(s.order) {
		if len(out) < looks && n.TakesWork() && s.admits(c, n.rank) {
			o := Occupied{Node: n}
			for _, r := range c.needs {
				o.scarce = append(o.scarce, r.resource)
			}
			out = append(out, o)
		}
	}
	return out
}

// Taken is how much of what is scarce there a hold takes of the node: of the packed
// resource if that is scarce, else of the first that is; 0 if it is elsewhere.
func (s *Nodes) Taken(o Occupied, h Hold) (resource string, amount core.Amount) {
	if h.Node != o.Node {
		return "", 0
	}
	scarce := slices.Clone(o.scarce)
	slices.SortStableFunc(scarce, func(a, b int) int { return order(a != s.packID, b != s.packID) })
	for _, id := range scarce {
		for _, r := range h.Class.needs {
			if r.resource == id {
				return s.resourceName(id), core.Amount(r.amount).Mul(int64(h.Count))
			}
		}
	}
	for _, l := range h.Class.limits {
		if slices.ContainsFunc(o.limits, func(scarce core.Limit) bool { return scarce.Name == l.Name }) {
			return l.Name, core.Amount(l.Count).Mul(int64(h.Count))
		}
	}
	return "", 0
}

// TakenByOthers is the same for pods that the engine did not place there.
func (s *Nodes) TakenByOthers(o Occupied) (resource string, amount core.Amount) {
	scarce := slices.Clone(o.scarce)
	slices.SortStableFunc(scarce, func(a, b int) int { return order(a != s.packID, b != s.packID) })
	for _, id := range scarce {
		name := s.resourceName(id)
		if a := o.spec.Foreign.Of(name); a > 0 {
			return name, a
		}
	}
	for _, l := range o.limits {
		if taken := o.foreign[l.Name].taken; taken > 0 {
			return l.Name, core.Amount(taken)
		}
	}
	return "", 0
}

// InTheWay lists what keeps nodes from serving a class: requirements of its own and
// taints, each with how many nodes would match without it alone, most first. Those
// that no single one keeps away are not counted.
func (s *Nodes) InTheWay(c *Class) []core.Obstacle {
	s.settle()
	var out []core.Obstacle
	note := func(text string, taint bool) {
		i := slices.IndexFunc(out, func(o core.Obstacle) bool { return o.Text == text && o.Taint == taint })
		if i < 0 {
			i, out = len(out), append(out, core.Obstacle{Text: text, Taint: taint})
		}
		out[i].Nodes++
	}
	for _, n := range s.order {
		if text, taint, one := c.filter.Unmet(&n.spec); one {
			note(text, taint)
		}
	}
	slices.SortStableFunc(out, func(a, b core.Obstacle) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Text, b.Text))
	})
	return out
}

// unlabelled is the level that keeps nodes from serving a class which may use them otherwise: none has its label; ""
// if there are no such nodes.
func (s *Nodes) unlabelled(c *Class) string {
	if c.near == nil || c.near.depth < 0 {
		return ""
	}
	s.settle()
	deepest, some := -1, false
	for rank, n := range s.order {
		if c.filter.Admits(&n.spec) {
			some = true
			deepest = max(deepest, c.near.tree.domains[s.domainOf(c.near.tree, rank)].level)
		}
	}
	if skew := c.near.skew; some && deepest >= c.near.depth && skew != nil {
		return skew.Level
	}
	if !some || deepest >= c.near.depth {
		return ""
	}
	return c.near.tree.levels[deepest+1]
}

// TaintsInTheWay lists the taints that alone keep nodes from serving a class, at most
// so many, in order of the nodes' names.
func (s *Nodes) TaintsInTheWay(c *Class, most int) []core.Taint {
	s.settle()
	var out []core.Taint
	for _, n := range inNames(s.order) {
		if _, taint, one := c.filter.Unmet(&n.spec); !one || !taint || len(out) == most {
			continue
		}
		if t, _ := core.Untolerated(n.spec.Taints, c.filter.Tolerations); !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// Down lists nodes that a class may use and that take no work, at most so many, in
// order of their names.
func (s *Nodes) Down(c *Class, most int) []*Node {
	s.settle()
	var out []*Node
	for _, n := range inNames(s.order) {
		if len(out) < most && !n.TakesWork() && s.admits(c, n.rank) {
			out = append(out, n)
		}
	}
	return out
}

// Suppose thinks of a node in another state. The function that it returns takes that
// back; until then nothing may be decided.
func (s *Nodes) Suppose(n *Node, state core.NodeState) (undo func()) {
	s.settle()
	was := n.spec.State
	n.spec.State = state
	s.supposed++
	s.touch(n)
	return func() {
		n.spec.State = was
		s.supposed--
		s.touch(n)
	}
}

// Clear thinks of a node without the pods that the engine did not place there.
func (s *Nodes) Clear(n *Node) (undo func()) {
	s.settle()
	add := func(sign int64) {
		for _, q := range n.spec.Foreign {
			if id, ok := s.resources[q.Resource]; ok {
				for l := range n.free {
					if id < len(n.free[l]) {
						n.free[l][id] += sign * int64(q.Amount)
					}
				}
			}
		}
		s.touch(n)
	}
	crowd := n.foreign
	n.foreign = nil
	add(1)
	return func() {
		n.foreign = crowd
		add(-1)
	}
}

// Imagine books holds, or with a negative sign takes them off, and notes no owner.
func (s *Nodes) Imagine(l core.Account, holds []Hold, sign int64) {
	for _, h := range holds {
		s.book(l, h, sign)
	}
}
