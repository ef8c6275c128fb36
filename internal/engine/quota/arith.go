package quota

import "github.com/mlbatch/mlbatch/internal/core"

// Parent returns the cohort above, nil for a root.
func (n *Node) Parent() *Node { return n.parent }

// Root returns the root of the node's tree.
func (n *Node) Root() *Node { return n.root }

// Children returns cohorts first, then queues, each by name. Do not change it.
func (n *Node) Children() []*Node { return n.children }

// Cyclic reports whether the cohorts above form a cycle; the node then stands
// alone and must not admit.
func (n *Node) Cyclic() bool { return n.cyclic }

// Stamp grows with every change of quota, or of usage in account Projected, in the node's
// tree. No two trees ever have the same one.
func (n *Node) Stamp() uint64 { return n.root.stamp }

// tick notes a change in the tree of n.
func (f *Forest) tick(n *Node) {
	f.clock++
	n.root.stamp = f.clock
}

// used notes a change of usage in the tree of n.
func (f *Forest) used(l core.Account, n *Node) {
	if l == core.Projected {
		f.tick(n)
	}
}

// CohortName returns the name of the cohort the node belongs to.
func (n *Node) CohortName() string { return n.parentName }

// Usage returns what the node's subtree uses of a pair.
func (n *Node) Usage(l core.Account, p FlavorResource) core.Amount { return n.cells[p].usage[l] }

// Nominal returns the node's own quota of a pair.
func (n *Node) Nominal(p FlavorResource) core.Amount { return n.cells[p].nominal }

// BorrowingLimit returns the node's borrowing limit, Unlimited if it has none.
func (n *Node) BorrowingLimit(p FlavorResource) core.Amount { return n.cells[p].borrow }

// Borrowed returns what the node uses above its quota.
func (n *Node) Borrowed(l core.Account, p FlavorResource) core.Amount {
	c := &n.cells[p]
	return max(0, c.usage[l].Sub(c.subtree))
}

// Add books usage of a queue and up its path.
func (f *Forest) Add(l core.Account, n *Node, uses []Use) {
	f.note(l, n)
	for _, u := range uses {
		if f.dirty {
			f.leafAdd(l, n, u.Pair, u.Amount)
			continue
		}
		f.add(l, n, u.Pair, u.Amount)
	}
	f.used(l, n)
}

// Remove takes usage of a queue off again.
func (f *Forest) Remove(l core.Account, n *Node, uses []Use) {
	f.note(l, n)
	for _, u := range uses {
		if f.dirty {
			f.leafAdd(l, n, u.Pair, -u.Amount)
			continue
		}
		f.remove(l, n, u.Pair, u.Amount)
	}
	f.used(l, n)
}

// Book pretends, in account Projected, that a queue uses v more of a pair; Unbook
// undoes it. Nothing may be added or removed in between.
func (f *Forest) Book(n *Node, p FlavorResource, v core.Amount) { f.add(core.Projected, n, p, v) }

// Unbook undoes Book; the last booked first.
func (f *Forest) Unbook(n *Node, p FlavorResource, v core.Amount) { f.remove(core.Projected, n, p, v) }

// leafAdd books on the queue alone; Settle will sum.
func (f *Forest) leafAdd(l core.Account, n *Node, p FlavorResource, v core.Amount) {
	n.changes[l]++
	for len(n.cells) <= int(p) {
		n.cells = append(n.cells, cell{})
	}
	c := &n.cells[p]
	if c.usage[l] == core.Unlimited {
		f.overflown = true
	}
	c.usage[l] = c.usage[l].Add(v)
	if c.usage[l] == core.Unlimited {
		f.overflown = true
	}
}

func (f *Forest) add(l core.Account, n *Node, p FlavorResource, v core.Amount) {
	if c := &n.cells[p]; l == core.Projected && c.usage[l] <= c.subtree && c.usage[l].Add(v) > c.subtree {
		n.root.borrowers[p]++
	}
	for {
		c := &n.cells[p]
		local := max(0, c.kept.Sub(c.usage[l]))
		c.usage[l] = c.usage[l].Add(v)
		n.changes[l]++
		if c.usage[l] == core.Unlimited {
			f.overflown = true
		}
		if n.parent == nil || v <= local {
			return
		}
		v, n = v.Sub(local), n.parent
	}
}

func (f *Forest) remove(l core.Account, n *Node, p FlavorResource, v core.Amount) {
	if c := &n.cells[p]; l == core.Projected && c.usage[l] > c.subtree && c.usage[l].Sub(v) <= c.subtree {
		n.root.borrowers[p]--
	}
	for {
		c := &n.cells[p]
		if c.usage[l] == core.Unlimited {
			f.overflown = true
			return
		}
		stored := c.usage[l].Sub(c.kept)
		c.usage[l] = c.usage[l].Sub(v)
		n.changes[l]++
		if n.parent == nil || stored <= 0 {
			return
		}
		v, n = min(v, stored), n.parent
	}
}

// Available is what the node could still use of a pair. It is negative when
// more is in use than there is.
func (n *Node) Available(l core.Account, p FlavorResource) core.Amount {
	c := &n.cells[p]
	if n.parent == nil {
		return c.subtree.Sub(c.usage[l])
	}
	above := n.parent.Available(l, p)
	if c.borrow != core.Unlimited {
		used := max(0, c.usage[l].Sub(c.kept))
		above = min(above, c.lent.Sub(used).Add(c.borrow))
	}
	return max(0, c.kept.Sub(c.usage[l])).Add(above)
}

