package cycle

import (
	"fmt"

	"github.com/mlbatch/mlbatch/internal/engine/ledger"
)

// Check recomputes everything the slow way and compares it with what is kept.
// An error is a broken invariant and names the values that break it.
func (e *Engine) Check() error {
	if err := e.books.Check(e.allocations); err != nil {
		return err
	}
	for _, w := range e.workloads {
		if err := e.checkWorkload(w); err != nil {
			return fmt.Errorf("workload %s: %w", w.Key, err)
		}
	}
	for _, q := range e.queues {
		if err := e.checkQueue(q); err != nil {
			return fmt.Errorf("queue %s: %w", q.name, err)
		}
	}
	if err := e.checkReady(); err != nil {
		return err
	}
	return e.checkReservations()
}

// stateOf is what a workload in a phase holds.
func stateOf(p phase) ledger.State {
	return [...]ledger.State{waiting: ledger.Free, reserved: ledger.Promised, running: ledger.Held, leaving: ledger.Leaving}[p]
}

func (e *Engine) checkWorkload(w *workload) error {
	if w.State() != stateOf(w.phase) {
		return fmt.Errorf("in phase %d it is in state %d of the ledger", w.phase, w.State())
	}
	switch w.phase {
	case waiting:
		if w.admission != nil || len(w.Uses) > 0 || len(w.Holds) > 0 || w.reservation != nil {
			return fmt.Errorf("waits but holds %v", w.admission)
		}
		d := w.obs.details()
		aside := d.bars() || w.timer != nil || w.localQueue.closed != nil
		if !w.inbox && !e.edited && (w.group == nil) != aside {
			return fmt.Errorf("in a group: %t, kept aside: %t", w.group != nil, aside)
		}
		if !w.inbox && w.group == nil && w.told == nil {
			return fmt.Errorf("kept aside and not told why")
		}
	case reserved:
		if w.reservation == nil || w.admission == nil || w.group != nil {
			return fmt.Errorf("reserved without a reservation")
		}
	case running, leaving:
		if w.admission == nil || w.group != nil || w.reservation != nil {
			return fmt.Errorf("admitted and still in a queue")
		}
	}
	return nil
}

func (e *Engine) checkQueue(q *queue) error {
	active, reserving := 0, 0
	for _, g := range q.groups {
		if g.members.Len() == 0 {
			return fmt.Errorf("an empty group is kept")
		}
		if g.parked == (g.slot > 0) {
			return fmt.Errorf("a group is parked: %t, active: %t", g.parked, g.slot > 0)
		}
		if g.slot > 0 {
			active++
		}
		for _, w := range g.members.Items() {
			if w.group != g || w.phase != waiting {
				return fmt.Errorf("%s is listed as waiting", w.Key)
			}
			if g.members.First() != w && w.Before(g.members.First()) {
				return fmt.Errorf("%s should be first of its group", w.Key)
			}
		}
	}
	if active != q.active.Len() {
		return fmt.Errorf("%d active groups, %d in the heap", active, q.active.Len())
	}
	if ready := active > 0 && q.closed == nil && q.ahead() == nil; ready != (q.slot > 0) && !e.edited {
		return fmt.Errorf("ready: %t, among the heads: %t", ready, q.slot > 0)
	}
	for _, w := range e.workloads {
		if (w.phase == running || w.phase == leaving) && w.Queue == q.node {
			reserving++
		}
	}
	if reserving != q.reserving {
		return fmt.Errorf("%d workloads hold quota, %d are counted", reserving, q.reserving)
	}
	return nil
}

// checkReady counts the workloads whose pods are not ready.
func (e *Engine) checkReady() error {
	n := 0
	for _, w := range e.workloads {
		if w.phase == running && !w.obs.ready && (w.seen == nil || w.obs.admitted) && e.opt.BlockAdmission {
			n++
		}
	}
	if n != e.unready {
		return fmt.Errorf("pods of %d workloads are not ready, %d are counted", n, e.unready)
	}
	return nil
}

// checkReservations verifies that reservations wait for leaving workloads only, and that
// whoever leaves is remembered.
func (e *Engine) checkReservations() error {
	owing := map[*reservation]int{}
	left := 0
	for _, w := range e.leaving {
		if w.phase != leaving {
			return fmt.Errorf("%s is listed as leaving", w.Key)
		}
		for _, p := range w.awaitedBy {
			owing[p]++
		}
	}
	for _, w := range e.workloads {
		if w.phase == leaving {
			left++
		} else if len(w.awaitedBy) > 0 {
			return fmt.Errorf("%s is waited for but does not leave", w.Key)
		}
	}
	if left != len(e.leaving) {
		return fmt.Errorf("%d workloads leave, %d are listed", left, len(e.leaving))
	}
	for _, p := range e.reservations {
		if p.workload.reservation != p || p.workload.phase != reserved {
			return fmt.Errorf("%s has lost its pledge", p.workload.Key)
		}
		if p.pendingVictims != owing[p] {
			return fmt.Errorf("%s waits for %d, %d know of it", p.workload.Key, p.pendingVictims, owing[p])
		}
	}
	return nil
}
