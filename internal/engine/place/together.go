package place

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
)

// maxLooks bounds the search for a distribution over empty nodes, in looks at a
// node.
const maxLooks = 1 << 16

// Together returns a Shortage if pod sets that could each be placed alone can
// never be placed at the same time on the nodes there are, even if these were
// empty and in service. Where that takes too long to find out it returns none.
func (s *Nodes) Together(sets []Set) (Shortage, bool) {
	if len(sets) < 2 {
		return Shortage{}, true
	}
	s.settle()
	turn := largestFirst(sets)
	left := make([][]int64, len(s.order))
	for _, i := range turn {
		if s.fillEmpty(sets[i], left) {
			continue
		}
		x := empties{sets: make([]Set, len(sets)), looks: maxLooks}
		for k, i := range turn {
			x.sets[k] = sets[i]
		}
		x.list(s.order)
		if !x.exceeded() && x.set(0) {
			break
		}
		_, nodes, down := s.Total(sets[i].Class)
		return Shortage{Set: i, Cause: core.PodSetsTooLarge, Wanted: sets[i].Count, Nodes: nodes, Down: down}, false
	}
	return Shortage{}, true
}

// fillEmpty puts a set on the first nodes that hold it. left is what is left of
// each node, nil for all of it.
func (s *Nodes) fillEmpty(set Set, left [][]int64) bool {
	want := set.Count
	for rank, n := range s.order {
		if want == 0 {
			break
		}
		if !set.Class.filter.Admits(&n.spec) {
			continue
		}
		if left[rank] == nil {
			left[rank] = slices.Clone(n.cap)
		}
		k := min(want, set.Class.count(left[rank], left[rank]))
		set.Class.take(left[rank], k)
		want -= k
	}
	return want == 0
}

// take takes n pods off what is left of a node; they must fit.
func (c *Class) take(left []int64, n int32) {
	if n == 0 {
		return
	}
	for _, r := range c.needs {
		left[r.resource] -= int64(n) * r.amount
	}
}

// empties searches a distribution of pod sets over empty nodes: set by set, node
// by node, the most pods first.
type empties struct {
	sets  []Set
	nodes []empty // alike ones side by side
	looks int     // that are left; below 0 the search gave up
}

// empty is a node that is thought to be empty.
type empty struct {
	left   []int64
	admits []bool // by set
}

func compareEmpties(a, b empty) int {
	for i := range a.admits {
		if a.admits[i] != b.admits[i] {
			return order(a.admits[i], b.admits[i])
		}
	}
	return slices.Compare(a.left, b.left)
}

// list lists the nodes that some set may use.
func (x *empties) list(nodes []*Node) {
	for _, n := range nodes {
		e := empty{left: n.cap, admits: make([]bool, len(x.sets))}
		for i, set := range x.sets {
			e.admits[i] = set.Class.filter.Admits(&n.spec)
		}
		if slices.Contains(e.admits, true) {
			e.left = slices.Clone(e.left)
			x.nodes = append(x.nodes, e)
		}
	}
	slices.SortFunc(x.nodes, compareEmpties)
}

// exceeded reports whether the sets ask for more of some resource than all nodes
// have that they may use: a proof that needs no search.
func (x *empties) exceeded() bool {
	for _, set := range x.sets {
		for _, r := range set.Class.needs {
			if x.demand(r.resource) > x.supply(r.resource) {
				return true
			}
		}
	}
	return false
}

func (x *empties) demand(resource int) core.Amount {
	sum := core.Amount(0)
	for _, set := range x.sets {
		for _, r := range set.Class.needs {
			if r.resource == resource {
				sum = sum.Add(core.Amount(r.amount).Mul(int64(set.Count)))
			}
		}
	}
	return sum
}

func (x *empties) supply(resource int) core.Amount {
	sum := core.Amount(0)
	for _, n := range x.nodes {
		if resource < len(n.left) {
			sum = sum.Add(core.Amount(n.left[resource]))
		}
	}
	return sum
}

// tier is one set's turn.
type tier struct {
	set   Set
	index int
	slots []int32 // by node
	rest  []int64 // slots from a node on
	alike []bool  // like the node before
	given []int32
}

// set places the sets from one on. It is true too if it gave up.
func (x *empties) set(k int) bool {
	if k == len(x.sets) {
		return true
	}
	n := len(x.nodes)
	if x.looks -= n; x.looks < 0 {
		return true
	}
	t := tier{set: x.sets[k], index: k, slots: make([]int32, n), rest: make([]int64, n+1), alike: make([]bool, n), given: make([]int32, n)}
	for i := n - 1; i >= 0; i-- {
		e := x.nodes[i]
		if e.admits[k] {
			t.slots[i] = t.set.Class.count(e.left, e.left)
		}
		t.rest[i] = t.rest[i+1] + int64(t.slots[i])
		t.alike[i] = i > 0 && compareEmpties(x.nodes[i-1], e) == 0
	}
	return x.node(&t, 0, t.set.Count)
}

// node places the rest of a set on the nodes from one on. Of nodes that are alike
// none gets more than the one before it: any other distribution is the same but
// for names.
func (x *empties) node(t *tier, i int, want int32) bool {
	if want == 0 {
		return x.set(t.index + 1)
	}
	if i == len(x.nodes) {
		return false
	}
	most := min(want, t.slots[i])
	if t.alike[i] {
		most = min(most, t.given[i-1])
	}
	for n := most; n >= 0; n-- {
		if x.looks--; x.looks < 0 {
			return true
		}
		if t.rest[i+1] < int64(want-n) {
			return false
		}
		t.set.Class.take(x.nodes[i].left, n)
		t.given[i] = n
		ok := x.node(t, i+1, want-n)
		t.set.Class.take(x.nodes[i].left, -n)
		if ok {
			return true
		}
	}
	return false
}
