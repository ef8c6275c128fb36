package cycle

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Waiting for pods (waitForPodsReady.blockAdmission): with
// Options.BlockAdmission no workload is admitted while an admitted workload's pods
// are not all ready.
//
// Only admission waits. One that may evict does so meanwhile and has its
// place, queues are drained, pods move off lost nodes: as in Kueue, where the
// check is the last step before an admission. Workloads that only reserve quota
// and wait for admission checks do not count, nor do leaving
// workloads: what they hold is booked, and their pods are not coming.

// countReady keeps model.unready: how many admitted workloads have pods that
// are not ready.
func (m *model) countReady(w *workload) {
	unready := m.opt.BlockAdmission && w.State() == running && !w.Interrupted && !w.obs.ready &&
		(w.seen == nil || w.obs.admitted)
	if unready == w.unready {
		return
	}
	if w.unready = unready; unready {
		m.unready++
		return
	}
	m.unready--
}

// podsReady is the refusal of workloads that wait until the pods of others are ready. It names no
// other, because which are not ready changes all the time; Why does.
func podsReady(q *queue) *core.Reason {
	return &core.Reason{Code: core.WaitingForPodsReady, Queue: q.name, Tree: q.node.CohortName()}
}

// firstUnready names the first workload whose pods are not ready.
func (m *model) firstUnready() core.Key {
	var found []*workload
	for _, w := range m.workloads {
		if w.unready {
			found = append(found, w)
		}
	}
	if len(found) == 0 {
		return core.Key{}
	}
	return slices.MinFunc(found, compareWorkloads).Key
}
