package quota

import (
	"cmp"
	"math"
	"math/big"
	"math/bits"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
)

// DominantResourceShare is a node's dominant resource share: of the resource
// of which it borrows the largest part of what its siblings together could get,
// that part, divided by the node's weight. Shares are exact fractions and are
// compared as such. The zero value is the share of a node that borrows nothing.
type DominantResourceShare struct {
	// Resource is the dominant one, the alphabetically first of equal ones; "" if
	// nothing is borrowed.
	Resource           string
	borrowed, lendable core.Amount
	weight             core.Weight
}

// kind is the pairs of one resource that a tree knows.
type kind struct {
	resource string
	pairs    []FlavorResource
}

// Zero reports whether nothing is borrowed of what others lend.
func (s DominantResourceShare) Zero() bool { return s.borrowed == 0 }

// Infinite reports whether a node of weight 0 borrows.
func (s DominantResourceShare) Infinite() bool { return s.borrowed > 0 && s.weight == 0 }

// Compare is negative if s is the smaller share. Infinite shares are larger than
// all others and differ by how much is borrowed.
func (s DominantResourceShare) Compare(o DominantResourceShare) int {
	switch {
	case s.Zero() || o.Zero():
		return cmp.Compare(s.borrowed, o.borrowed)
	case s.Infinite() != o.Infinite():
		if o.Infinite() {
			return -1
		}
		return 1
	case s.weight == o.weight:
		return compareRatios(s.borrowed, s.lendable, o.borrowed, o.lendable)
	case s.lendable == o.lendable: // mostly: children of a cohort that borrow the same resource
		return compareRatios(s.borrowed, core.Amount(s.weight), o.borrowed, core.Amount(o.weight))
	}
	left := mul3(uint64(s.borrowed), uint64(o.lendable), uint64(o.weight))  //nolint:gosec // none is negative
	right := mul3(uint64(o.borrowed), uint64(s.lendable), uint64(s.weight)) //nolint:gosec // none is negative
	return cmp.Or(cmp.Compare(left[0], right[0]), cmp.Compare(left[1], right[1]), cmp.Compare(left[2], right[2]))
}

// Value is the share in thousandths, rounded up: what status.fairSharing shows.
// It is math.MaxInt64 for infinite shares and those too large.
func (s DominantResourceShare) Value() int64 {
	switch {
	case s.Zero():
		return 0
	case s.Infinite():
		return math.MaxInt64
	}
	above := big.NewInt(int64(s.borrowed))
	above.Mul(above, big.NewInt(1000*int64(core.WeightOne)))
	below := big.NewInt(int64(s.lendable))
	below.Mul(below, big.NewInt(int64(s.weight)))
	value, rest := above.QuoRem(above, below, new(big.Int))
	if rest.Sign() > 0 {
		value.Add(value, big.NewInt(1))
	}
	if !value.IsInt64() {
		return math.MaxInt64
	}
	return value.Int64()
}

// Exact is the share in thousandths; nil for infinite shares.
func (s DominantResourceShare) Exact() *big.Rat {
	switch {
	case s.Zero():
		return new(big.Rat)
	case s.Infinite():
		return nil
	}
	above := new(big.Int).Mul(big.NewInt(int64(s.borrowed)), big.NewInt(1000*int64(core.WeightOne)))
	return new(
		big.Rat,
	).SetFrac(above, new(big.Int).Mul(big.NewInt(int64(s.lendable)), big.NewInt(int64(s.weight))))
}

// compareRatios compares a/b with c/d; all are positive.
func compareRatios(a, b, c, d core.Amount) int {
	if b == d {
		return cmp.Compare(a, c)
	}
	h1, l1 := bits.Mul64(uint64(a), uint64(d)) //nolint:gosec // none is negative
	h2, l2 := bits.Mul64(uint64(c), uint64(b)) //nolint:gosec // none is negative
	return cmp.Or(cmp.Compare(h1, h2), cmp.Compare(l1, l2))
}

// mul3 is a*b*c in three words, the highest first.
func mul3(a, b, c uint64) [3]uint64 {
	hi, lo := bits.Mul64(a, b)
	mid, low := bits.Mul64(lo, c)
	high, m := bits.Mul64(hi, c)
	mid, carry := bits.Add64(mid, m, 0)
	return [3]uint64{high + carry, mid, low}
}

// Weigh sets the node's weight among its siblings; nil means WeightOne.
func (n *Node) Weigh(w *core.Weight) {
	n.weight = core.WeightOr(w)
	n.reshare()
}

// Weight is the node's weight among its siblings.
func (n *Node) Weight() core.Weight { return n.weight }

// reshare notes that the node's shares may have changed in all accounts.
func (n *Node) reshare() {
	for l := range n.changes {
		n.changes[l]++
	}
}

// RivalShare is the largest share among the node's siblings in account Projected. It
// costs nothing while the tree does not change.
func (n *Node) RivalShare() DominantResourceShare {
	p := n.parent
	if p.topStamp != n.root.stamp || p.topNode == nil {
		p.topStamp, p.topNode, p.top = n.root.stamp, p, [2]DominantResourceShare{}
		for _, c := range p.children {
			switch s := c.Share(core.Projected); {
			case s.Compare(p.top[0]) > 0:
				p.top[0], p.top[1], p.topNode = s, p.top[0], c
			case s.Compare(p.top[1]) > 0:
				p.top[1] = s
			}
		}
	}
	if p.topNode == n {
		return p.top[1]
	}
	return p.top[0]
}

