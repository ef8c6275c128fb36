package preempt

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/place"
)

// A pod that needs a whole node gets none if victims go in their order: the newest are scattered over many nodes, and
// before they leave one of these all may be taken that a queue has borrowed. So victims are looked for on the nodes, too,
// that are cleared at the least cost. A gang that holds many nodes is paid for once: each node is chosen with regard to
// those that go already.

// mostSelections is how many selections of nodes are tried in each order of these.
const mostSelections = 4

// occupant is a candidate with the nodes it holds.
type occupant struct {
	*Candidate
	own   bool
	nodes []*occupied
	taken bool
}

// occupied is a node that candidates hold.
type occupied struct {
	node      *place.Node
	occupants []*occupant
	// gain is how many pods have room on it without them that have none now.
	gain int64
	// price is what it costs to evict those that are not taken yet, uses how much they use of what is short.
	price price
	uses  core.Amount
	order selectionOrder
	at    int // in costs, -1 if it is not there
}

// selectionOrder says which nodes are cleared first.
type selectionOrder uint8

const (
	// byPrice is those that cost the least for each pod.
	byPrice selectionOrder = iota
	// byUse is those whose occupants use the least of what is short for each pod, byCount those with the fewest.
	byUse
	byCount
)

// costs is a heap of nodes.
type costs []*occupied

func (h *costs) Len() int           { return len(*h) }
func (h *costs) Less(i, j int) bool { return (*h)[i].before((*h)[j]) }

// Swap exchanges two nodes.
func (h *costs) Swap(i, j int) {
	(*h)[i], (*h)[j] = (*h)[j], (*h)[i]
	(*h)[i].at, (*h)[j].at = i, j
}

// Push adds a node at the end.
func (h *costs) Push(x any) {
	n := x.(*occupied) //nolint:forcetypeassert // there are no others
	n.at = len(*h)
	*h = append(*h, n)
}

// Pop takes the node at the end.
func (h *costs) Pop() any {
	last := len(*h) - 1
	n := (*h)[last]
	*h, n.at = (*h)[:last], -1
	return n
}

// before orders nodes by what it costs to clear them for one pod.
func (n *occupied) before(o *occupied) bool {
	a, b := n.price, o.price
	by := 0
	switch n.order {
	case byPrice:
	case byUse:
		by = cmp.Compare(int64(n.uses)*o.gain, int64(o.uses)*n.gain)
	case byCount:
		by = cmp.Compare(int64(a.victims)*o.gain, int64(b.victims)*n.gain)
	}
	if by != 0 {
		return by < 0
	}
	a.work, a.pods, b.work, b.pods = a.work*o.gain, a.pods*o.gain, b.work*n.gain, b.pods*n.gain
	a.counted, b.counted = a.counted.times(o.gain), b.counted.times(n.gain)
	if n.order != byPrice {
		a.work, a.pods, b.work, b.pods = 0, 0, 0, 0
		a.counted, b.counted = loss{}, loss{}
	}
	return cmp.Or(a.compare(b), core.CompareNames(n.node.Name(), o.node.Name())) < 0
}

// assess finds out what it costs to evict the occupants that are not taken.
func (s *Searcher) assess(n *occupied) {
	n.price, n.uses = price{}, 0
	for _, c := range n.occupants {
		if c.taken {
			continue
		}
		n.price = n.price.with(c.Candidate, c.own, s.counting())
		for _, u := range c.Uses {
			for _, pair := range s.req.Short {
				if u.Pair == pair {
					n.uses = n.uses.Add(u.Amount)
				}
			}
		}
	}
}

