package cycle

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/ledger"
	"github.com/mlbatch/mlbatch/internal/engine/place"
	"github.com/mlbatch/mlbatch/internal/engine/preempt"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Head reservations: what a StrictFIFO queue keeps of its own quota for its first
// workload.
//
// Kueue reserves capacity for a head that waits and has none to evict, for the
// rest of one scheduling cycle. One Decide judges
// every head until nothing more can be done, so that "the rest of the cycle"
// has no length here. The rule is a function of the state instead:
//
// While the first waiting workload of an open StrictFIFO queue would fit the
// queue's nominal quota, what is unused of that quota, up to what the workload
// asks for, is reserved. Workloads of other queues cannot have it that would have to
// borrow it and that the queue could not evict again: all of them if
// reclaimWithinCohort is Never, those of the same or a higher priority if it is
// LowerPriority, none if it is Any.
//
// For example: queue a owns 8 GPUs, of which its own workloads use 3, and its first
// workload asks for 6. Queue b owns none and has borrowed 2 of them, so that 3 are free: all
// 3 are reserved. A workload of b that asks for 1 GPU more has to wait, although there
// is room. When b's 2 GPUs come back, 5 are reserved, and when one of a's own ends,
// the first workload fits.
//
// So the owner gets its quota as its own workloads and those of borrowers end,
// however many borrowers arrive meanwhile. Others lose little: only the flavor that
// the first workload counts on is reserved, only up to the nominal quota, and a
// workload within the nominal quota of its own queue is never blocked. Two queues
// cannot wait for each other: a workload with a head reservation borrows only until
// the queue's earlier workloads end.
//
// For a first workload larger than the nominal quota there is a reservation too, if
// the queue may take back more than its own: if borrowWithinCohort is not Never, or a
// cohort above it, below the root, owns enough. These are those for which Kueue
// reserves. What is unused of the nominal quota is reserved, and no more: what it has
// to borrow is kept from none, and if it were kept while its owners use it others would
// starve. And it blocks only workloads that come after it by priority and time, so that
// of two such workloads, each counting on what is reserved for the other, the first has
// its way. With fair sharing there is none: what may borrow is a matter of shares there.
//
// BestEffortFIFO queues reserve nothing: there Kueue's reservation ends with the
// cycle in which the head was refused, and smaller workloads of the queue may
// pass it anyway.

// reservesForHead reports whether the queue may have a head reservation at all.
func (q *queue) reservesForHead() bool {
	return q.strict() && q.closed == nil && q.spec.Preemption.Reclaim != core.PreemptAny &&
		q.node.Parent() != nil
}

// reservingHead is the workload that a queue reserves quota for; nil if none.
func (q *queue) reservingHead() *workload {
	if q.active.Len() == 0 {
		return nil
	}
	w := q.first()
	if a := q.ahead(); a != nil && a != w {
		return nil // it has its reservation
	}
	return w
}

// headReservationOf is what would be reserved for an equivalence class in its queue: per pod
// set and resource group the first flavor whose nominal quota and nodes could hold it. It is nil
// unless there is one for everything, and nodes for all pods together. Where no
// nominal quota is large enough, a flavor will do of which the queue may take back
// more; over says so.
func (j *judge) headReservationOf(p *compiled, g *group) (uses []quota.Use, over bool) {
	var chosen []int
	for i := range p.Requests {
		o := j.optionWithin(p, i, uses, p.Queue.Nominal)
		if o < 0 {
			over = true
			o = j.optionWithin(
				p,
				i,
				uses,
				func(p quota.FlavorResource) core.Amount { return j.retrievable(g.queue, p) },
			)
		}
		if o < 0 {
			return nil, false
		}
		chosen = append(chosen, o)
		for _, u := range p.Requests[i].Options[o].Uses {
			uses = addUse(uses, u)
		}
	}
	if _, ok := j.placeable(p, j.podSets(nil, g, p, chosen), chosen); !ok {
		return nil, false
	}
	return uses, over
}

// retrievable is how much of a pair a queue may ever have by taking back what it
// or its side of the tree has lent.
func (j *judge) retrievable(q *queue, p quota.FlavorResource) core.Amount {
	switch {
	case j.opt.FairSharing != nil:
		return 0
	case preempt.Allows(q.spec.Preemption.WhileBorrow):
		return q.node.Limit(p)
	}
	return min(q.node.Limit(p), q.node.LimitBelowRoot(p))
}

// optionWithin is the first flavor of an ask whose limits, less what is used already,
// and nodes could hold it; -1 if there is none.
func (j *judge) optionWithin(
	p *compiled,
	ask int,
	used []quota.Use,
	limit func(quota.FlavorResource) core.Amount,
) int {
	for i, o := range p.Requests[ask].Options {
		exceeds := slices.ContainsFunc(o.Uses, func(u quota.Use) bool {
			return u.Amount.Add(amountOf(used, u.Pair)) > limit(u.Pair)
		})
		if o.Bad == "" && !exceeds && j.couldHold(p, p.Requests[ask].Set, p.classes[ask][i]) {
			return i
		}
	}
	return -1
}

