package cycle

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/ledger"
	"github.com/mlbatch/mlbatch/internal/engine/place"
	"github.com/mlbatch/mlbatch/internal/engine/preempt"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// Interruptions: a gang that loses nodes, and has no other places for the pods that ran there, is stopped as a
// whole. What it held is not given to others at once, since the next small job would take one of its nodes and
// the gang had to wait for all of them again. It is interrupted: it keeps its quota and its nodes, and once its
// pods have ended it goes on as soon as there are places for all of them. Whoever may evict it while it runs may
// while it is interrupted, and before anything that runs (package preempt). For how long it keeps what it has is
// a rule of the controllers, who release it then; the engine ends an interruption in which there is nothing to
// wait for: with another flavor, or by evicting others, it would start now.

// interrupts reports whether a workload whose pods have no places may keep the rest. One that may start with fewer
// pods, or asks for others than it was given, is better off in its queue.
func (rc *recovery) interrupts(w *workload) bool {
	d, q := w.obs.details(), w.localQueue.queue
	if !rc.opt.KeepNodes || w.localQueue.closed != nil || d.bars() || q != rc.byNode[w.Queue.ID] {
		return false
	}
	kept := false
	for i := range w.admission.PodSets {
		p := &w.admission.PodSets[i]
		s := w.equivalence.podSet(p.Name)
		if s < 0 || w.equivalence.podSets[s].Count != p.Count || w.equivalence.podSets[s].MinCount > 0 {
			return false
		}
		kept = kept || slices.ContainsFunc(p.Places, func(pl core.Place) bool {
			n := rc.nodes.Get(pl.Node)
			return n != nil && n.TakesWork()
		})
	}
	return kept && len(w.admission.PodSets) == len(w.equivalence.podSets)
}

// interrupt orders the pods of a workload to stop, and lets it keep what it holds.
func (rc *recovery) interrupt(w *workload) {
	w.orderEviction()
	rc.setInterrupted(w, true)
	rc.draft.decide(
		core.Evict{Key: w.Key, Reason: core.NodeFailures, Interrupts: true, Failed: rc.failedNodes(w)},
	)
}

// failedNodes are the nodes of a workload that take no work, by name.
func (m *model) failedNodes(w *workload) []string {
	var names []string
	for i := range w.admission.PodSets {
		for _, pl := range w.admission.PodSets[i].Places {
			if n := m.nodes.Get(pl.Node); n == nil || !n.TakesWork() {
				names = append(names, pl.Node)
			}
		}
	}
	slices.SortFunc(names, core.CompareNames)
	return slices.Compact(names)
}

// setInterrupted notes whether a workload that holds something is interrupted.
func (rc *recovery) setInterrupted(w *workload, is bool) { //nolint:revive // it is what is observed
	if w.Interrupted == is {
		return
	}
	rc.judge.search.Remove(&w.Candidate)
	w.Interrupted = is
	w.Until = rc.until(w)
	rc.judge.search.Add(&w.Candidate)
	rc.countReady(w)
	if is {
		rc.interrupted = append(rc.interrupted, w)
		rc.pending.free(w.Queue, false) // nothing is lost any more by evicting it
	}
	rc.resumable = true
}

// lookAgain has interrupted workloads looked at again, after an edit.
func (rc *recovery) lookAgain() { rc.resumable = true }

// follow takes in what was observed of a workload that holds something.
func (rc *recovery) follow(w *workload) {
	rc.observeInterruption(w)
	if w.State() == running {
		rc.checkPlaces(w)
	}
}

// observeInterruption follows what the API says of a workload whose admission is as the engine has it. It does not
// while an order of the engine is on its way.
func (rc *recovery) observeInterruption(w *workload) {
	if w.State() != running || w.ordered || w.resumed {
		return
	}
	is := w.obs.details().interruption != core.NotInterrupted
	rc.setInterrupted(w, is)
	rc.resumable = rc.resumable || is
}

// resume gives interrupted workloads whose pods have ended places for all of them, and ends the interruption of
// those that would start without. One that another would evict as soon as it ran yields to that one: it would start for
// nothing. It reports whether any does not keep what it had.
func (rc *recovery) resume() (changed bool) {
	if len(rc.interrupted) == 0 || !rc.resumable && rc.resumedAt == rc.pending.changes {
		return false
	}
	rc.prune()
	for _, w := range slices.Clone(rc.interrupted) {
		switch {
		case w.ordered || w.obs.details().interruption != core.InterruptedStopped || rc.unready > 0:
		case !rc.interrupts(w):
			rc.admissions.evict(w, core.NodeFailures, nil)
			changed = true
		default:
			a, ok := rc.placesAgain(w)
			switch {
			case ok && rc.yields(w):
				rc.yielded = append(rc.yielded, w)
			case ok:
				rc.goOn(w, a)
				changed = true
			case rc.wouldStart(w):
				rc.admissions.evict(w, core.NodeFailures, nil)
				changed = true
			}
		}
	}
	rc.resumable, rc.resumedAt = false, rc.pending.changes
	return changed
}

