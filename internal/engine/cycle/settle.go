package cycle

import (
	"cmp"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/ledger"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

type node = *quota.Node

// settle makes edits effective: trees, which queues are open, and everything
// parked gets another look.
func (e *Engine) settle() {
	if e.forest.Overflown() {
		e.recount()
	}
	if e.edited {
		for _, d := range e.sortedLocalQueues() {
			if d.spec != nil {
				e.queueNamed(d.spec.Queue)
			}
		}
	}
	e.forest.Settle()
	if !e.edited {
		return
	}
	e.nodes.Sweep()
	e.revision++
	clear(e.borrowers)
	e.draw()
	for _, q := range e.sortedQueues() {
		q.closed = e.closedQueue(q)
		q.localQueues = q.localQueues[:0]
	}
	e.settleHeadReservations()
	for _, d := range e.sortedLocalQueues() {
		e.settleLocalQueue(d)
	}
	e.settleUsage()
	for _, q := range e.sortedQueues() {
		q.blocker = nil
		e.recallAll(q)
	}
}

// settleLocalQueue links a local queue with its queue, and moves its workloads if it opened,
// closed or leads elsewhere.
func (e *Engine) settleLocalQueue(d *localQueue) {
	var q *queue
	if d.spec != nil {
		q = e.queueNamed(d.spec.Queue)
		q.localQueues = append(q.localQueues, d)
	}
	closed := e.closedLocalQueue(d, q)
	same := q == d.queue && (closed == nil) == (d.closed == nil) && (closed == nil || closed.Equal(*d.closed))
	d.queue, d.closed = q, closed
	if same {
		return
	}
	for _, w := range d.sorted() {
		if w.phase == waiting || w.phase == reserved {
			e.withdraw(w)
			e.enter(w)
		}
	}
}

// closedLocalQueue says why nothing passes through a local queue; nil if it is open.
func (e *Engine) closedLocalQueue(d *localQueue, q *queue) *core.Reason {
	switch {
	case d.spec == nil:
		return &core.Reason{Code: core.Misconfigured, Cause: core.QueueMissing, Queue: d.key.name, Detail: "LocalQueue"}
	case stopped(d.spec.Stop):
		return &core.Reason{Code: core.Suspended, Cause: core.QueueStopped, Queue: d.key.name, Detail: "LocalQueue"}
	case q.closed != nil:
		return q.closed
	case q.spec.Namespaces == nil || !q.spec.Namespaces.Matches(e.namespaces[d.key.namespace].Labels):
		return &core.Reason{
			Code: core.Misconfigured, Cause: core.NamespaceMismatch, Queue: q.name, Detail: d.key.namespace,
		}
	}
	return nil
}

// closedQueue says why a queue admits nothing; nil if it is open.
func (e *Engine) closedQueue(q *queue) *core.Reason {
	switch {
	case q.spec == nil:
		return &core.Reason{Code: core.Misconfigured, Cause: core.QueueMissing, Queue: q.name, Detail: "ClusterQueue"}
	case stopped(q.spec.Stop):
		return &core.Reason{Code: core.Suspended, Cause: core.QueueStopped, Queue: q.name, Detail: "ClusterQueue"}
	case q.spec.Inactive != "":
		return &core.Reason{Code: core.Suspended, Cause: core.QueueUnready, Queue: q.name, Detail: q.spec.Inactive}
	case q.node.Cyclic():
		return &core.Reason{Code: core.Misconfigured, Cause: core.CohortCycle, Queue: q.name, Tree: q.spec.Cohort}
	}
	for _, g := range q.spec.Groups {
		for _, f := range g.Flavors {
			if e.flavors[f.Flavor] == nil {
				return &core.Reason{Code: core.Misconfigured, Cause: core.FlavorMissing, Queue: q.name, Flavor: f.Flavor}
			}
		}
	}
	return nil
}

func stopped(p core.StopPolicy) bool { return p == core.Hold || p == core.HoldAndDrain }

// drain evicts from queues and local queues that are being emptied. What has quota and
// was not admitted, because a check has not agreed, gives it back without an
// eviction, which is not decided here (spec/kueue.md 2.10).
func (e *Engine) drain() {
	if !e.edited && !e.facts {
		return
	}
	for _, q := range e.sortedQueues() {
		if q.spec == nil || q.spec.Stop != core.HoldAndDrain {
			continue
		}
		var all []*workload
		for _, c := range e.search.Running(q.node) {
			all = append(all, e.byID[c.ID])
		}
		slices.SortFunc(all, compareWorkloads)
		for _, w := range all {
			if !w.checking() {
				e.evict(w, core.ClusterQueueStopped, nil)
			}
		}
	}
	for _, d := range e.sortedLocalQueues() {
		if d.spec == nil || d.spec.Stop != core.HoldAndDrain {
			continue
		}
		for _, w := range d.sorted() {
			if w.phase == running && !w.checking() {
				e.evict(w, core.LocalQueueStopped, nil)
			}
		}
	}
	e.edited, e.facts = false, false
}

// draining reports whether the queue or the local queue of a workload with quota is
// being emptied.
func (e *Engine) draining(w *workload) bool {
	if q := e.byNode[w.Queue.ID]; q.spec != nil && q.spec.Stop == core.HoldAndDrain {
		return true
	}
	return w.localQueue != nil && w.localQueue.spec != nil && w.localQueue.spec.Stop == core.HoldAndDrain
}

// recount books all usage anew after a sum overflowed and cannot be undone.
func (e *Engine) recount() { e.books.Recount(e.allocations) }

// allocations lists what all workloads hold, in any order.
func (e *Engine) allocations(yield func(*ledger.Allocation) bool) {
	for _, w := range e.workloads {
		if !yield(&w.Allocation) {
			return
		}
	}
}

func (e *Engine) sortedQueues() []*queue {
	out := make([]*queue, 0, len(e.queues))
	for _, q := range e.queues {
		out = append(out, q)
	}
	slices.SortFunc(out, func(a, b *queue) int { return cmp.Compare(a.name, b.name) })
	return out
}

func (e *Engine) sortedLocalQueues() []*localQueue {
	out := make([]*localQueue, 0, len(e.localQueues))
	for _, d := range e.localQueues {
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b *localQueue) int {
		return cmp.Or(cmp.Compare(a.key.namespace, b.key.namespace), cmp.Compare(a.key.name, b.key.name))
	})
	return out
}
