package quota

import (
	"maps"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Cohorts lists all cohorts by name, with the ones that exist only by name in others.
func (f *Forest) Cohorts() []*Node {
	out := slices.Collect(maps.Values(f.cohorts))
	slices.SortFunc(out, compareNodes)
	return out
}

// Below lists the pairs that a node or something below it has quota for or uses,
// in the order in which they were first named.
func (f *Forest) Below(n *Node) []FlavorResource {
	has := make([]bool, len(f.names))
	var down func(*Node)
	down = func(n *Node) {
		for i := range n.cells {
			c := &n.cells[i]
			has[i] = has[i] || c.set || c.usage[core.Current] != 0
		}
		for _, c := range n.children {
			down(c)
		}
	}
	down(n)
	var out []FlavorResource
	for i, is := range has {
		if is {
			out = append(out, FlavorResource(i))
		}
	}
	return out
}

// Subtree is the quota of a node and all below it, without what is kept below and
// not lent.
func (n *Node) Subtree(p FlavorResource) core.Amount { return n.cells[p].subtree }
