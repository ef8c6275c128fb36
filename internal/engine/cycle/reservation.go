package cycle

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/ledger"
	"github.com/mlbatch/mlbatch/internal/engine/place"
)

// reserve evicts the victims of a verdict and holds the plan for the workload.
func (ad *admissions) reserve(w *workload, v *verdict) {
	g := w.group
	w.plan(ad.admission(g, v))
	ad.pending.depart(w, g)
	w.Queue = g.queue.node
	p := &reservation{workload: w, evicted: v.stops(), relocates: len(v.moves) > 0}
	w.reservation = p
	why := *v.why
	spared := ad.sparedFor(w)
	for _, victim := range v.victims {
		x := ad.byID[victim.ID]
		ad.spare(x, spared)
		ad.evict(x, victim.Reason, w)
		ad.await(p, x)
	}
	for _, m := range v.moves {
		ad.spare(m.workload, spared)
		ad.relocate(m.workload, m.admission, w)
		ad.await(p, m.workload)
	}
	ad.bookReservation(w)
	ad.count(w, waiting)
	ad.lend(w)
	if len(ad.leaving) > p.pendingVictims && !ad.coveredBy(p) {
		for _, x := range ad.leaving { // some of what it counts on comes from workloads that left before
			if !slices.Contains(x.awaitedBy, p) && ad.related(p, x) {
				ad.await(p, x)
			}
		}
	}
	ad.turns.given(w)
	why.Victims = int32(p.pendingVictims) //nolint:gosec // few
	ad.reservations = append(ad.reservations, p)
	g.queue.reserved = append(g.queue.reserved, w)
	if g.queue.strict() {
		ad.pending.mentionAll(g.queue)
	}
	ad.turns.rehead(g.queue)
	if p.relocates { // it is to be written anew, be it for the same reason
		ad.draft.tell(w, &why)
		return
	}
	ad.draft.report(w, &why)
}

// bookReservation books what is reserved for a workload.
func (ad *admissions) bookReservation(w *workload) {
	w.Queue = ad.queueNamed(w.admission.Queue).node
	ad.measure(w)
	ad.ledger.Promise(&w.Allocation)
}

// sparedFor lists what victims of w must spare: w itself and those w must spare.
func (ad *admissions) sparedFor(w *workload) []core.Key {
	return ad.stillKnown(append(slices.Clone(w.spare), w.Key))
}

// spare makes a victim spare some more.
func (ad *admissions) spare(victim *workload, keys []core.Key) {
	if i, own := slices.BinarySearchFunc(keys, victim.Key, core.Key.Compare); own {
		keys = slices.Delete(slices.Clone(keys), i, i+1)
	}
	if slices.Equal(keys, victim.spare) {
		return // it was evicted for the same before
	}
	if len(victim.spare) > 0 { // else victims share the list, which does not change
		all := append(slices.Clone(keys), victim.spare...)
		keys = ad.stillKnown(slices.DeleteFunc(all, func(k core.Key) bool { return k == victim.Key }))
	}
	victim.spare, victim.spareKey = keys, ""
}

// stillKnown sorts keys and leaves out those of workloads that are gone.
func (ad *admissions) stillKnown(keys []core.Key) []core.Key {
	keys = slices.DeleteFunc(keys, func(k core.Key) bool { return ad.workloads[k] == nil })
	slices.SortFunc(keys, core.Key.Compare)
	return slices.Compact(keys)
}

func (ad *admissions) await(p *reservation, x *workload) {
	p.pendingVictims++
	x.awaitedBy = append(x.awaitedBy, p)
}

// coveredBy reports whether the plan would fit now if only those were gone that
// it waits for so far.
func (ad *admissions) coveredBy(p *reservation) bool {
	return ad.ledger.Try(core.Current, p.workload.Queue, func(t *ledger.Trial) bool {
		for _, x := range ad.leaving {
			if slices.Contains(x.awaitedBy, p) {
				t.Without(&x.Allocation)
			}
		}
		return ad.fitsNow(p.workload)
	})
}

// fitsNow reports whether what is reserved for a workload is free at this moment.
func (ad *admissions) fitsNow(w *workload) bool { return ad.ledger.Fits(core.Current, &w.Allocation) }

