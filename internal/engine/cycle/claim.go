package cycle

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/ledger"
	"github.com/mlbatch/mlbatch/internal/engine/place"
	"github.com/mlbatch/mlbatch/internal/engine/preempt"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Claims: what a StrictFIFO queue keeps of its own quota for its first workload.
//
// Kueue reserves capacity for a head that waits and has nobody to evict, for the
// rest of one scheduling cycle (spec/kueue.md 2.4, step 5e). One Decide judges
// every head until nothing more can be done, so that "the rest of the cycle"
// has no length here. The rule is a function of the state instead:
//
// While the first waiting workload of an open StrictFIFO queue would fit the
// queue's nominal quota, what is unused of that quota, up to what the workload
// asks for, is kept from others that would have to borrow it and whom the queue
// could not evict again: all of them if reclaimWithinCohort is Never, those of
// the same or a higher priority if it is LowerPriority, nobody if it is Any.
//
// So the owner gets its quota as its own workloads and those who borrow end,
// however many borrowers arrive meanwhile. Others lose little: only the flavor
// that the first workload counts on is kept, only up to the nominal quota, and
// who stays within a nominal quota of its own is never held up. Two queues
// cannot wait for each other: a workload that is claimed for borrows only until
// the queue's earlier workloads end.
//
// A first workload larger than the nominal quota claims too if the queue may take
// back more than its own: if borrowWithinCohort is not Never, or a cohort above it,
// below the root, owns enough. These are those for which Kueue reserves. It claims
// what is unused of the nominal quota, and no more: what it has to borrow is owed
// to nobody, and if it were kept while its owners use it others would starve. And
// it holds up only who comes after it by priority and time, so that of two such
// workloads, each counting on what the other claims, the first has its way. With
// fair sharing it claims nothing: who borrows is a matter of shares there.
//
// BestEffortFIFO queues claim nothing: there Kueue's reservation ends with the
// cycle in which the head was refused, and smaller workloads of the queue may
// pass it anyway.

// claims reports whether the queue may claim at all.
func (q *queue) claims() bool {
	return q.strict() && q.closed == nil && q.spec.Preemption.Reclaim != core.PreemptAny && q.node.Parent() != nil
}

// claimant is the workload that a queue claims for; nil if none.
func (q *queue) claimant() *work {
	if q.active.Len() == 0 {
		return nil
	}
	w := q.first()
	if a := q.ahead(); a != nil && a != w {
		return nil // it has its pledge
	}
	return w
}

// claimsChange notes that a queue may claim something else from now on.
func (e *Engine) claimsChange(q *queue) {
	if q.claims() {
		e.changes++
	}
}

// claimOf is what a shape would claim in its queue: per pod set and resource
// group the first flavor whose nominal quota and nodes could hold it. It is nil
// unless there is one for everything, and nodes for all pods together. Where no
// nominal quota is large enough, a flavor will do of which the queue may take back
// more; over says so.
func (e *Engine) claimOf(p *compiled, g *group) (uses []quota.Use, over bool) {
	var chosen []int
	for i := range p.Asks {
		o := e.optionWithin(p, i, uses, p.Queue.Nominal)
		if o < 0 {
			over = true
			o = e.optionWithin(p, i, uses, func(p quota.Pair) core.Amount { return e.retrievable(g.queue, p) })
		}
		if o < 0 {
			return nil, false
		}
		chosen = append(chosen, o)
		for _, u := range p.Asks[i].Options[o].Uses {
			uses = addUse(uses, u)
		}
	}
	if _, ok := e.placeable(p, e.podSets(nil, g, p, chosen), chosen); !ok {
		return nil, false
	}
	return uses, over
}

// retrievable is how much of a pair a queue may ever have by taking back what it
// or its side of the tree has lent.
func (e *Engine) retrievable(q *queue, p quota.Pair) core.Amount {
	switch {
	case e.opt.FairSharing != nil:
		return 0
	case preempt.Allows(q.spec.Preemption.WhileBorrow):
		return q.node.Limit(p)
	}
	return min(q.node.Limit(p), q.node.LimitBelowRoot(p))
}

// optionWithin is the first flavor of an ask whose limits, less what is used already,
// and nodes could hold it; -1 if there is none.
func (e *Engine) optionWithin(p *compiled, ask int, used []quota.Use, limit func(quota.Pair) core.Amount) int {
	for i, o := range p.Asks[ask].Options {
		exceeds := slices.ContainsFunc(o.Uses, func(u quota.Use) bool {
			return u.Amount.Add(amountOf(used, u.Pair)) > limit(u.Pair)
		})
		if o.Bad == "" && !exceeds && e.couldHold(p, p.Asks[ask].Set, p.classes[ask][i]) {
			return i
		}
	}
	return -1
}

// couldHold reports whether nodes, if empty, hold a pod set; nil is for no nodes
// to look at.
func (e *Engine) couldHold(p *compiled, set int, c *place.Class) bool {
	if c == nil {
		return true
	}
	_, ok := e.nodes.Possible(place.Set{Class: c, Count: p.counts[set]})
	return ok
}

func amountOf(uses []quota.Use, p quota.Pair) core.Amount {
	for _, u := range uses {
		if u.Pair == p {
			return u.Amount
		}
	}
	return 0
}