// Share is the node's share of what its parent's subtree can lend; zero for a
// root, which cannot borrow. It costs next to nothing while nothing
// changes below the node.
func (n *Node) Share(l core.Account) DominantResourceShare {
	if n.sharesAt[l] != n.changes[l] {
		n.sharesAt[l], n.shares[l] = n.changes[l], n.ShareWith(l, nil)
	}
	return n.shares[l]
}

// ShareWith is the share with uses added to what the node's subtree uses. Where
// they come from below, Lift them first.
func (n *Node) ShareWith(l core.Account, uses []Use) DominantResourceShare {
	if n.parent == nil {
		return DominantResourceShare{}
	}
	best := DominantResourceShare{weight: n.weight}
	kinds := n.root.kinds
	for i := range kinds {
		lendable := n.parent.lendable[i]
		if lendable <= 0 {
			continue
		}
		borrowed := core.Amount(0)
		for _, p := range kinds[i].pairs {
			borrowed = borrowed.Add(n.above(l, p, uses))
		}
		if borrowed > 0 && (best.Zero() || compareRatios(borrowed, lendable, best.borrowed, best.lendable) > 0) {
			best.Resource, best.borrowed, best.lendable = kinds[i].resource, borrowed, lendable
		}
	}
	return best
}

// above is what the subtree uses of a pair above its quota when uses are added.
func (n *Node) above(l core.Account, p FlavorResource, uses []Use) core.Amount {
	c := &n.cells[p]
	if c.subtree == core.Unlimited {
		return 0
	}
	used := c.usage[l]
	for i := range uses {
		if uses[i].Pair == p {
			used = used.Add(uses[i].Amount)
		}
	}
	return max(0, used.Sub(c.subtree))
}

// BorrowsOn reports whether the node would use more than its quota of a pair
// that is asked for, when lifted is added: the same uses as asked, less what the
// nodes below keep for themselves.
func (n *Node) BorrowsOn(l core.Account, asked, lifted []Use) bool {
	for i := range asked {
		if asked[i].Amount > 0 && n.above(l, asked[i].Pair, lifted) > 0 {
			return true
		}
	}
	return false
}

// Lift replaces uses that are added to the node by what its parent sees of them.
func (n *Node) Lift(l core.Account, uses []Use) { n.Absorb(l, uses) }

// lend computes what the trees can lend, from their quotas alone.
func (f *Forest) lend(all []*Node) {
	known := map[*Node][]bool{}
	for _, n := range all {
		if n.root.Queue {
			n.kinds, n.lendable = nil, nil
			continue
		}
		if known[n.root] == nil {
			known[n.root] = make([]bool, len(f.names))
		}
		for i := range n.cells {
			if n.cells[i].set {
				known[n.root][i] = true
			}
		}
	}
	for _, n := range all {
		if set := known[n]; set != nil {
			n.kinds = f.kindsOf(set)
		}
	}
	for _, n := range all {
		if n.Queue {
			continue
		}
		n.lendable = make([]core.Amount, len(n.root.kinds))
		for i, k := range n.root.kinds {
			for _, p := range k.pairs {
				n.lendable[i] = n.lendable[i].Add(n.Limit(p))
			}
		}
	}
}

// kindsOf groups pairs by resource, in alphabetical order.
func (f *Forest) kindsOf(set []bool) []kind {
	var out []kind
	for p, is := range set {
		if !is {
			continue
		}
		name := f.names[p].Resource
		i := slices.IndexFunc(out, func(k kind) bool { return k.resource == name })
		if i < 0 {
			i = len(out)
			out = append(out, kind{resource: name})
		}
		out[i].pairs = append(out[i].pairs, FlavorResource(p))
	}
	slices.SortFunc(out, func(a, b kind) int { return cmp.Compare(a.resource, b.resource) })
	return out
}

// Track makes the forest note whose usage changes.
func (f *Forest) Track() { f.track = true }

// Changed calls do for each queue whose usage in account Projected was touched since
// the last call, and forgets them.
func (f *Forest) Changed(do func(*Node)) {
	for _, n := range f.changed {
		n.noted = false
		do(n)
	}
	f.changed = f.changed[:0]
}

// Pretence is a tree as it was before changes that are undone again.
type Pretence struct {
	root  *Node
	stamp uint64
}

// Pretend begins changes in the tree of n that will all be undone before
// anything else looks: nothing of them is noted. Undone ends them.
func (f *Forest) Pretend(n *Node) Pretence {
	f.pretending++
	return Pretence{n.root, n.root.stamp}
}

// Undone says that the tree is as it was before Pretend.
func (f *Forest) Undone(p Pretence) {
	f.pretending--
	if !f.overflown { // else it is not
		p.root.stamp = p.stamp
	}
}

func (f *Forest) note(l core.Account, n *Node) {
	if f.track && f.pretending == 0 && l == core.Projected && !n.noted {
		n.noted = true
		f.changed = append(f.changed, n)
	}
}

// Named returns the node of a cohort, nil if there is none.
func (f *Forest) Named(cohort string) *Node { return f.cohorts[cohort] }
