package cycle

import (
	"cmp"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/place"
	"github.com/mlbatch/mlbatch/internal/engine/preempt"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// admit gives a workload its quota and nodes now.
func (e *Engine) admit(w *workload, v verdict) {
	w.admission = e.admission(w.group, v)
	free := e.unready == 0
	e.depart(w, w.group)
	e.start(w)
	e.unsettle(w)
	if free && e.unready > 0 {
		e.closeAdmission()
	}
	e.plan = append(e.plan, core.Admit{Key: w.Key, Admission: *w.admission})
}

// start gives a workload what its admission says, which nobody has seen yet.
func (e *Engine) start(w *workload) {
	e.setPhase(w, running)
	w.Reserved = e.now.Unix()
	e.repeals = e.repeals || w.told != nil
	w.assumed, w.moved, w.Unseen, w.told, w.applied = true, false, true, nil, 0
	e.countReady(w)
	e.expect(w)
	e.hold(w)
	e.charge(w)
}

// evict orders a running workload to give up what it holds.
func (e *Engine) evict(w *workload, reason core.EvictReason, beneficiary *workload) {
	d := core.Evict{Key: w.Key, Reason: reason}
	if beneficiary != nil {
		d.For, d.ForUID = beneficiary.Key, beneficiary.UID
		d.Why = core.Reason{
			Code: core.WaitingForPreempted, Queue: e.byNode[beneficiary.Queue.ID].name, Tree: beneficiary.Queue.CohortName(),
			Ahead: beneficiary.Key,
		}
	}
	w.ordered = true
	e.leave(w)
	e.plan = append(e.plan, d)
}

// admission spells out what a verdict gives.
func (e *Engine) admission(g *group, v verdict) *core.Admission {
	p := v.plan
	a := &core.Admission{Queue: g.queue.name, PodSets: make([]core.PodSetAdmission, len(g.equivalence.podSets))}
	for i := range g.equivalence.podSets {
		set := &g.equivalence.podSets[i]
		out := &a.PodSets[i]
		out.Name, out.Count = set.Name, p.counts[i]
		n := 0
		for _, k := range p.asks[i] {
			n += len(p.Requests[k].Options[v.assigned.Chosen[k]].Uses)
		}
		out.Flavors = make([]core.FlavorChoice, 0, n)
		out.Usage = make(core.Resources, 0, n)
		for _, k := range p.asks[i] {
			for _, u := range p.Requests[k].Options[v.assigned.Chosen[k]].Uses {
				fr := e.forest.Name(u.Pair)
				out.Flavors = append(out.Flavors, core.FlavorChoice{Resource: fr.Resource, Flavor: fr.Flavor})
				out.Usage = append(out.Usage, core.Quantity{Resource: fr.Resource, Amount: u.Amount})
			}
		}
		if len(p.asks[i]) > 1 {
			slices.SortFunc(out.Flavors, func(a, b core.FlavorChoice) int { return cmp.Compare(a.Resource, b.Resource) })
			slices.SortFunc(out.Usage, func(a, b core.Quantity) int { return cmp.Compare(a.Resource, b.Resource) })
		}
	}
	for s, spots := range v.spots {
		a.PodSets[v.sets[s].Index].Places = places(spots)
	}
	return a
}

func places(spots []place.Spot) []core.Place {
	out := make([]core.Place, len(spots))
	for i, s := range spots {
		out[i] = core.Place{Node: s.Node.Name(), Count: s.Count}
	}
	return out
}

// refusal completes a reason with the queue it concerns.
func (e *Engine) refusal(w *workload, why core.Reason) *core.Reason {
	if why.Queue == "" {
		why.Queue, why.Tree = w.group.queue.name, w.group.queue.node.CohortName()
	}
	return &why
}

// withHolders is the reason of a refusal, with who holds what is short.
func (e *Engine) withHolders(w *workload, v *verdict) *core.Reason {
	why := *v.why
	switch {
	case why.LacksQuota():
		if why.Cause == core.QuotaClaimed {
			return &why
		}
		for _, c := range e.quotaHolders(w.group.queue.node, why, maxHolders) {
			why.Holders = append(why.Holders, c.Key)
		}
	case why.LacksNodes():
		if c := e.classOf(w, why, v.met.chosen); c != nil && (why.Cause == core.NodesShort || why.Cause == core.PreemptionGated) {
			for _, h := range e.nodeHolders(c, maxHolders) {
				if h.Key != (core.Key{}) && !slices.Contains(why.Holders, h.Key) {
					why.Holders = append(why.Holders, h.Key)
				}
			}
		}
	}
	return &why
}

const (
	maxHolders = 5
	// maxLooks bounds how many workloads, or nodes, are looked at to find holders.
	maxLooks = 64
)

// quotaHolders are those who use what is short: in the own queue first, then in queues
// of the tree that borrow it, and, where it would have to be borrowed, in those that use
// what they could lend; the next victims of each first.
func (e *Engine) quotaHolders(n *quota.Node, why core.Reason, most int) []*preempt.Candidate {
	var found []*preempt.Candidate
	looks, p := 0, e.forest.FlavorResource(why.Flavor, why.Resource)
	add := func(q *quota.Node) {
		list := e.search.Running(q)
		for i := len(list) - 1; i >= 0 && len(found) < most && looks < maxLooks; i-- {
			looks++
			if slices.ContainsFunc(list[i].Uses, func(u quota.Use) bool { return u.Pair == p && u.Amount > 0 }) {
				found = append(found, list[i])
			}
		}
	}
	add(n)
	var walk func(at *quota.Node, borrows bool)
	walk = func(at *quota.Node, borrows bool) {
		for _, c := range at.Children() {
			if len(found) >= most || looks >= maxLooks {
				return
			}
			if looks++; c != n && c.Queue && (c.Borrowed(core.Projected, p) > 0) == borrows {
				add(c)
			}
			walk(c, borrows)
		}
	}
	walk(n.Root(), true)
	if n.BorrowsWith(core.Projected, p, why.Need) {
		walk(n.Root(), false)
	}
	return found
}

// classOf is the kind of pod that a refusal for nodes is about, with the flavors that were
// chosen; nil if its pod set is unknown.
func (e *Engine) classOf(w *workload, why core.Reason, chosen []int) *place.Class {
	if w.group == nil || w.group.plan == nil {
		return nil
	}
	set := w.equivalence.podSet(why.PodSet)
	if set < 0 {
		return nil
	}
	flavors := []string{}
	for _, k := range w.group.plan.asks[set] {
		options := w.group.plan.Requests[k].Options
		switch {
		case slices.ContainsFunc(options, func(o quota.Option) bool { return o.Flavor == why.Flavor }):
			flavors = append(flavors, why.Flavor)
		case len(chosen) > k && chosen[k] >= 0:
			flavors = append(flavors, options[chosen[k]].Flavor)
		}
	}
	slices.Sort(flavors)
	c := e.class(w.equivalence, set, slices.Compact(flavors))
	if len(flavors) > 1 && why.Flavor != "" {
		if _, matching, _ := e.nodes.Total(c); matching == 0 { // the others have no nodes
			return e.class(w.equivalence, set, []string{why.Flavor})
		}
	}
	return c
}
