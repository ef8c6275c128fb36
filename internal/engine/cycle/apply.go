package cycle

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Apply takes in one event. It changes the picture and decides nothing.
func (e *Engine) Apply(ev core.Event) {
	switch ev := ev.(type) {
	case core.WorkloadSet:
		e.observe(&ev.Workload)
	case core.WorkloadGone:
		if w := e.workloads[ev.Key]; w != nil {
			e.gone(w)
		}
	case core.Refused:
		e.refused(ev.Key)
	case core.Applied:
		if w := e.workloads[ev.Key]; w != nil {
			e.accepted(w, ev.Seq)
		}
	case core.NodeSet:
		e.nodeSet(ev.Node)
	case core.NodeGone:
		e.recovery.displaceUsers(ev.Name)
		e.nodes.Gone(ev.Name)
		e.pending.nodesChange(
			nodesChanged{freed: true, lost: true},
		) // with its last node a flavor is decided by quota alone
	default:
		trees, health := e.stabilizer.trees(ev), e.stabilizer.followsHealth(ev)
		if e.edit(ev) && !health {
			e.stabilizer.edit(ev, trees)
		}
	}
}

func (e *Engine) nodeSet(n core.Node) {
	before, losses := e.nodes.Version(), e.nodes.Losses()
	better, lost := e.nodes.Set(n)
	// One that leaves service may make room for pods that spread over nodes in service: it is one domain less.
	e.pending.nodesChange(
		nodesChanged{freed: better || lost, other: e.nodes.Version() != before, lost: e.nodes.Losses() != losses},
	)
	if lost || !n.State.TakesWork() {
		e.recovery.displaceUsers(n.Name)
	}
}

// observe takes in the state of a workload as the API has it, which may be
// older than what the engine decided since.
func (e *Engine) observe(o *core.Workload) {
	w := e.workloads[o.Key]
	if w != nil && w.UID != o.UID {
		e.gone(w) // deleted and made anew under the same name
		w = nil
	}
	if w == nil {
		w = e.newWorkload(o)
	} else {
		e.update(w, o)
	}
	if !o.Relocated.IsZero() {
		e.noteRelocated(w, o.Relocated.Unix())
	}
	if o.Seq == 0 || o.Seq >= w.applied {
		e.reconcile(w, o)
	}
	w.read(o.Seq)
	e.recovery.follow(w)
	if o.Admission != nil { // else it says nothing of an admission decided since
		if w.State() == running && o.Admitted && !w.obs.admitted && e.admissions.draining(w) {
			e.admissions.recheckDraining()
		}
		w.obs.admitted, w.obs.ready = o.Admitted, o.Ready
	}
	e.countReady(w)
	if w.obs.admitted {
		e.history.discharge(w, admitted)
	}
}

func (e *Engine) newWorkload(o *core.Workload) *workload {
	w := e.register(o, nil)
	e.inherit(w, o.Next)
	e.pending.enter(w)
	return w
}

// update takes in everything but the admission of a known workload.
func (e *Engine) update(w *workload, o *core.Workload) {
	at := o.QueueTime
	if at.IsZero() {
		at = o.Created
	}
	same := w.Time == at.UnixNano() && w.equivalence.describes(o) && w.localQueue.key.name == o.Queue
	shifted, from := w.Priority != o.Priority || w.localQueue.key.name != o.Queue, w.localQueue
	was, is := w.obs.details(), detailsOf(o)
	same = same && samePlaces(was.ended, is.ended)
	switch w.State() {
	case waiting, reserved:
		if same && was.held == is.held && was.invalid == is.invalid && was.gatedBy == is.gatedBy &&
			was.notBefore.Equal(is.notBefore) {
			w.obs.evicting = o.Evicting
			w.obs.keep(is)
			return
		}
		e.admissions.withdraw(w)
		e.describe(w, o, waiting)
		e.pending.enter(w)
	case running, leaving:
		if was.bars() != is.bars() { // whether it may be relocated is another matter now
			e.pending.free(w.Queue, true)
		}
		if same {
			w.obs.evicting = o.Evicting
			w.obs.keep(is)
			e.protect(w)
			return
		}
		as := w.State()
		if !w.equivalence.describes(o) || w.localQueue.key.name != o.Queue {
			e.admissions.dropRelocation(w) // it was for what the workload asked for before
		}
		e.admissions.changeUsage(w, func() { e.describe(w, o, as) })
	}
	if shifted {
		e.stabilizer.shift(w, from)
	}
}

