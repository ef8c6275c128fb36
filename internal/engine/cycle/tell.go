package cycle

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
)

// tell gives reasons to those that were not judged themselves: members of
// parked groups share the reason of the first, and in a StrictFIFO queue all
// wait behind it. One that was told the same kind of reason before is left alone, so
// that a long queue costs no writes when only amounts change.
func (pe *pending) tell() {
	for _, g := range pe.untold {
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
				pe.draft.say(w, why)
			}
		}
		g.fresh = g.fresh[:0]
	}
	pe.untold = pe.untold[:0]
}

// behind is the reason of those that wait behind the first of a StrictFIFO
// queue. It names none, because which is first changes all the time; Why does.
func behind(q *queue) *core.Reason {
	return &core.Reason{Code: core.WaitingForQuota, Cause: core.BehindStrict, Queue: q.name, Tree: q.node.CohortName()}
}

// sameFacts reports whether two reasons say the same. What holds what is short is
// never told, because it changes with every job that ends; Why finds it out.
func sameFacts(a, b core.Reason) bool { return a.Equal(b) }

// sameNature reports whether two reasons name the same obstacle, whatever the
// amounts are.
func sameNature(a, b *core.Reason) bool {
	return a == b || a.Code == b.Code && a.Cause == b.Cause && a.Queue == b.Queue && a.Tree == b.Tree && a.PodSet == b.PodSet &&
		a.Flavor == b.Flavor && a.Resource == b.Resource && a.Need == b.Need && a.Limit == b.Limit &&
		a.PodsWanted == b.PodsWanted && a.Detail == b.Detail
}