// related reports whether a leaving workload holds quota of the same tree, or
// nodes that were reserved.
func (ad *admissions) related(p *reservation, x *workload) bool {
	if x.Queue.Root() == p.workload.Queue.Root() {
		return true
	}
	return slices.ContainsFunc(p.workload.Holds, func(h place.Hold) bool {
		return slices.Contains(h.Node.Users(), x.ID)
	})
}

// admitReserved admits those whose victims are gone, and drops reservations that do not
// hold any more. One that has everything and waits for pods of others only keeps
// it if another was evicted for it: that must not be in vain. Others go back to their
// queue, as if they had come now: a reservation would keep what is free from workloads that
// come before them.
func (ad *admissions) admitReserved() {
	ad.checkRelocations()
	for _, p := range slices.Clone(ad.reservations) {
		w := p.workload
		if !ad.stillFits(w) {
			ad.withdraw(w)
			ad.pending.enter(w)
			continue
		}
		if p.pendingVictims > 0 || !ad.fitsNow(w) {
			if w.reported == nil { // it was relocated, and others have not left yet
				ad.draft.report(w, &core.Reason{
					Code: core.WaitingForPreempted, Queue: w.admission.Queue,
					Victims: int32(p.pendingVictims), //nolint:gosec // few
				})
			}
			continue
		}
		if ad.unready > 0 {
			if !p.evicted {
				ad.withdraw(w)
				ad.pending.enter(w)
				continue
			}
			ad.draft.report(w, podsReady(ad.byNode[w.Queue.ID]))
			continue
		}
		ad.endReservation(p)
		ad.ledger.Release(&w.Allocation)
		ad.start(w, reserved)
		ad.pending.rechecks.whenSeen(w.Queue) // workloads that could not take the reservation may evict its owner
		ad.draft.decide(core.Admit{Key: w.Key, Admission: *w.admission})
	}
}

// placeless reports whether pods of an admission have no place although their
// flavors give one: the first node appeared after the plan was made.
func (ad *admissions) placeless(w *workload) bool {
	q := ad.byNode[w.Queue.ID].spec
	if q == nil {
		return false // nothing is admitted there any more
	}
	for i := range w.admission.PodSets {
		p := &w.admission.PodSets[i]
		names := p.FlavorNames()
		if p.Count > 0 && len(p.Places) == 0 && len(names) > 0 &&
			!slices.ContainsFunc(names, func(f string) bool { return !ad.looksForNodes(q, f) }) {
			return true
		}
	}
	return false
}

// stillFits reports whether a reservation fits account Projected: it does not when quota
// was cut, a node was lost, something was admitted past the engine, or nodes
// appeared where there were none, be it in a domain over which its pods have to spread.
func (ad *admissions) stillFits(w *workload) bool {
	return !ad.placeless(w) && !ad.nodes.Uneven(w.Holds) && ad.ledger.StillFits(core.Projected, &w.Allocation)
}

// endReservation takes a reservation off all lists; its bookings stay.
func (ad *admissions) endReservation(p *reservation) {
	w := p.workload
	w.reservation = nil
	ad.reservations = slices.DeleteFunc(ad.reservations, func(x *reservation) bool { return x == p })
	for _, x := range ad.leaving {
		x.awaitedBy = slices.DeleteFunc(x.awaitedBy, func(o *reservation) bool { return o == p })
	}
	q := ad.byNode[w.Queue.ID]
	q.reserved = slices.DeleteFunc(q.reserved, func(x *workload) bool { return x == w })
	ad.turns.rehead(q)
}

// dropReservation gives back what was held for a workload.
func (ad *admissions) dropReservation(p *reservation) {
	w := p.workload
	ad.endReservation(p)
	ad.pending.free(w.Queue, len(w.Holds) > 0)
	ad.ledger.Release(&w.Allocation)
	w.plan(nil)
	ad.count(w, reserved)
}

// withdraw takes a waiting or reserved workload out of wherever it waits.
func (ad *admissions) withdraw(w *workload) {
	w.inbox = false
	if w.timer != nil {
		ad.pending.timers.Remove(w.timer)
		w.timer = nil
	}
	if w.reservation != nil {
		ad.dropReservation(w.reservation)
	}
	if g := w.group; g != nil {
		ad.pending.depart(w, g)
	}
}
