package quota

import (
	"fmt"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Check recomputes every sum the slow way, from what the specs say and by formulas
// of its own, and compares.
func (f *Forest) Check() error {
	if f.dirty {
		return nil
	}
	for _, n := range f.all() {
		for _, child := range n.children {
			if child.parent != n || child.root != n.root {
				return fmt.Errorf("%s hangs below %s but points elsewhere", child.Name, n.Name)
			}
		}
		for i := range n.cells {
			if err := f.checkCell(n, FlavorResource(i)); err != nil {
				return err
			}
		}
	}
	return f.checkBorrowers()
}

// checkBorrowers counts the queues that use more than their own quota.
func (f *Forest) checkBorrowers() error {
	borrowers := map[*Node][]int32{}
	for _, n := range f.all() {
		if borrowers[n.root] == nil {
			borrowers[n.root] = make([]int32, len(n.root.borrowers))
		}
		for i := range n.root.borrowers {
			if c := &n.cells[i]; n.Queue && c.usage[core.Projected] > c.subtree {
				borrowers[n.root][i]++
			}
		}
	}
	for root, want := range borrowers {
		if !slices.Equal(root.borrowers, want) {
			return fmt.Errorf("%s: counts %v borrowing queues by pair, there are %v", root.Name, root.borrowers, want)
		}
	}
	return nil
}

func (f *Forest) checkCell(n *Node, p FlavorResource) error {
	c := &n.cells[p]
	if want := f.owned(n, p); c.subtree != want {
		return fmt.Errorf("%s: subtree quota of %v is %v, its parts sum to %v", n.Name, f.names[p], c.subtree, want)
	}
	if want := f.offered(n, p); c.lent != want {
		return fmt.Errorf("%s: lends %v of %v, may lend %v", n.Name, c.lent, f.names[p], want)
	}
	if n.Queue || f.overflown {
		return nil
	}
	var usage [accounts]core.Amount
	for _, child := range n.children {
		for l := range usage {
			usage[l] = usage[l].Add(f.reaching(child, p, child.cells[p].usage[l]))
		}
	}
	if usage != c.usage {
		return fmt.Errorf("%s: usage of %v is %v, its children sum to %v", n.Name, f.names[p], c.usage, usage)
	}
	return nil
}

// spec is what a node's definition says of a pair; limits are Unlimited if there
// are none.
func (f *Forest) spec(n *Node, p FlavorResource) (nominal, lending core.Amount) {
	lending = core.Unlimited
	for _, g := range n.groups {
		for _, fl := range g.Flavors {
			for _, q := range fl.Quotas {
				if f.pairs[core.FlavorResource{Flavor: fl.Flavor, Resource: q.Resource}] != p {
					continue
				}
				nominal, lending = q.Nominal, core.Unlimited
				if q.Lending != nil {
					lending = *q.Lending
				}
			}
		}
	}
	return nominal, lending
}

// owned is a node's own quota and what its children offer.
func (f *Forest) owned(n *Node, p FlavorResource) core.Amount {
	sum, _ := f.spec(n, p)
	for _, c := range n.children {
		sum = sum.Add(f.offered(c, p))
	}
	return sum
}

// offered is as much of what a node owns as it may lend.
func (f *Forest) offered(n *Node, p FlavorResource) core.Amount {
	_, lending := f.spec(n, p)
	return min(f.owned(n, p), lending)
}

// reaching is the part of a node's usage that its parent sees: what it does not
// keep for itself. Nothing passes an unlimited quota that is not lent as a whole.
func (f *Forest) reaching(n *Node, p FlavorResource, usage core.Amount) core.Amount {
	owned, offered := f.owned(n, p), f.offered(n, p)
	switch owned {
	case offered:
		return max(0, usage)
	case core.Unlimited:
		return 0
	}
	return max(0, usage-(owned-offered))
}
