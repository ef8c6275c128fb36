package cycle

import (
	"reflect"
	"slices"
	"time"

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
		e.changes++
		e.displaceUsers(ev.Name)
		e.nodes.Gone(ev.Name)
		e.nodesFreed = true // with its last node a flavor is decided by quota alone
	default:
		e.edit(ev)
	}
}

// edit takes in changes of queues, cohorts, flavors and namespaces. They take
// effect at the next Decide, many at once. An edit that changes nothing costs
// nothing.
func (e *Engine) edit(ev core.Event) {
	changed := false
	switch ev := ev.(type) {
	case core.FlavorSet:
		changed = e.setFlavor(ev.Flavor)
	case core.FlavorGone:
		_, changed = e.flavors[ev.Name]
		delete(e.flavors, ev.Name)
	case core.CohortSet:
		if old, ok := e.cohorts[ev.Cohort.Name]; !ok || !reflect.DeepEqual(old, ev.Cohort) {
			e.cohorts[ev.Cohort.Name] = ev.Cohort
			e.forest.SetCohort(ev.Cohort)
			changed = true
		}
	case core.CohortGone:
		_, changed = e.cohorts[ev.Name]
		delete(e.cohorts, ev.Name)
		e.forest.DropCohort(ev.Name)
	case core.QueueSet:
		q := e.queueNamed(ev.Queue.Name)
		if q.spec == nil || !reflect.DeepEqual(*q.spec, ev.Queue) {
			e.define(q, &ev.Queue)
			changed = true
		}
	case core.QueueGone:
		q := e.queueNamed(ev.Name)
		changed = q.spec != nil
		q.spec = nil
		e.forest.DropQueue(ev.Name)
	case core.LocalQueueSet:
		d := e.localQueueNamed(localQueueKey{ev.LocalQueue.Namespace, ev.LocalQueue.Name})
		changed = d.spec == nil
		if !changed { // what the API remembers follows the engine
			ev.LocalQueue.Consumed, ev.LocalQueue.ConsumedAt = d.spec.Consumed, d.spec.ConsumedAt
			changed = !reflect.DeepEqual(*d.spec, ev.LocalQueue)
		}
		d.spec = &ev.LocalQueue
	case core.LocalQueueGone:
		d := e.localQueueNamed(localQueueKey{ev.Namespace, ev.Name})
		changed = d.spec != nil
		d.spec = nil
	case core.NamespaceSet:
		if old, ok := e.namespaces[ev.Namespace.Name]; !ok || !reflect.DeepEqual(old, ev.Namespace) {
			e.namespaces[ev.Namespace.Name] = ev.Namespace
			changed = true
		}
	case core.NamespaceGone:
		_, changed = e.namespaces[ev.Name]
		delete(e.namespaces, ev.Name)
	}
	e.edited = e.edited || changed
}

func (e *Engine) define(q *queue, spec *core.Queue) {
	q.spec = spec
	e.forest.SetQueue(q.name, spec.Cohort, spec.Groups).Weigh(spec.Weight)
}

func (e *Engine) setFlavor(f core.Flavor) bool {
	old := e.flavors[f.Name]
	if old != nil && reflect.DeepEqual(old.spec, f) {
		return false
	}
	e.flavors[f.Name] = &flavor{spec: f}
	for _, s := range e.equivalences { // every equivalence class alike, so order does not matter
		e.forgetClasses(s)
	}
	return true
}

func (e *Engine) nodeSet(n core.Node) {
	before := e.nodes.Version()
	e.changes++
	better, lost := e.nodes.Set(n)
	e.nodesFreed = e.nodesFreed || better
	e.nodesNew = e.nodesNew || e.nodes.Version() != before
	if lost || !n.State.TakesWork() {
		e.displaceUsers(n.Name)
	}
}

// displaceUsers marks who may have to move off a node.
func (e *Engine) displaceUsers(name string) {
	n := e.nodes.Get(name)
	if n == nil {
		return
	}
	for _, id := range n.Users() {
		e.displace(e.byID[id])
	}
}

