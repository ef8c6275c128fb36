package cycle

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
)

// say tells a workload why it waits, unless it knows.
func (e *Engine) say(w *workload, why *core.Reason) {
	if w.told != nil && sameFacts(*w.told, *why) {
		return
	}
	w.told = why
	e.plan = append(e.plan, core.Refuse{Key: w.Key, Why: *why})
}

// retract takes back what a plan tells those whom it admits after all: what they
// waited for came free within the decision. That an earlier admission was lost is
// said all the same.
func (e *Engine) retract() {
	if !e.repeals {
		return
	}
	e.repeals = false
	admitted := map[core.Key]bool{}
	for _, d := range e.plan {
		if a, ok := d.(core.Admit); ok {
			admitted[a.Key] = true
		}
	}
	e.plan = slices.DeleteFunc(e.plan, func(d core.Decision) bool {
		r, ok := d.(core.Refuse)
		return ok && admitted[r.Key] && r.Why.Cause != core.AdmissionLost
	})
}

// tell gives reasons to those that were not judged themselves: members of
// parked groups share the reason of the first, and in a StrictFIFO queue all
// wait behind it. Who was told the same kind of reason before is left alone, so
// that a long queue costs no writes when only amounts change.
func (e *Engine) tell() {
	for _, g := range e.untold {
		g.untold = false
		if g.members.Len() == 0 {
			continue
		}
		var why *core.Reason
		switch {
		case g.queue.ahead() != nil:
			why = behind(g.queue)
		case g.parked:
			why = g.why
		default:
			continue
		}
		if g.told == nil || !sameNature(g.told, why) {
			g.fresh = append(g.fresh[:0], g.members.Items()...)
			for _, w := range g.fresh {
				w.unsaid = true
			}
		}
		g.told = why
		slices.SortFunc(g.fresh, compareWorkloads)
		for _, w := range g.fresh {
			if w.group != g || !w.unsaid {
				continue
			}
			w.unsaid = false
			if w != g.queue.blocker && (w.told == nil || !sameNature(w.told, why)) {
				e.say(w, why)
			}
		}
		g.fresh = g.fresh[:0]
	}
	e.untold = e.untold[:0]
}

// behind is the reason of those that wait behind the first of a StrictFIFO
// queue. It names nobody, because who is first changes all the time; Why does.
func behind(q *queue) *core.Reason {
	return &core.Reason{Code: core.WaitingForQuota, Cause: core.BehindStrict, Queue: q.name, Tree: q.node.CohortName()}
}

// sameFacts reports whether two reasons say the same. Who holds what is short is
// never told, because it changes with every job that ends; Why finds it out.
func sameFacts(a, b core.Reason) bool { return a.Equal(b) }

// sameNature reports whether two reasons name the same obstacle, whatever the
// amounts are.
func sameNature(a, b *core.Reason) bool {
	return a == b || a.Code == b.Code && a.Cause == b.Cause && a.Queue == b.Queue && a.Tree == b.Tree && a.PodSet == b.PodSet &&
		a.Flavor == b.Flavor && a.Resource == b.Resource && a.Need == b.Need && a.Limit == b.Limit &&
		a.PodsWanted == b.PodsWanted && a.Detail == b.Detail
}

// Why says why a workload waits, judged afresh so that it is true now. It is
// false for workloads that are admitted or unknown.
func (e *Engine) Why(k core.Key) (core.Reason, bool) {
	w := e.workloads[k]
	if w == nil || w.phase == running || w.phase == leaving {
		return core.Reason{}, false
	}
	unsettled := e.edited || e.forest.Dirty() || w.inbox
	switch {
	case w.told != nil && (unsettled || w.group == nil):
		why := *w.told
		if w.reservation != nil {
			e.withAwaited(w, &why)
		}
		return why, true
	case w.group == nil || unsettled:
		return core.Reason{Code: core.PendingEvaluation, Queue: w.obs.localQueue}, true
	}
	q := w.group.queue
	if a := q.foremost(); a != nil && a != w {
		why := *behind(q)
		why.Ahead = a.Key
		return why, true
	}
	defer e.ask().end() // a question changes nothing
	v := e.judge(w)
	if v.kind == admit && e.unready > 0 {
		why := *podsReady(q)
		why.Ahead = e.firstUnready()
		return why, true
	}
	if v.kind == reserve && len(v.victims) == 0 { // room comes from those who leave already
		why := *v.why
		why.Victims = int32(len(e.leaving)) //nolint:gosec // few
		return *e.refusal(w, why), true
	}
	if v.kind != refuse {
		return core.Reason{Code: core.PendingEvaluation, Queue: q.name, Tree: q.node.CohortName()}, true
	}
	why := *e.withHolders(w, &v)
	if why.Cause == core.QuotaClaimed && v.ahead != nil {
		why.Ahead = v.ahead.Key
	}
	return why, true
}

// foremost is whom all others of a StrictFIFO queue wait behind: its first, which
// could be admitted only just before the next decision. In other queues it is nil.
func (q *queue) foremost() *workload {
	if a := q.ahead(); a != nil || !q.strict() || q.active.Len() == 0 {
		return a
	}
	return q.first()
}

// withAwaited says who must still be gone before a workload starts that was reserved
// a place.
func (e *Engine) withAwaited(w *workload, why *core.Reason) {
	if why.Code == core.WaitingForPreempted {
		why.Victims = int32(w.reservation.pendingVictims) //nolint:gosec // few
	}
	for _, x := range e.leaving {
		if len(why.Holders) < maxHolders && slices.Contains(x.awaitedBy, w.reservation) {
			why.Holders = append(why.Holders, x.Key)
		}
	}
}