// couldHold reports whether nodes, if empty, hold a pod set; nil is for no nodes
// to look at.
func (j *judge) couldHold(p *compiled, set int, c *place.Class) bool {
	if c == nil {
		return true
	}
	_, ok := j.nodes.Possible(place.Set{Class: c, Count: p.counts[set]})
	return ok
}

func amountOf(uses []quota.Use, p quota.FlavorResource) core.Amount {
	for _, u := range uses {
		if u.Pair == p {
			return u.Amount
		}
	}
	return 0
}

// settleHeadReservations lists the queues that may reserve, by tree and name.
func (j *judge) settleHeadReservations() {
	clear(j.headReservers)
	for _, q := range j.sortedQueues() {
		if q.reservesForHead() {
			j.headReservers[q.node.Root()] = append(j.headReservers[q.node.Root()], q)
		}
	}
}

// blockedPair is a pair of which others have reserved some, and what was needed of it.
type blockedPair struct {
	pair quota.FlavorResource
	need core.Amount
}

// blockedByReservation says which of the uses has to be borrowed out of what other queues
// have reserved, and for which head first; nil if none has. It is asked when quota would
// do otherwise, and answers for account Projected.
func (j *judge) blockedByReservation(g *group, uses []quota.Use) (why core.Reason, ahead *workload) {
	all := j.headReservers[g.queue.node.Root()]
	if len(all) == 0 || (len(all) == 1 && all[0] == g.queue) {
		return core.Reason{}, nil
	}
	n := g.queue.node
	for _, u := range uses {
		if !n.BorrowsWith(core.Projected, u.Pair, u.Amount) {
			continue
		}
		if have, first := j.roomBesideReservations(g, u.Pair, all); u.Amount > have {
			j.met.blockedPairs = append(j.met.blockedPairs, blockedPair{u.Pair, u.Amount})
			fr := j.forest.Name(u.Pair)
			return core.Reason{
				Code: core.WaitingForQuota, Cause: core.QuotaClaimed, Flavor: fr.Flavor, Resource: fr.Resource,
				Need: u.Amount, Have: have, Limit: max(0, n.Limit(u.Pair)),
			}, first
		}
	}
	return core.Reason{}, nil
}

// roomBesideReservations is what a group could use of a pair if all of it that is reserved
// were in use already, and the first head that some is reserved for.
func (j *judge) roomBesideReservations(
	g *group,
	p quota.FlavorResource,
	all []*queue,
) (room core.Amount, first *workload) {
	t := j.ledger.Begin(g.queue.node, ledger.Scope{Account: core.Projected})
	defer t.End()
	for _, q := range all {
		b := q.reservingHead()
		if q == g.queue || b == nil {
			continue
		}
		if !j.holdsUp(b, g) {
			continue
		}
		unused := q.node.Nominal(p).Sub(q.node.Usage(core.Projected, p))
		if v := min(amountOf(j.compile(b.group).headReservation, p), unused); v > 0 {
			t.Claim(q.node, p, v)
			if first == nil {
				first = b
			}
		}
	}
	return g.queue.node.Room(core.Projected, p), first
}

// holdsUp reports whether a reservation blocks a group: not if that could be
// evicted again, nor, if it is for a workload larger than the nominal quota,
// if the group's first comes before it.
func (j *judge) holdsUp(b *workload, g *group) bool {
	policy, first := &b.group.queue.spec.Preemption, g.members.First()
	if !j.compile(b.group).over {
		return !preempt.Allows(policy.Reclaim) || first.Priority >= b.Priority
	}
	if compareWorkloads(first, b) < 0 {
		return false
	}
	return !preempt.Allows(policy.WhileBorrow) || first.Priority >= b.Priority ||
		(policy.MaxPriority != nil && first.Priority > int64(*policy.MaxPriority))
}

// reservableByHeads bounds what other queues of the tree may reserve of a use: as much
// as the queues that may reserve do not use of their own quota, if it has to be borrowed at all.
func (j *judge) reservableByHeads(q *queue, u quota.Use) core.Amount {
	all := j.headReservers[q.node.Root()]
	if len(all) == 0 || !q.node.BorrowsWith(core.Projected, u.Pair, u.Amount) {
		return 0
	}
	sum := core.Amount(0)
	for _, c := range all {
		if c != q {
			sum = sum.Add(max(0, c.node.Nominal(u.Pair).Sub(c.node.Usage(core.Projected, u.Pair))))
		}
	}
	return sum
}