// onNodes looks for victims on nodes that pods of a set may use, as many of these as do beside the room that there is. Whether there are any does not
// depend on the time, since nobody looks again when only that has changed: if none were found yet, nodes are cleared where
// candidates use the least, or are the fewest. Of those that would do, the victims on nodes that are cleared at the
// least cost stand.
func (s *Searcher) onNodes( //nolint:revive // a fact
	set place.Set,
	candidates [][]cursor,
	room int64,
	fits bool,
	within func(*place.Node) bool,
	among func(only func(*Candidate) bool) bool,
) {
	each, want := set.Packed(), -room
	for _, o := range s.req.Sets {
		if each == 0 {
			want += int64(o.Count)
		} else {
			want += (int64(o.Count)*o.Packed() + each - 1) / each
		}
	}
	nodes := s.occupied(set, candidates, within)
	if !fits && !s.selections(nodes, want, byUse, among) && !s.selections(nodes, want, byCount, among) {
		return
	}
	s.selections(nodes, want, byPrice, among)
}

// selections tries some selections of nodes until victims are found, and reports whether they are.
func (s *Searcher) selections(
	nodes []*occupied,
	want int64,
	order selectionOrder,
	among func(only func(*Candidate) bool) bool,
) bool {
	for range mostSelections {
		picked := s.selection(nodes, want, order)
		if len(picked) == 0 {
			return false
		}
		if among(func(c *Candidate) bool { return holdsAny(c, func(n *place.Node) bool { return picked[n] }) }) {
			return true
		}
		nodes = withoutFirst(nodes, picked)
	}
	return false
}

// withoutFirst leaves out the first node that was picked.
func withoutFirst(nodes []*occupied, picked map[*place.Node]bool) (out []*occupied) {
	for i, n := range nodes {
		if picked[n.node] {
			return append(append(out, nodes[:i]...), nodes[i+1:]...)
		}
	}
	return nil
}

// selection picks nodes until so many pods more have room, and leaves out those that it does not need; none if all are
// not enough.
func (s *Searcher) selection(
	nodes []*occupied,
	want int64,
	order selectionOrder,
) map[*place.Node]bool {
	for _, n := range nodes {
		for _, c := range n.occupants {
			c.taken = false
		}
	}
	var left costs
	for _, n := range nodes {
		n.order = order
		s.assess(n)
		left.Push(n)
	}
	heap.Init(&left)
	var in []*occupied
	gain := int64(0)
	for gain < want {
		if len(left) == 0 {
			return nil
		}
		n := heap.Pop(&left).(*occupied) //nolint:forcetypeassert // there are no others
		in, gain = append(in, n), gain+n.gain
		for _, c := range n.occupants {
			if c.taken {
				continue
			}
			c.taken = true
			for _, o := range c.nodes {
				if s.assess(o); o.at >= 0 {
					heap.Fix(&left, o.at)
				}
			}
		}
	}
	picked := map[*place.Node]bool{}
	for i, n := range slices.Backward(in) {
		if i < len(in)-1 && gain-n.gain >= want {
			gain -= n.gain
			continue
		}
		picked[n.node] = true
	}
	return picked
}

// occupied are the nodes that pods have more room on if all candidates are gone.
func (s *Searcher) occupied(set place.Set, candidates [][]cursor, within func(*place.Node) bool) []*occupied {
	at := map[*place.Node]*occupied{}
	var all []*occupied
	for cand, own := range s.all(candidates) {
		c := &occupant{Candidate: cand, own: own}
		for _, h := range cand.Holds {
			if !within(h.Node) {
				continue
			}
			n := at[h.Node]
			if n == nil {
				n = &occupied{at: -1, node: h.Node, gain: -s.Ledger.Nodes.RoomOn(set, h.Node)}
				at[h.Node] = n
				all = append(all, n)
			}
			if last := len(n.occupants) - 1; last < 0 || n.occupants[last] != c {
				n.occupants, c.nodes = append(n.occupants, c), append(c.nodes, n)
			}
		}
	}
	for cand := range s.all(candidates) {
		s.trial.Without(&cand.Allocation)
	}
	out := all[:0]
	for _, n := range all {
		if n.gain += s.Ledger.Nodes.RoomOn(set, n.node); n.gain > 0 {
			out = append(out, n)
		}
	}
	s.trial.Restore()
	return out
}
