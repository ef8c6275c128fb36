package cycle

import (
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
	e.recovery.lookAgain()
	e.nodes.Sweep()
	e.outdate()
	e.link()
	for _, q := range e.sortedQueues() {
		for _, c := range e.judge.search.Running(q.node) {
			e.protect(e.byID[c.ID])
		}
	}
	e.pending.lookAgain()
}

// link finds out which queues are open, and through which LocalQueues they are reached.
func (e *Engine) link() {
	e.turns.renew()
	for _, q := range e.sortedQueues() {
		q.closed = e.closedQueue(q)
		q.localQueues = q.localQueues[:0]
	}
	e.judge.settleHeadReservations()
	e.judge.settleRelocating()
	for _, d := range e.sortedLocalQueues() {
		e.settleLocalQueue(d)
	}
	e.history.settleUsage()
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
		if w.State() == waiting || w.State() == reserved {
			e.admissions.withdraw(w)
			e.pending.enter(w)
		}
	}
}
