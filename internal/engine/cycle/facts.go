package cycle

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/place"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Diagnosis are why a workload waits, without what would help.
type Diagnosis struct {
	core.Explanation
	// Grouped says that it is among the workloads whose turn comes: not set aside, and nothing
	// reserved for it.
	Grouped bool
}

// Facts says why a workload waits, judged afresh as by Engine.Why, and who and what bears on it;
// false as there.
func (v View) Facts(k core.Key) (Diagnosis, bool) {
	q := v.engine.ask()
	defer q.end()
	w := q.waits(k)
	if w == nil {
		return Diagnosis{}, false
	}
	return q.facts(w), true
}

// facts is Facts of a workload that waits.
func (q *question) facts(w *workload) Diagnosis {
	why := q.why(w)
	out := Diagnosis{
		Explanation: core.Explanation{
			Reason:     why,
			LocalQueue: w.localQueue.key.name,
			Priority:   w.Priority,
			Queue:      q.queueOf(w),
		},
		Grouped: w.group != nil,
	}
	if q.unsettled() {
		return out
	}
	out.Reason.Holders = nil
	if w.group != nil {
		q.judgeShort(w, why)
		out.Tried, out.Lenders = q.attempts(w), q.lenders(w.group.queue, why)
		if q.short != nil {
			facts := q.nodes.Survey(q.short)
			facts.InTheWay = q.nodes.InTheWay(q.short)
			facts.PodSet, facts.Flavor, facts.Wanted = why.PodSet, why.Flavor, why.PodsWanted
			if why.Cause.Passes() {
				q.reach(w, why, &facts)
			}
			out.Nodes = &facts
		}
	}
	out.Holders = q.holders(w, why)
	for _, h := range out.Holders {
		if h.Key != (core.Key{}) {
			out.Reason.Holders = append(out.Reason.Holders, h.Key)
		}
	}
	return out
}

// judgeShort judges a workload of a group, and finds the kind of pod for which nodes are short.
func (q *question) judgeShort(w *workload, why core.Reason) {
	v := q.judge.verdict(w)
	q.chosen = slices.Clone(v.met.chosen)
	q.short = q.shortClass(w, why)
}

// reach says which running workloads one that lacks nodes may evict, and what that is good for; nothing is said where
// flavors are left to choose.
func (q *question) reach(w *workload, why core.Reason, facts *core.NodeFacts) {
	uses, plan := q.asked(w), q.judge.compile(w.group)
	if !slices.Equal(q.chosen, q.judge.assigned.Chosen) || slices.Contains(q.chosen, -1) {
		return
	}
	pairs := make([]quota.FlavorResource, 0, len(uses))
	for _, u := range uses {
		pairs = append(pairs, u.Pair)
	}
	sets := q.judge.podSets(nil, w.group, plan, q.chosen)
	out := q.judge.search.Reach(q.judge.request(w, uses, pairs, sets), w.equivalence.podSet(why.PodSet))
	facts.Evictable = int32(out.Workloads) //nolint:gosec // bounded there
	facts.EvictionInVain, facts.Nearest, facts.Spared = out.InVain, out.Nearest, out.Spared
}

// attempts is what each flavor lacks, alone.
func (q *question) attempts(w *workload) []core.Attempt {
	p := q.judge.compile(w.group)
	q.judge.oracle.about(w, p)
	var out []core.Attempt
	for i := range p.Requests {
		for o := range p.Requests[i].Options {
			a := core.Attempt{PodSet: p.Requests[i].PodSet, Flavor: p.Requests[i].Options[o].Flavor}
			if mode, why := q.forest.GradeOption(&p.CompiledRequests, i, o, &q.judge.oracle); mode < quota.Fit {
				a.Why = why
			}
			out = append(out, a)
		}
	}
	return out
}

// lenders are other queues of the tree that lend less of what is short than they own.
func (q *question) lenders(of *queue, why core.Reason) []core.Lender {
	if !why.LacksQuota() && why.Code != core.ExceedsMaxQuota || why.Resource == "" || of.node.Parent() == nil {
		return nil
	}
	p := q.forest.FlavorResource(why.Flavor, why.Resource)
	var out []core.Lender
	for _, o := range q.sortedQueues() {
		if o == of || o.spec == nil || o.node.Root() != of.node.Root() {
			continue
		}
		if owns, lends := o.node.Nominal(p), o.node.LendingLimit(p); owns > 0 && lends < owns {
			out = append(
				out,
				core.Lender{Queue: o.name, Flavor: why.Flavor, Resource: why.Resource, Nominal: owns, Lends: lends},
			)
		}
	}
	return out
}

