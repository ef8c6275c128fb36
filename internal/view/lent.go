package view

import (
	"maps"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Lent is how much of what a queue or a cohort owns others use. Who lends to whom is written
// nowhere: the quotas and what is used of them say how much is borrowed in a cohort, and what each
// could have lent. Where several could have lent it, all that is known is a least and a most.
type Lent struct{ Least, Most core.Amount }

// Add is what is lent of both.
func (l Lent) Add(more Lent) Lent { return Lent{l.Least.Add(more.Least), l.Most.Add(more.Most)} }

// AtMost reports whether Most is a bound and not what is lent.
func (l Lent) AtMost() bool { return l.Least < l.Most }

// Lending is what is lent of one resource of one flavor, by names.
type Lending struct {
	Queues, Cohorts map[string]Lent
	// Borrowed is what all in a cohort use together above what is theirs together.
	Borrowed map[string]core.Amount
}

// owner is a queue or a cohort in the tree.
type owner struct {
	parent string
	// owns is its own quota, uses what a queue uses, limit how much of what is left it lends.
	owns, uses, limit core.Amount
	below             []*owner
	seen              bool
	// borrowed is what its subtree uses above what is its own, lendable what it has left for others.
	borrowed, lendable core.Amount
	lent               Lent
}

// LendingOf finds out what is lent of a resource of a flavor. It counts as the engine does: what a
// cohort's own members have left is used first, and only what is short after that comes from
// outside.
func LendingOf(queues []ClusterQueue, cohorts []core.Cohort, of core.FlavorResource) Lending {
	trees := map[string]*owner{} // by cohort
	cohort := func(name string) *owner {
		if trees[name] == nil {
			trees[name] = &owner{limit: core.Unlimited}
		}
		return trees[name]
	}
	for i := range cohorts {
		at := cohort(cohorts[i].Name)
		at.parent = cohorts[i].Parent
		for _, g := range cohorts[i].Groups {
			at.quota(g.Flavors, of)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(trees)) {
		if above := trees[name].parent; above != "" {
			cohort(above).below = append(cohort(above).below, trees[name])
		}
	}
	members := map[string]*owner{}
	for i := range queues {
		q := &queues[i]
		at := &owner{parent: q.Cohort(), uses: q.Reserved[of], limit: core.Unlimited}
		at.quota(q.Flavors, of)
		members[q.Name] = at
		if at.parent != "" {
			cohort(at.parent).below = append(cohort(at.parent).below, at)
		}
	}
	names := slices.Sorted(maps.Keys(trees))
	// Cohorts that are above themselves have no top: each that is left stands for one.
	for _, top := range []func(*owner) bool{func(o *owner) bool { return o.parent == "" }, func(*owner) bool { return true }} {
		for _, name := range names {
			if root := trees[name]; top(root) && !root.seen {
				root.balance()
				root.share()
			}
		}
	}
	out := Lending{map[string]Lent{}, map[string]Lent{}, map[string]core.Amount{}}
	for name, at := range members {
		out.Queues[name] = at.lent
	}
	for name, at := range trees {
		out.Cohorts[name], out.Borrowed[name] = at.lent, at.borrowed
	}
	return out
}

// quota notes what is owned of a resource of a flavor.
func (o *owner) quota(flavors []core.FlavorQuotas, of core.FlavorResource) {
	for _, f := range flavors {
		for _, own := range f.Quotas {
			if f.Flavor == of.Flavor && own.Resource == of.Resource {
				o.owns = own.Nominal
				if own.Lending != nil {
					o.limit = *own.Lending
				}
			}
		}
	}
}

// balance finds out, from below, who has something left and who borrows.
func (o *owner) balance() {
	o.seen = true
	o.below = slices.DeleteFunc(o.below, func(b *owner) bool { return b.seen })
	left := o.owns.Sub(o.uses)
	for _, b := range o.below {
		b.balance()
		left = left.Add(b.lendable).Sub(b.borrowed)
	}
	o.borrowed, o.lendable = max(0, core.Amount(0).Sub(left)), min(o.limit, max(0, left))
}

// share finds out, from above, who has lent that. What those beside one borrow and what its cohort
// lends was lent by it, unless another beside it, the cohort itself or those outside can have.
func (o *owner) share() {
	var borrowed core.Amount
	offered := o.owns.Add(o.borrowed) // from outside, too
	for _, b := range o.below {
		borrowed, offered = borrowed.Add(b.borrowed), offered.Add(b.lendable)
	}
	for _, b := range o.below {
		asked, others := borrowed.Sub(b.borrowed), offered.Sub(b.lendable)
		b.lent.Most = min(b.lendable, asked.Add(o.lent.Most))
		b.lent.Least = min(b.lent.Most, max(0, asked.Add(o.lent.Least).Sub(others)))
		b.share()
	}
}