// reconcile compares the admission in the API with the engine's.
func (e *Engine) reconcile(w *workload, o *core.Workload) {
	keeps := o.Interruption != core.NotInterrupted
	if keeps && w.resumed {
		return // a state from before it was told to go on
	}
	w.noteResumed()
	same := sameAdmission(o.Admission, w.seen)
	// A state from before the decision looks like the one before it.
	late := w.assumed() && same && w.applied == 0
	w.see(o.Admission)
	if o.Admission == nil {
		if (w.State() == running || w.State() == leaving) && !late {
			e.admissions.release(w)
		}
		return
	}
	switch {
	case w.State() == waiting || w.State() == reserved:
		e.admissions.withdraw(w)
		e.admissions.adopt(w, o)
	case sameAdmission(o.Admission, w.admission):
		e.admissions.confirm(w)
		e.admissions.setReservedAt(w, o.Reserved)
	case !late:
		e.admissions.adopt(w, o)
	}
	switch {
	case keeps && w.State() == leaving && w.ordered: // it was not told yet
	case o.Evicting:
		w.endOrder()
		if w.State() == running && !keeps {
			e.admissions.leave(w)
		}
	case w.State() == leaving && !w.ordered:
		e.admissions.cancelEviction(w)
	}
}

// accepted notes that the API took a decision, with the state seq: an eviction cannot
// overtake the admission any more. If that state, or a newer one, was seen already, it
// says nothing new; and where an admission was followed by other places at once, which
// of both was written is not known.
func (e *Engine) accepted(w *workload, seq uint64) {
	if seq <= w.seq || w.echo == replaced {
		return
	}
	w.accept(seq)
	if w.State() == running || w.State() == leaving {
		e.admissions.unexpect(w)
		e.admissions.observe(w)
	}
}

// refused takes back what was decided since the last state that was seen: the API
// did not accept it.
func (e *Engine) refused(k core.Key) {
	w := e.workloads[k]
	if w == nil {
		return
	}
	if w.State() == running && w.Interrupted && w.ordered {
		w.endOrder()
		e.recovery.follow(w)
	}
	if w.State() == leaving && w.ordered {
		w.endOrder()
		if !w.obs.evicting || w.obs.details().interruption != core.NotInterrupted {
			e.admissions.cancelEviction(w)
			e.recovery.follow(w)
			e.admissions.recheckDraining() // a queue that is being drained orders it again
		}
	}
	switch { // an eviction may have been ordered on top of an admission that was refused
	case w.State() == running && w.neverSeen() && w.applied > 0: // it was not
	case w.State() == running && w.neverSeen():
		e.admissions.release(w)
	case w.State() == running && (w.assumed() || w.resumed):
		w.noteResumed()
		e.admissions.changeUsage(w, w.revert)
		e.countReady(w)
		e.recovery.follow(w)
	}
}

// gone forgets a workload and everything it held.
func (e *Engine) gone(w *workload) {
	as := w.State()
	switch as {
	case waiting, reserved:
		e.admissions.withdraw(w)
		as = waiting
	case running, leaving:
		e.admissions.dropRelocation(w)
		e.admissions.removeUsage(w)
		e.admissions.noLongerAwaited(w)
	}
	w.inbox = false
	e.admissions.unexpect(w)
	e.history.discharge(w, withdrawn)
	e.drop(w, as)
}

func samePlaces(a, b []core.PodSetPlaces) bool {
	return slices.EqualFunc(a, b, func(x, y core.PodSetPlaces) bool {
		return x.Name == y.Name && slices.Equal(x.Places, y.Places)
	})
}
