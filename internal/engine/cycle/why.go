package cycle

import (
	"cmp"
	"iter"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/place"
	"github.com/mlbatch/mlbatch/internal/engine/preempt"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Why says why a workload waits, judged afresh so that it is true now. It is
// false for workloads that are admitted or unknown.
func (e *Engine) Why(k core.Key) (core.Reason, bool) {
	q := e.ask()
	defer q.end()
	w := q.waits(k)
	if w == nil {
		return core.Reason{}, false
	}
	return q.why(w), true
}

// waits is the workload with a key, nil if there is none or it is admitted.
func (q *question) waits(k core.Key) *workload {
	w := q.workloads[k]
	if w == nil || w.State() == running || w.State() == leaving {
		return nil
	}
	return w
}

// why is Why of a workload that waits.
func (q *question) why(w *workload) core.Reason {
	unsettled := q.unsettled() || w.inbox
	switch {
	case w.reported != nil && (unsettled || w.group == nil):
		why := *w.reported
		if w.reservation != nil {
			q.withAwaited(w, &why)
		}
		return why
	case w.group == nil || unsettled:
		return core.Reason{Code: core.PendingEvaluation, Queue: w.localQueue.key.name}
	}
	its := w.group.queue
	if a := its.foremost(); a != nil && a != w {
		why := *behind(its)
		why.Ahead = a.Key
		return why
	}
	v := q.judge.verdict(w)
	if v.kind == admit && q.unready > 0 {
		why := *podsReady(its)
		why.Ahead = q.firstUnready()
		return why
	}
	if v.kind == reserve && !v.stops() { // room comes from workloads that leave already
		why := *v.why
		why.Victims = int32(len(q.admissions.leaving)) //nolint:gosec // few
		return *q.judge.refusal(w, why)
	}
	if v.kind != refuse {
		return core.Reason{Code: core.PendingEvaluation, Queue: its.name, Tree: its.node.CohortName()}
	}
	why := *q.withHolders(w, v)
	if why.Cause == core.QuotaClaimed && v.ahead != nil {
		why.Ahead = v.ahead.Key
	}
	return why
}

// foremost is the one that all others of a StrictFIFO queue wait behind: its first, which
// could be admitted only just before the next decision. In other queues it is nil.
func (q *queue) foremost() *workload {
	if a := q.ahead(); a != nil || !q.strict() || q.active.Len() == 0 {
		return a
	}
	return q.first()
}

// withAwaited says what must still be gone before a workload starts that was reserved
// a place.
func (q *question) withAwaited(w *workload, why *core.Reason) {
	if why.Code == core.WaitingForPreempted {
		why.Victims = int32(w.reservation.pendingVictims) //nolint:gosec // few
	}
	for _, x := range q.admissions.leaving {
		if len(why.Holders) < maxHolders && slices.Contains(x.awaitedBy, w.reservation) {
			why.Holders = append(why.Holders, x.Key)
		}
	}
}

// withHolders is the reason of a refusal, with the workloads that hold what is short.
func (q *question) withHolders(w *workload, v *verdict) *core.Reason {
	why := *v.why
	switch {
	case why.LacksQuota():
		if why.Cause == core.QuotaClaimed {
			return &why
		}
		for _, c := range q.quotaHolders(w.group.queue.node, why, maxHolders) {
			why.Holders = append(why.Holders, c.Key)
		}
	case why.LacksNodes():
		if !why.Cause.Passes() && why.Cause != core.PreemptionGated {
			break
		}
		for c := range q.shortClasses(w, why, v.met.chosen) {
			for _, h := range q.nodeHolders(c, maxHolders) {
				if h.Key != (core.Key{}) && !slices.Contains(why.Holders, h.Key) {
					why.Holders = append(why.Holders, h.Key)
				}
			}
			if len(why.Holders) > 0 {
				break
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

// quotaHolders are the workloads that use the quota which is short: in the own queue first, then
// in queues of the tree that borrow it, and, where it would have to be borrowed, in queues that
// use what they could lend; the next victims of each first.
func (q *question) quotaHolders(n *quota.Node, why core.Reason, most int) []*preempt.Candidate {
	var found []*preempt.Candidate
	looks, p := 0, q.forest.FlavorResource(why.Flavor, why.Resource)
	add := func(of *quota.Node) {
		list := q.judge.search.Running(of)
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

// shortClasses are the kinds of pods whose places are short in a refusal for nodes: of the pod set
// that it is about, and then of the workload's others. These may have taken its places for want of
// their own: where nobody holds the places of the first, who holds those of the others is in the way.
func (q *question) shortClasses(w *workload, why core.Reason, chosen []int) iter.Seq[*place.Class] {
	return func(yield func(*place.Class) bool) {
		if c := q.classOf(w, why, chosen); c != nil && !yield(c) || w.group == nil {
			return
		}
		for i := range w.equivalence.podSets {
			its := core.Reason{PodSet: w.equivalence.podSets[i].Name} // with the flavor that was chosen for it
			if its.PodSet == why.PodSet {
				continue
			}
			if c := q.classOf(w, its, chosen); c != nil && !yield(c) {
				return
			}
		}
	}
}

// classOf is the kind of pod that a refusal for nodes is about, with the flavors that were
// chosen; nil if its pod set is unknown.
func (q *question) classOf(w *workload, why core.Reason, chosen []int) *place.Class {
	if w.group == nil {
		return nil
	}
	set := w.equivalence.podSet(why.PodSet)
	if set < 0 {
		return nil
	}
	flavors := []string{}
	plan := q.judge.compile(w.group)
	for _, k := range plan.asks[set] {
		options := plan.Requests[k].Options
		switch {
		case slices.ContainsFunc(options, func(o quota.Option) bool { return o.Flavor == why.Flavor }):
			flavors = append(flavors, why.Flavor)
		case len(chosen) > k && chosen[k] >= 0:
			flavors = append(flavors, options[chosen[k]].Flavor)
		}
	}
	slices.Sort(flavors)
	c := q.class(w.equivalence, set, slices.Compact(flavors))
	if len(flavors) > 1 && why.Flavor != "" {
		if _, matching, _ := q.nodes.Total(c); matching == 0 { // the others have no nodes
			return q.class(w.equivalence, set, []string{why.Flavor})
		}
	}
	return c
}

// nodeHolders are the workloads that hold what a class lacks on nodes that it could use, the one
// that holds most first, and pods that no queue knows.
func (q *question) nodeHolders(c *place.Class, most int) []core.Holder {
	out := q.holdersOn(q.nodes.Occupied(c, maxLooks))
	if len(out) == 0 {
		out = q.holdersOn(q.nodes.Used(c, maxLooks))
	}
	slices.SortFunc(out, func(a, b core.Holder) int {
		return cmp.Or(
			cmp.Compare(b.Amount, a.Amount),
			a.Key.Compare(b.Key),
			cmp.Compare(a.Node, b.Node),
			cmp.Compare(a.Resource, b.Resource),
		)
	})
	return out[:min(len(out), most)]
}

func (q *question) holdersOn(nodes []place.Occupied) []core.Holder {
	var out []core.Holder
	for _, n := range nodes {
		for _, id := range n.Users() {
			w := q.byID[id]
			if w == nil {
				continue
			}
			for _, h := range w.Holds {
				if r, amount := q.nodes.Taken(n, h); amount > 0 {
					out = addHolder(out, core.Holder{
						Key:      w.Key,
						UID:      w.UID,
						Queue:    q.byNode[w.Queue.ID].name,
						Leaving:  w.State() == leaving,
						Resource: r,
						Amount:   amount,
					})
				}
			}
		}
		if r, amount := q.nodes.TakenByOthers(n); amount > 0 {
			out = append(out, core.Holder{Node: n.Name(), Resource: r, Amount: amount})
		}
	}
	return out
}

// addHolder adds what a workload holds of a resource.
func addHolder(list []core.Holder, h core.Holder) []core.Holder {
	for i := range list {
		if list[i].Key == h.Key && list[i].Resource == h.Resource {
			list[i].Amount = list[i].Amount.Add(h.Amount)
			return list
		}
	}
	return append(list, h)
}