// shortClass is the kind of pod that a refusal for nodes is about; nil for others.
func (q *question) shortClass(w *workload, why core.Reason) *place.Class {
	if !why.LacksNodes() && (why.Code != core.WaitingForPreempted || why.PodsWanted == 0) {
		return nil
	}
	return q.classOf(w, why, q.chosen)
}

// holders are the workloads that hold what is short.
func (q *question) holders(w *workload, why core.Reason) []core.Holder {
	switch {
	case why.LacksQuota():
		if why.Cause == core.BehindStrict || why.Cause == core.QuotaClaimed || w.group == nil {
			return nil
		}
		p := q.forest.FlavorResource(why.Flavor, why.Resource)
		var out []core.Holder
		for _, c := range q.quotaHolders(w.group.queue.node, why, maxHolders) {
			h := q.holder(q.byID[c.ID])
			h.Flavor, h.Resource, h.Amount = why.Flavor, why.Resource, amountOf(c.Uses, p)
			out = append(out, h)
		}
		return atMost(maxHolders, out, q.reservedQuota(w, why, p))
	case why.LacksNodes():
		if !why.Cause.Passes() && why.Cause != core.PreemptionGated {
			return nil
		}
		for c := range q.shortClasses(w, why, q.chosen) {
			if all := atMost(maxHolders, q.nodeHolders(c, maxHolders), q.reservedNodes(c)); len(all) > 0 {
				return all
			}
		}
	case why.Code == core.WaitingForPreempted:
		return q.awaited(w)
	}
	return nil
}

func (q *question) holder(w *workload) core.Holder {
	return core.Holder{
		Key:     w.Key,
		UID:     w.UID,
		Queue:   q.byNode[w.Queue.ID].name,
		Leaving: w.State() == leaving,
		Endless: w.obs.endless,
	}
}

// atMost are holders and, as far as there is room, those for which something is reserved.
func atMost(n int, holders, reserved []core.Holder) []core.Holder {
	all := append(holders, reserved...)
	return all[:min(n, len(all))]
}

// reservedQuota are those for which quota is reserved that is short for a workload: in its
// own queue, in queues that borrow it, and in all of the tree where it would have to be
// borrowed. None of them runs, so that no other may be left to be named.
func (q *question) reservedQuota(w *workload, why core.Reason, p quota.FlavorResource) []core.Holder {
	n := w.group.queue.node
	borrows := n.BorrowsWith(core.Projected, p, why.Need)
	var out []core.Holder
	for _, x := range q.admissions.reservations {
		amount := amountOf(x.workload.Uses, p)
		its := x.workload.Queue
		if amount == 0 || its != n && (its.Root() != n.Root() || !borrows && its.Borrowed(core.Projected, p) == 0) {
			continue
		}
		h := q.holder(x.workload)
		h.Flavor, h.Resource, h.Amount, h.Promised = why.Flavor, why.Resource, amount, true
		out = append(out, h)
	}
	return out
}

// reservedNodes are those for which what a class lacks is reserved on nodes that it could
// use.
func (q *question) reservedNodes(c *place.Class) []core.Holder {
	nodes := q.nodes.Occupied(c, maxLooks)
	if len(nodes) == 0 {
		nodes = q.nodes.Used(c, maxLooks)
	}
	var out []core.Holder
	for _, x := range q.admissions.reservations {
		for _, hold := range x.workload.Holds {
			i := slices.IndexFunc(nodes, func(n place.Occupied) bool { return n.Node == hold.Node })
			if i < 0 {
				continue
			}
			if r, amount := q.nodes.Taken(nodes[i], hold); amount > 0 {
				h := q.holder(x.workload)
				h.Resource, h.Amount, h.Promised = r, amount, true
				out = addHolder(out, h)
			}
		}
	}
	return out
}

// awaited are the workloads that must be gone before a workload starts that has a place or
// could have one: all that leave, where it is not known whose place it gets.
func (q *question) awaited(w *workload) []core.Holder {
	var out []core.Holder
	for _, x := range q.admissions.leaving {
		if len(out) < maxHolders && (w.reservation == nil || slices.Contains(x.awaitedBy, w.reservation)) {
			out = append(out, q.holder(x))
		}
	}
	return out
}