// resumeYielded lets those go on that nobody has evicted.
func (rc *recovery) resumeYielded() {
	for _, w := range rc.yielded {
		if w.State() != running || !w.Interrupted || w.ordered || rc.unready > 0 {
			continue
		}
		if a, ok := rc.placesAgain(w); ok {
			rc.goOn(w, a)
		}
	}
	clear(rc.yielded)
	rc.yielded = rc.yielded[:0]
}

// yields reports whether the first of some queue, which is judged in this decision, would evict an interrupted workload.
func (rc *recovery) yields(w *workload) bool {
	rc.judge.ask()
	defer rc.judge.answered()
	return slices.ContainsFunc(rc.sortedQueues(), func(q *queue) bool {
		if q.spec == nil || q.active.Len() == 0 || q.node.Root() != w.Queue.Root() || q.ahead() != nil {
			return false
		}
		return slices.ContainsFunc(
			rc.judge.verdict(q.first()).victims,
			func(v preempt.Victim) bool { return v.ID == w.ID },
		)
	})
}

// prune lists the workloads that are interrupted, each once, in the order of a queue.
func (rc *recovery) prune() {
	slices.SortFunc(rc.interrupted, compareWorkloads)
	rc.interrupted = slices.Compact(slices.DeleteFunc(
		rc.interrupted,
		func(w *workload) bool { return rc.workloads[w.Key] != w || !w.Interrupted },
	))
}

// goOn gives an interrupted workload places for all its pods.
func (rc *recovery) goOn(w *workload, a *core.Admission) {
	rc.setInterrupted(w, false)
	rc.admissions.changeUsage(w, func() {
		w.resume(a)
		w.Reserved = rc.now.Unix()
	})
	rc.turns.given(w)
	rc.draft.decide(core.Admit{Key: w.Key, Admission: *a, Resumes: true})
}

// placesAgain finds places for all pods of an interrupted workload, of the flavors that it has.
func (rc *recovery) placesAgain(w *workload) (*core.Admission, bool) {
	if !rc.hasRoomAgain(w) && !rc.keepsThroughCut(w) {
		return nil, false
	}
	defer rc.books.Suppose(&w.Allocation, ledger.Free)()
	sets := rc.setsOf(w)
	for i, s := range sets { // in the order of the admission's pod sets, less those without nodes
		p := w.admission.PodSets[s.Index]
		sets[i].Class = rc.recoveryClass(w.equivalence, w.equivalence.podSet(p.Name), p.FlavorNames())
	}
	spots, _, ok := rc.nodes.Place(place.Request{View: place.Free, Sets: sets})
	if !ok {
		return nil, false
	}
	return elsewhere(w, sets, spots), true
}

// keepsThroughCut reports whether a workload that holds something has no room for it only because quotas are cut for now:
// that takes nothing from what its queue was promised and holds.
func (rc *recovery) keepsThroughCut(w *workload) bool {
	pairs := make([]quota.FlavorResource, len(w.Uses))
	cut := false
	for i, u := range w.Uses {
		pairs[i] = u.Pair
		cut = cut || w.Queue.Root().Cut(u.Pair) > 0
	}
	return cut && w.Queue.WithinPromised(core.Current, pairs) && w.Queue.WithinPromised(core.Projected, pairs)
}

// wouldStart reports whether an interrupted workload, were what it keeps free and it first in its queue, would
// start now, or once others are gone that it may evict.
func (rc *recovery) wouldStart(w *workload) bool {
	rc.judge.search.Remove(&w.Candidate)
	undo := rc.books.Suppose(&w.Allocation, ledger.Free)
	rc.judge.ask()
	defer func() {
		rc.judge.answered()
		undo()
		rc.judge.search.Add(&w.Candidate)
	}()
	n := &workload{equivalence: w.equivalence, localQueue: w.localQueue, spare: w.spare}
	n.Key, n.UID, n.Priority, n.Time = w.Key, w.UID, w.Priority, w.Time
	// A group of its own, which no queue knows.
	n.group = &group{
		queue: w.localQueue.queue, key: groupKey{equivalence: w.equivalence}, equivalence: w.equivalence, index: -1,
	}
	n.group.members.Push(n)
	return rc.judge.verdict(n).kind != refuse
}
