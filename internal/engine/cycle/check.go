package cycle

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Check recomputes everything the slow way and compares it with what is kept.
// An error is a broken invariant and names the values that break it.
func (e *Engine) Check() error {
	if err := e.ledger.Check(e.allocations); err != nil {
		return err
	}
	for _, check := range []func() error{e.checkCounts, e.pending.check, e.admissions.check, e.recovery.check} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkCounts counts the workloads whose pods are not ready, and those of each LocalQueue.
func (m *model) checkCounts() error {
	unready := 0
	for _, w := range m.workloads {
		if w.State() == running && !w.Interrupted && !w.obs.ready && (w.seen == nil || w.obs.admitted) &&
			m.opt.BlockAdmission {
			unready++
		}
	}
	if unready != m.unready {
		return fmt.Errorf("pods of %d workloads are not ready, %d are counted", unready, m.unready)
	}
	for _, d := range m.localQueues {
		counts, held := d.counts, d.held
		for _, w := range d.workloads {
			counts[w.State()]--
			if w.State() == waiting && w.obs.details().held != "" {
				held--
			}
		}
		if held != 0 {
			return fmt.Errorf(
				"LocalQueue %s/%s: %d more workloads are counted as held",
				d.key.namespace,
				d.key.name,
				held,
			)
		}
		if counts != [len(counts)]int{} {
			return fmt.Errorf(
				"LocalQueue %s/%s: %v more workloads are counted, by state",
				d.key.namespace,
				d.key.name,
				counts,
			)
		}
	}
	return nil
}

// check verifies that whatever waits is where it belongs, and that something wakes it.
func (pe *pending) check() error {
	for _, w := range pe.workloads {
		if err := pe.checkWorkload(w); err != nil {
			return fmt.Errorf("workload %s: %w", w.Key, err)
		}
	}
	for _, q := range pe.queues {
		if err := pe.checkQueue(q); err != nil {
			return fmt.Errorf("queue %s: %w", q.name, err)
		}
	}
	for _, list := range []iter.Seq[*quota.Node]{maps.Keys(pe.rechecks.seen), maps.Keys(pe.rechecks.at)} {
		for n := range list {
			if n.Root() != n && !pe.edited {
				return fmt.Errorf("to be looked at again is %s, which is part of a tree", n.Name)
			}
		}
	}
	return nil
}

// checkWorkload verifies that a workload that waits is in a group, about to be sorted in,
// or kept aside, told why, and with an end to that.
func (pe *pending) checkWorkload(w *workload) error {
	if w.State() != waiting {
		if w.group != nil {
			return fmt.Errorf("it does not wait, and is still in a queue")
		}
		return nil
	}
	if w.admission != nil || len(w.Uses) > 0 || len(w.Holds) > 0 || w.reservation != nil {
		return fmt.Errorf("waits but holds %v", w.admission)
	}
	d := w.obs.details()
	aside := d.bars() || w.timer != nil || w.localQueue.closed != nil
	if !w.inbox && !pe.edited && (w.group == nil) != aside {
		return fmt.Errorf("in a group: %t, kept aside: %t", w.group != nil, aside)
	}
	if !w.inbox && w.group == nil && w.reported == nil {
		return fmt.Errorf("kept aside and not told why")
	}
	return nil
}

func (pe *pending) checkQueue(q *queue) error {
	active := 0
	for _, g := range q.groups {
		if err := checkGroup(g); err != nil {
			return err
		}
		if g.slot > 0 {
			active++
		}
		if blocker := q.blocker != nil &&
			q.blocker.group == g; (g.parked || blocker) && !pe.edited &&
			!g.hasWaker() {
			return fmt.Errorf("nothing wakes %s, parked for %s %s", g.members.First().Key, g.why.Code, g.why.Cause)
		}
	}
	if active != q.active.Len() {
		return fmt.Errorf("%d active groups, %d in the heap", active, q.active.Len())
	}
	if q.hasHead() != (q.slot > 0) && !pe.edited {
		return fmt.Errorf("has a head: %t, among the heads: %t", q.hasHead(), q.slot > 0)
	}
	return nil
}

func checkGroup(g *group) error {
	if g.members.Len() == 0 {
		return fmt.Errorf("an empty group is kept")
	}
	if g.parked == (g.slot > 0) {
		return fmt.Errorf("a group is parked: %t, active: %t", g.parked, g.slot > 0)
	}
	for _, w := range g.members.Items() {
		if w.group != g || w.State() != waiting {
			return fmt.Errorf("%s is listed as waiting", w.Key)
		}
		if g.members.First() != w && w.Before(g.members.First()) {
			return fmt.Errorf("%s should be first of its group", w.Key)
		}
	}
	return nil
}

// hasWaker reports whether a refused group is listed under what it waits for. Edits of
// queues and flavors wake every group.
func (g *group) hasWaker() bool {
	switch {
	case g.why.Code == core.WaitingForPodsReady:
		return g.onReady
	case len(g.blockedPairs) > 0:
		return g.blockedByReservation > 0
	case g.lacksNodes:
		return g.onNodes > 0
	case g.why.LacksQuota():
		return len(g.shorts) > 0 || g.bound != g.plan
	}
	return true
}

// check verifies that queues know what holds their quota, that reservations wait for
// leaving workloads only, and that each one that leaves is remembered.
func (ad *admissions) check() error {
	reserving := map[*queue]int{}
	left := 0
	for _, w := range ad.workloads {
		switch w.State() {
		case reserved:
			if w.reservation == nil || w.admission == nil {
				return fmt.Errorf("workload %s: reserved without a reservation", w.Key)
			}
		case leaving:
			left++
			fallthrough
		case running:
			if w.admission == nil || w.reservation != nil {
				return fmt.Errorf("workload %s: holds without an admission", w.Key)
			}
			reserving[ad.byNode[w.Queue.ID]]++
		case waiting:
		}
		if w.State() != leaving && len(w.awaitedBy) > 0 {
			return fmt.Errorf("%s is waited for but does not leave", w.Key)
		}
	}
	for _, q := range ad.queues {
		if reserving[q] != q.reserving {
			return fmt.Errorf("queue %s: %d workloads hold quota, %d are counted", q.name, reserving[q], q.reserving)
		}
	}
	if left != len(ad.leaving) {
		return fmt.Errorf("%d workloads leave, %d are listed", left, len(ad.leaving))
	}
	return ad.checkReservations()
}

// check verifies that each workload that is interrupted is remembered.
func (rc *recovery) check() error {
	for _, w := range rc.workloads {
		if w.Interrupted && (w.State() != running || !slices.Contains(rc.interrupted, w)) {
			return fmt.Errorf("%s is interrupted and holds nothing, or is not listed", w.Key)
		}
	}
	return nil
}

func (ad *admissions) checkReservations() error {
	awaited := map[*reservation]int{}
	for _, w := range ad.leaving {
		if w.State() != leaving {
			return fmt.Errorf("%s is listed as leaving", w.Key)
		}
		for _, p := range w.awaitedBy {
			awaited[p]++
		}
	}
	for _, p := range ad.reservations {
		if p.workload.reservation != p || p.workload.State() != reserved {
			return fmt.Errorf("%s has lost its reservation", p.workload.Key)
		}
		if p.pendingVictims != awaited[p] {
			return fmt.Errorf("%s waits for %d, %d know of it", p.workload.Key, p.pendingVictims, awaited[p])
		}
	}
	return nil
}