func (e *Engine) displace(w *workload) {
	if !w.listed {
		w.listed = true
		e.displaced = append(e.displaced, w)
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
	if o.Seq == 0 || o.Seq >= w.applied {
		e.reconcile(w, o)
	}
	w.seq = max(w.seq, o.Seq)
	if w.phase == running {
		e.checkPlaces(w)
	}
	if o.Admission != nil { // else it says nothing of an admission decided since
		// Who is admitted only now may be in a queue that is being drained.
		e.facts = e.facts || (w.phase == running && o.Admitted && !w.obs.admitted && e.draining(w))
		w.obs.admitted, w.obs.ready = o.Admitted, o.Ready
	}
	e.countReady(w)
	if w.obs.admitted {
		e.discharge(w, admitted)
	}
}

func (e *Engine) newWorkload(o *core.Workload) *workload {
	w := e.register(o, nil)
	e.enter(w)
	return w
}

// register makes the record of a workload that waits and is nowhere yet, with its
// equivalence class if that is known.
func (e *Engine) register(o *core.Workload, s *equivalence) *workload {
	w := &workload{equivalence: s}
	w.Key, w.UID = o.Key, o.UID
	if n := len(e.freeIDs); n > 0 {
		w.ID = e.freeIDs[n-1]
		e.freeIDs = e.freeIDs[:n-1]
		e.byID[w.ID] = w
	} else {
		w.ID = int32(len(e.byID)) //nolint:gosec // workloads fit in 31 bits
		e.byID = append(e.byID, w)
	}
	e.workloads[o.Key] = w
	e.describe(w, o)
	return w
}

// describe copies what is kept of an observed workload.
func (e *Engine) describe(w *workload, o *core.Workload) {
	w.obs = observed{localQueue: o.Queue, evicting: o.Evicting}
	w.obs.keep(detailsOf(o))
	at := o.QueueTime
	if at.IsZero() {
		at = o.Created
	}
	w.Priority, w.Time = o.Priority, at.UnixNano()
	old := w.equivalence
	if old == nil || !old.describes(o) {
		w.equivalence = e.equivalenceOf(o)
		if old != nil {
			e.dropEquivalence(old)
		}
	}
	d := e.localQueueNamed(localQueueKey{o.Key.Namespace, o.Queue})
	if w.localQueue != d {
		if w.localQueue != nil {
			delete(w.localQueue.workloads, w)
			w.localQueue.counts[w.phase]--
		}
		d.workloads[w] = struct{}{}
		d.counts[w.phase]++
		w.localQueue = d
	}
}

// update takes in everything but the admission of a known workload.
func (e *Engine) update(w *workload, o *core.Workload) {
	at := o.QueueTime
	if at.IsZero() {
		at = o.Created
	}
	same := w.Time == at.UnixNano() && w.equivalence.describes(o) && w.obs.localQueue == o.Queue
	was, is := w.obs.details(), detailsOf(o)
	same = same && samePlaces(was.ended, is.ended)
	switch w.phase {
	case waiting, reserved:
		if same && was.held == is.held && was.invalid == is.invalid && was.gatedBy == is.gatedBy && was.notBefore.Equal(is.notBefore) {
			w.obs.evicting = o.Evicting
			w.obs.keep(is)
			return
		}
		e.withdraw(w)
		e.describe(w, o)
		e.enter(w)
	case running, leaving:
		if same {
			w.obs.evicting = o.Evicting
			w.obs.keep(is)
			return
		}
		e.unhold(w)
		e.describe(w, o)
		e.hold(w)
	}
}

// reconcile compares the admission in the API with the engine's.
func (e *Engine) reconcile(w *workload, o *core.Workload) {
	echo := sameAdmission(o.Admission, w.seen)
	// A state from before the decision looks like the one before it.
	late := w.assumed && echo && w.applied == 0
	w.seen = o.Admission
	if o.Admission == nil {
		if (w.phase == running || w.phase == leaving) && !late {
			e.release(w)
		}
		return
	}
	switch {
	case w.phase == waiting || w.phase == reserved:
		e.withdraw(w)
		e.take(w, o)
	case sameAdmission(o.Admission, w.admission):
		e.confirm(w)
		e.date(w, o.Reserved)
	case !late:
		e.unhold(w)
		e.take(w, o)
	}
	if o.Evicting {
		w.ordered = false
		if w.phase == running {
			e.leave(w)
		}
	} else if w.phase == leaving && !w.ordered {
		e.stay(w)
	}
}

// accepted notes that the API took a decision, with the state seq: an eviction cannot
// overtake the admission any more. If that state, or a newer one, was seen already, it
// says nothing new; and where an admission was followed by other places at once, which
// of both was written is not known.
func (e *Engine) accepted(w *workload, seq uint64) {
	if seq <= w.seq || w.moved {
		return
	}
	w.applied = max(w.applied, seq)
	if w.phase == running || w.phase == leaving {
		e.unexpect(w)
		e.sight(w)
	}
}

// confirm notes that an admission decided here was seen in the API.
func (e *Engine) confirm(w *workload) {
	w.assumed, w.moved = false, false
	e.unexpect(w)
	e.sight(w)
}

// date takes over from the API when an admission was made: the write is later than the
// decision. Who is evicted first goes by it, and would after a restart.
func (e *Engine) date(w *workload, at time.Time) {
	if at.IsZero() || w.Reserved == at.Unix() {
		return
	}
	if w.phase != running {
		w.Reserved = at.Unix()
		return
	}
	e.search.Remove(&w.Candidate)
	w.Reserved = at.Unix()
	e.search.Add(&w.Candidate)
	e.free(w.Queue, false) // in another order, others may be enough
}

// sight notes that an admission is a fact: whoever has it may be evicted.
func (e *Engine) sight(w *workload) {
	if !w.Unseen {
		return
	}
	e.books.See(&w.Allocation)
	e.lendSeen(w)
	if root := w.Queue.Root(); e.recheck[root] {
		delete(e.recheck, root)
		e.free(w.Queue, false)
	}
}

// take accepts an admission that was not decided here, be it above quota.
func (e *Engine) take(w *workload, o *core.Workload) {
	w.admission, w.assumed, w.moved, w.Unseen, w.told = o.Admission, false, false, false, nil
	e.unexpect(w)
	w.Reserved = o.Reserved.Unix()
	if w.phase != leaving {
		e.setPhase(w, running)
	}
	e.hold(w)
	e.facts = true
}

// refused takes back what was decided since the last state that was seen: the API
// did not accept it.
func (e *Engine) refused(k core.Key) {
	w := e.workloads[k]
	if w == nil {
		return
	}
	if w.phase == leaving && w.ordered {
		w.ordered = false
		if !w.obs.evicting {
			e.stay(w)
			e.facts = true // a queue that is being drained orders it again
		}
	}
	switch { // an eviction may have been ordered on top of an admission that was refused
	case w.phase == running && w.assumed && w.seen == nil && w.applied > 0: // it was not
	case w.phase == running && w.assumed && w.seen == nil:
		e.release(w)
	case w.phase == running && w.assumed:
		e.unhold(w)
		w.admission, w.assumed, w.moved = w.seen, false, false
		e.hold(w)
		e.countReady(w)
		e.checkPlaces(w)
	}
}

// gone forgets a workload and everything it held.
func (e *Engine) gone(w *workload) {
	switch w.phase {
	case waiting, reserved:
		e.withdraw(w)
	case running, leaving:
		e.unhold(w)
		e.noLongerAwaited(w)
	}
	w.inbox = false
	e.unexpect(w)
	e.discharge(w, withdrawn)
	if w.unready {
		e.unready--
	}
	w.localQueue.counts[w.phase]--
	delete(w.localQueue.workloads, w)
	delete(e.workloads, w.Key)
	e.dropEquivalence(w.equivalence)
	e.byID[w.ID] = nil
	e.freeIDs = append(e.freeIDs, w.ID)
}

func samePlaces(a, b []core.PodSetPlaces) bool {
	return slices.EqualFunc(a, b, func(x, y core.PodSetPlaces) bool {
		return x.Name == y.Name && slices.Equal(x.Places, y.Places)
	})
}

func sameAdmission(a, b *core.Admission) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Queue == b.Queue && slices.EqualFunc(a.PodSets, b.PodSets, func(x, y core.PodSetAdmission) bool {
		return x.Name == y.Name && x.Count == y.Count && slices.Equal(x.Flavors, y.Flavors) &&
			slices.Equal(x.Usage, y.Usage) && slices.Equal(x.Places, y.Places)
	})
}
