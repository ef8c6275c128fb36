package cycle

import (
	"cmp"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
)

// reportReasons gives reasons to workloads that were not judged themselves: members of
// parked groups share the reason of the first, and in a StrictFIFO queue all
// wait behind it. One whose reported reason is of the same kind is left alone, so
// that a long queue costs no writes when only amounts change.
func (pe *pending) reportReasons() {
	slices.SortFunc(pe.unjudged, func(a, b *group) int {
		if a.members.Len() == 0 || b.members.Len() == 0 {
			return cmp.Compare(a.members.Len(), b.members.Len()) // those without are passed over
		}
		return cmp.Or(
			cmp.Compare(a.queue.name, b.queue.name),
			compareWorkloads(a.members.First(), b.members.First()),
		)
	})
	all := slices.Concat(pe.unjudged, pe.unreported)
	pe.unjudged, pe.unreported = pe.unjudged[:0], pe.unreported[:0]
	for _, g := range all {
		g.unreported = false
		if g.members.Len() == 0 {
			continue
		}
		var why *core.Reason
		switch {
		case g.queue.ahead() != nil:
			why = behind(g.queue)
		case g.parked:
			why = g.why
		default: // it was not judged yet, as in a tree that is not settled: there is a reason when it was
			g.unreported = true
			pe.unjudged = append(pe.unjudged, g)
			continue
		}
		if g.reported == nil || !sameNature(g.reported, why) {
			g.newcomers = append(g.newcomers[:0], g.members.Items()...)
			for _, w := range g.newcomers {
				w.unreported = true
			}
		}
		g.reported = why
		slices.SortFunc(g.newcomers, compareWorkloads)
		for _, w := range g.newcomers {
			if w.group != g || !w.unreported {
				continue
			}
			w.unreported = false
			if w != g.queue.blocker && (w.reported == nil || !sameNature(w.reported, why)) {
				pe.draft.report(w, why)
			}
		}
		g.newcomers = g.newcomers[:0]
	}
}

// behind is the reason of workloads that wait behind the first of a StrictFIFO
// queue. It does not name the first, because which is first changes all the time; Why does.
func behind(q *queue) *core.Reason {
	return &core.Reason{
		Code:  core.WaitingForQuota,
		Cause: core.BehindStrict,
		Queue: q.name,
		Tree:  q.node.CohortName(),
	}
}

// sameFacts reports whether two reasons say the same. What holds what is short is
// never reported, because it changes with every job that ends; Why finds it out.
func sameFacts(a, b core.Reason) bool { return a.Equal(b) }

// sameNature reports whether two reasons name the same obstacle, whatever the
// amounts are.
func sameNature(a, b *core.Reason) bool {
	return a == b ||
		a.Code == b.Code && a.Cause == b.Cause && a.Queue == b.Queue && a.Tree == b.Tree && a.PodSet == b.PodSet &&
			a.Flavor == b.Flavor && a.Resource == b.Resource && a.Need == b.Need && a.Limit == b.Limit &&
			a.PodsWanted == b.PodsWanted && a.Detail == b.Detail
}