// Room is Available, but never negative.
func (n *Node) Room(l core.Account, p FlavorResource) core.Amount { return max(0, n.Available(l, p)) }

// Limit is the most the node could ever use of a pair.
func (n *Node) Limit(p FlavorResource) core.Amount {
	c := &n.cells[p]
	if n.parent == nil {
		return c.subtree
	}
	most := c.kept.Add(n.parent.Limit(p))
	if c.borrow != core.Unlimited {
		most = min(most, c.subtree.Add(c.borrow))
	}
	return most
}

// LimitBelowRoot is the most of a pair that a cohort above the node, below the
// root, could give it without borrowing itself.
func (n *Node) LimitBelowRoot(p FlavorResource) core.Amount {
	most, kept := core.Amount(0), n.cells[p].kept
	for a := n.parent; a != nil && a.parent != nil; a = a.parent {
		c := &a.cells[p]
		most = max(most, kept.Add(c.subtree))
		kept = kept.Add(c.kept)
	}
	return most
}

// BorrowsWith reports whether the node would use more than its own quota if v
// were added.
func (n *Node) BorrowsWith(l core.Account, p FlavorResource, v core.Amount) bool {
	c := &n.cells[p]
	return c.subtree < c.usage[l].Add(v)
}

// WithinNominal reports whether the node uses no more than its quota of any of
// the pairs.
func (n *Node) WithinNominal(l core.Account, pairs []FlavorResource) bool {
	for _, p := range pairs {
		c := &n.cells[p]
		if c.subtree < c.usage[l] {
			return false
		}
	}
	return true
}

// WithinPromised reports whether the node uses no more of any of the pairs than was promised to it: its quota, and what
// is cut of it for now. Of a cohort it may say so too often, and never too rarely: what is cut below may be kept there
// or lent.
func (n *Node) WithinPromised(l core.Account, pairs []FlavorResource) bool {
	for _, p := range pairs {
		c := &n.cells[p]
		if c.subtree.Add(c.cut) < c.usage[l] {
			return false
		}
	}
	return true
}

// Cut is how much less than promised the node has of a pair for now, with all below it.
func (n *Node) Cut(p FlavorResource) core.Amount { return n.cells[p].cut }

// Borrows reports whether the node, or a cohort above it, uses more than its
// quota of some of the pairs in account Projected.
func (n *Node) Borrows(uses []Use) bool {
	for ; n != nil; n = n.parent {
		for _, u := range uses {
			if c := &n.cells[u.Pair]; c.usage[core.Projected] > c.subtree {
				return true
			}
		}
	}
	return false
}

// OthersBorrow reports whether another queue of the tree uses more of a pair than
// its own quota, in account Projected. Without one there is nothing to take back.
func (n *Node) OthersBorrow(p FlavorResource) bool {
	own := int32(0)
	if c := &n.cells[p]; c.usage[core.Projected] > c.subtree {
		own = 1
	}
	return n.root.borrowers[p] > own
}

// UnderNominal reports whether a queue uses strictly less than its own quota of
// all the pairs.
func (n *Node) UnderNominal(l core.Account, pairs []FlavorResource) bool {
	for _, p := range pairs {
		c := &n.cells[p]
		if c.usage[l] >= c.nominal {
			return false
		}
	}
	return true
}

// Absorb reports whether the node's own quota has room for all of the uses, and
// replaces them by what would have to come from above.
func (n *Node) Absorb(l core.Account, uses []Use) bool {
	fits := true
	for i := range uses {
		c := &n.cells[uses[i].Pair]
		if c.subtree < c.usage[l].Add(uses[i].Amount) {
			fits = false
		}
		local := max(0, c.kept.Sub(c.usage[l]))
		uses[i].Amount = max(0, uses[i].Amount.Sub(local))
	}
	return fits
}

// Level is the borrowing level of v more: the height of the lowest subtree that
// has room for it, 0 if the queue itself has. reclaim says that this subtree
// has a parent, so that quota lent out of it may be taken back.
func (n *Node) Level(l core.Account, p FlavorResource, v core.Amount) (level int, reclaim bool) {
	if n.parent == nil || !n.BorrowsWith(l, p, v) {
		return 0, n.parent != nil
	}
	c := &n.cells[p]
	rest := v.Sub(max(0, c.kept.Sub(c.usage[l])))
	for a := n.parent; ; a = a.parent {
		if !a.BorrowsWith(l, p, rest) {
			return a.height, a.parent != nil
		}
		if a.parent == nil {
			return a.height, false
		}
		ac := &a.cells[p]
		rest = rest.Sub(max(0, ac.kept.Sub(ac.usage[l])))
	}
}

// PairsOf lists the pairs that a node has quota for or uses.
func (f *Forest) PairsOf(n *Node) []FlavorResource {
	var out []FlavorResource
	for i := range n.cells {
		if c := &n.cells[i]; c.set || c.usage[core.Current] != 0 {
			out = append(out, FlavorResource(i))
		}
	}
	return out
}
