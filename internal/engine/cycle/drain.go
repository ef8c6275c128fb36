package cycle

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
)

// draining reports whether the queue or the local queue of a workload with quota is
// being emptied.
func (ad *admissions) draining(w *workload) bool {
	if q := ad.byNode[w.Queue.ID]; q.spec != nil && q.spec.Stop == core.HoldAndDrain {
		return true
	}
	return w.localQueue != nil && w.localQueue.spec != nil && w.localQueue.spec.Stop == core.HoldAndDrain
}

// drain evicts from queues and local queues that are being emptied. What has quota and
// was not admitted, because a check has not agreed, gives it back without an eviction,
// which is not decided here (docs/evictions-and-limits.md, "Queues that are stopped").
func (ad *admissions) drain() {
	if !ad.edited && !ad.drainAgain {
		return
	}
	for _, q := range ad.sortedQueues() {
		if q.spec == nil || q.spec.Stop != core.HoldAndDrain {
			continue
		}
		var all []*workload
		for _, c := range ad.judge.search.Running(q.node) {
			all = append(all, ad.byID[c.ID])
		}
		slices.SortFunc(all, compareWorkloads)
		for _, w := range all {
			if !w.checking() || w.Interrupted {
				ad.evict(w, core.ClusterQueueStopped, nil)
			}
		}
	}
	for _, d := range ad.sortedLocalQueues() {
		if d.spec == nil || d.spec.Stop != core.HoldAndDrain {
			continue
		}
		for _, w := range d.sorted() {
			if w.State() == running && (!w.checking() || w.Interrupted) {
				ad.evict(w, core.LocalQueueStopped, nil)
			}
		}
	}
	ad.drainAgain = false
}
