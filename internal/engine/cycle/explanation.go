package cycle

import (
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/place"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Explain says why a workload waits and what would help, both found out at now. waits is
// false for workloads that are admitted or unknown. higher are the priorities, in any
// order, that the workload could be given instead of its own; nil if none is known.
//
// It changes nothing: what would help is tried on copies. look gives the engine to the
// caller, and fails if there is none; in between it may go on.
func Explain(look func(func(*Engine)) error, k core.Key, now time.Time, higher []int64) (out core.Explanation, waits bool, err error) {
	for _, alike := range []int{fewAlike, manyAlike} {
		var c *inquiry
		if err = look(func(e *Engine) { c = e.inquire(k, now, alike) }); err != nil || c == nil {
			return core.Explanation{}, false, err
		}
		c.advise(higher)
		c.next()
		if out = c.found; !c.short {
			break
		}
	}
	return out, true, nil
}

// Explain is Explain of this engine.
func (e *Engine) Explain(k core.Key, now time.Time, higher []int64) (core.Explanation, bool) {
	out, waits, _ := Explain(func(ask func(*Engine)) error { ask(e); return nil }, k, now, higher)
	return out, waits
}

// inquiry is what was found out about a workload that waits, and a copy of what matters
// for advice. The engine is not needed any more.
type inquiry struct {
	found core.Explanation
	key   core.Key
	at    time.Time
	opt   Options
	// copied is nil if nothing can be tried; advises says that advice can. short says that
	// it was too small.
	copied  *excerpt
	advises bool
	short   bool
}

// inquire finds out why a workload waits; nil if it does not. alike is how many of those
// that are alike are copied.
func (e *Engine) inquire(k core.Key, now time.Time, alike int) *inquiry {
	c := &inquiry{key: k, at: now, opt: e.opt}
	c.opt.Budget, c.opt.StabilizationWindow = 0, 0 // the next decisions go on with the same outcome
	out, waits := e.explain(k, now, func(q *question, w *workload, why core.Reason) {
		if advisable(w, why) || removable(why) {
			c.copied, c.advises = q.excerpt(w, alike), advisable(w, why)
		}
	})
	if c.found = out; !waits {
		return nil
	}
	return c
}

// advise adds what would help.
func (c *inquiry) advise(higher []int64) {
	if c.copied == nil || !c.advises {
		return
	}
	e, err := Load(c.opt, c.copied.state)
	if err != nil {
		return
	}
	e.at(c.at)
	w, q := e.workloads[c.key], e.ask()
	q.at = c.at
	if w.group != nil {
		v := q.verdict(w)
		q.chosen = slices.Clone(v.met.chosen)
		q.class = q.shortClass(w, c.found.Reason)
	}
	a := &adviser{question: q, inquiry: c, workload: w, why: c.found.Reason, trials: mostTried}
	a.advise(higher)
	c.found.Advice, c.found.Cut = a.found, a.spent()
}

// Facts is an explanation without advice, which costs most of it.
func (e *Engine) Facts(k core.Key, now time.Time) (core.Explanation, bool) {
	return e.explain(k, now, func(*question, *workload, core.Reason) {})
}

// explain is Facts; more is asked of the picture at the end, if anything can be.
func (e *Engine) explain(k core.Key, now time.Time, more func(*question, *workload, core.Reason)) (core.Explanation, bool) {
	why, ok := e.Why(k)
	if !ok {
		return core.Explanation{}, false
	}
	w := e.workloads[k]
	out := core.Explanation{Reason: why, LocalQueue: w.localQueue.key.name, Priority: w.Priority, Queue: e.queueOf(w)}
	if e.edited || e.forest.Dirty() {
		return out, true // the next Decide takes edits in; nothing can be tried before
	}
	q := e.ask()
	defer q.end()
	q.at = now
	out.Reason.Holders = nil
	if g := w.group; g != nil {
		v := q.verdict(w)
		q.chosen = slices.Clone(v.met.chosen)
		q.class = q.shortClass(w, why)
		out.Tried, out.Lenders = q.attempts(w), q.lenders(g.queue, why)
		if q.class != nil {
			facts := q.nodes.Survey(q.class)
			facts.InTheWay = q.nodes.InTheWay(q.class)
			facts.PodSet, facts.Flavor, facts.Wanted = why.PodSet, why.Flavor, why.PodsWanted
			out.Nodes = &facts
		}
	}
	out.Holders = q.holders(w, why)
	for _, h := range out.Holders {
		if h.Key != (core.Key{}) {
			out.Reason.Holders = append(out.Reason.Holders, h.Key)
		}
	}
	more(q, w, why)
	return out, true
}

// attempts is what each flavor lacks, alone.
func (q *question) attempts(w *workload) []core.Attempt {
	p := q.judge.compile(w.group)
	q.judge.oracle.workload, q.judge.oracle.group, q.judge.oracle.plan = w, w.group, p
	var out []core.Attempt
	for i := range p.Requests {
		for o := range p.Requests[i].Options {
			a := core.Attempt{PodSet: p.Requests[i].PodSet, Flavor: p.Requests[i].Options[o].Flavor}
			if mode, why := q.forest.GradeOption(&p.Plan, i, o, &q.judge.oracle); mode < quota.Fit {
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
			out = append(out, core.Lender{Queue: o.name, Flavor: why.Flavor, Resource: why.Resource, Nominal: owns, Lends: lends})
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
		if why.Cause != core.NodesShort && why.Cause != core.PreemptionGated {
			return nil
		}
		for c := range shortClasses(q.Engine, w, why, q.chosen) {
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
	return core.Holder{Key: w.Key, UID: w.UID, Queue: q.byNode[w.Queue.ID].name, Leaving: w.State() == leaving, Endless: w.obs.endless}
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
