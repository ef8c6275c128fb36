package cycle

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Waiting for pods (waitForPodsReady.blockAdmission): with
// Options.BlockAdmission nobody is admitted while an admitted workload's pods
// are not all ready.
//
// Only admission waits. Whoever may evict does so meanwhile and has its
// place, queues are drained, pods move off lost nodes: as in Kueue, where the
// check is the last step before an admission. Workloads that only reserve quota
// and wait for admission checks do not count, nor do those that are leaving:
// what they hold is booked, and their pods are not coming.

// countReady keeps Engine.unready: how many admitted workloads have pods that
// are not ready.
func (e *Engine) countReady(w *workload) {
	unready := e.opt.BlockAdmission && w.phase == running && !w.obs.ready && (w.seen == nil || w.obs.admitted)
	if unready == w.unready {
		return
	}
	if w.unready = unready; unready {
		e.unready++
		return
	}
	e.unready--
}

// closeAdmission lets all heads be judged again, once the first pods are awaited:
// who would have been admitted leaves its turn to the next of its queue, who may
// evict.
func (e *Engine) closeAdmission() {
	for _, q := range e.ready() {
		e.rehead(q)
	}
}

// podsReady is the refusal of those who wait for the pods of others. It names
// nobody, because who is not ready changes all the time; Why does.
func podsReady(q *queue) *core.Reason {
	return &core.Reason{Code: core.WaitingForPodsReady, Queue: q.name, Tree: q.node.CohortName()}
}

// wakeReady looks again at who waits for pods: when none is missing any more, and
// whenever usage or nodes changed. What was free for them may be taken then, and they can
// be reserved something that needs no pods of others.
func (e *Engine) wakeReady() {
	if e.unready > 0 && e.onReadyAt == e.changes {
		return
	}
	e.onReadyAt = e.changes
	for _, g := range e.onReady {
		g.onReady = false
		if g.members.Len() > 0 && g.why.Code == core.WaitingForPodsReady {
			e.unpark(g)
		}
	}
	e.onReady = e.onReady[:0]
}

func (e *Engine) listOnReady(g *group) {
	if g.why.Code == core.WaitingForPodsReady && !g.onReady {
		g.onReady = true
		e.onReady = append(e.onReady, g)
	}
}

// firstUnready names the first workload whose pods are not ready.
func (e *Engine) firstUnready() core.Key {
	var found []*workload
	for _, w := range e.workloads {
		if w.unready {
			found = append(found, w)
		}
	}
	if len(found) == 0 {
		return core.Key{}
	}
	return slices.MinFunc(found, compareWorkloads).Key
}