// settleClaims lists the queues that may claim, by tree and name.
func (e *Engine) settleClaims() {
	clear(e.claimants)
	for _, q := range e.sortedQueues() {
		if q.claims() {
			e.claimants[q.node.Root()] = append(e.claimants[q.node.Root()], q)
		}
	}
}

// claimed is a pair that others have claims on, and what was needed of it.
type claimed struct {
	pair quota.Pair
	need core.Amount
}

// contested reports whether one of the uses has to be borrowed out of what other
// queues claim. It is asked when quota would do otherwise, and answers for
// ledger Then.
func (e *Engine) contested(g *group, uses []quota.Use) (core.Reason, bool) {
	all := e.claimants[g.queue.node.Root()]
	if len(all) == 0 || (len(all) == 1 && all[0] == g.queue) {
		return core.Reason{}, false
	}
	n := g.queue.node
	for _, u := range uses {
		if !n.BorrowsWith(core.Then, u.Pair, u.Amount) {
			continue
		}
		if have := e.roomBesideClaims(g, u.Pair, all); u.Amount > have {
			e.contests = append(e.contests, claimed{u.Pair, u.Amount})
			fr := e.forest.Name(u.Pair)
			return core.Reason{
				Code: core.WaitingForQuota, Cause: core.QuotaClaimed, Flavor: fr.Flavor, Resource: fr.Resource,
				Need: u.Amount, Have: have, Limit: max(0, n.Limit(u.Pair)),
			}, true
		}
	}
	return core.Reason{}, false
}

// roomBesideClaims is what a group could use of a pair if every claim on it were
// in use already. It notes the claimants in Engine.claimers.
func (e *Engine) roomBesideClaims(g *group, p quota.Pair, all []*queue) core.Amount {
	e.claimers = e.claimers[:0]
	t := e.books.Begin(g.queue.node, ledger.Scope{Account: core.Then})
	defer t.End()
	for _, q := range all {
		b := q.claimant()
		if q == g.queue || b == nil {
			continue
		}
		if !e.holdsUp(b, g) {
			continue
		}
		unused := q.node.Nominal(p).Sub(q.node.Usage(core.Then, p))
		if v := min(amountOf(e.compile(b.group).claim, p), unused); v > 0 {
			t.Claim(q.node, p, v)
			e.claimers = append(e.claimers, b)
		}
	}
	return g.queue.node.Room(core.Then, p)
}

// holdsUp reports whether a claim is good against a group: not if that could be
// evicted again, nor, if the claim is of a workload larger than the nominal quota,
// if the group's first comes before it.
func (e *Engine) holdsUp(b *work, g *group) bool {
	policy, first := &b.group.queue.spec.Preemption, g.members.First()
	if !e.compile(b.group).over {
		return !preempt.Allows(policy.Reclaim) || first.Priority >= b.Priority
	}
	if compareWorks(first, b) < 0 {
		return false
	}
	return !preempt.Allows(policy.WhileBorrow) || first.Priority >= b.Priority ||
		(policy.MaxPriority != nil && first.Priority > int64(*policy.MaxPriority))
}

// claimable bounds what others of the tree may claim of a use: as much as those
// who may claim do not use of their own, if the use has to be borrowed at all.
func (e *Engine) claimable(q *queue, u quota.Use) core.Amount {
	all := e.claimants[q.node.Root()]
	if len(all) == 0 || !q.node.BorrowsWith(core.Then, u.Pair, u.Amount) {
		return 0
	}
	sum := core.Amount(0)
	for _, c := range all {
		if c != q {
			sum = sum.Add(max(0, c.node.Nominal(u.Pair).Sub(c.node.Usage(core.Then, u.Pair))))
		}
	}
	return sum
}

// listContested notes what a refusal was for. Such groups are listed apart,
// because claims end in ways that free nothing.
func (e *Engine) listContested(g *group) {
	g.contests = append(g.contests[:0], e.contests...)
	if len(g.contests) > 0 && g.contested == 0 {
		e.contestedGroups = append(e.contestedGroups, g)
		g.contested = len(e.contestedGroups)
	}
}

// unlistContested takes a group off the list. What it was refused for stays on
// record until it is judged again.
func (e *Engine) unlistContested(g *group) {
	if g.contested == 0 {
		return
	}
	last := len(e.contestedGroups) - 1
	moved := e.contestedGroups[last]
	e.contestedGroups[g.contested-1] = moved
	moved.contested = g.contested
	e.contestedGroups = e.contestedGroups[:last]
	g.contested = 0
}

// wakeContested looks again at groups that were refused for claims.
func (e *Engine) wakeContested() {
	if e.contestedAt == e.changes {
		return
	}
	e.contestedAt = e.changes
	for i, g := range slices.Backward(e.contestedGroups) {
		if i < len(e.contestedGroups) && e.worthContest(g) {
			e.unpark(g)
		}
	}
}

// worthContest is a bound: whether some pair that was claimed has room beside
// the claims now, or need not be borrowed any more. Groups that may evict are
// always worth a look.
func (e *Engine) worthContest(g *group) bool {
	if !preempt.Forbids(g.queue.spec.Preemption) {
		return true
	}
	n := g.queue.node
	for _, c := range g.contests {
		if !n.BorrowsWith(core.Then, c.pair, c.need) || c.need <= e.roomBesideClaims(g, c.pair, e.claimants[n.Root()]) {
			return true
		}
	}
	return false
}
