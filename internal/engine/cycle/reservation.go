package cycle

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/ledger"
	"github.com/mlbatch/mlbatch/internal/engine/place"
)

// reservation is a complete plan, quota and nodes, held for a workload until those
// that must first go are gone. It is booked in account Projected, so that nobody,
// least of all a victim, can take it; that makes loops impossible. It ends when
// it is carried out, when the workload leaves, or when it does not fit any more.
type reservation struct {
	workload *workload
	// pendingVictims counts workloads that must be gone before it is carried out.
	pendingVictims int
	// evicted says that some of them were evicted for it. Else it counts on those who
	// left anyway.
	evicted bool
}

// reserve evicts the victims of a verdict and holds the plan for the workload.
func (e *Engine) reserve(w *workload, v verdict) {
	g := w.group
	w.admission = e.admission(g, v)
	e.depart(w, g)
	e.setPhase(w, reserved)
	w.Queue = g.queue.node
	p := &reservation{workload: w, evicted: len(v.victims) > 0}
	w.reservation = p
	why := *v.why
	spared := e.sparedFor(w)
	e.plan = slices.Grow(e.plan, len(v.victims))
	for _, victim := range v.victims {
		x := e.byID[victim.ID]
		e.spare(x, spared)
		e.evict(x, victim.Reason, w)
		e.await(p, x)
	}
	e.bookReservation(w)
	e.lend(w)
	if len(e.leaving) > len(v.victims) && !e.coveredBy(p) {
		for _, x := range e.leaving { // some of what it counts on comes from those that left before
			if !slices.Contains(x.awaitedBy, p) && e.related(p, x) {
				e.await(p, x)
			}
		}
	}
	e.unsettle(w)
	why.Victims = int32(p.pendingVictims) //nolint:gosec // few
	e.reservations = append(e.reservations, p)
	g.queue.reserved = append(g.queue.reserved, w)
	if g.queue.strict() {
		e.mentionAll(g.queue)
	}
	e.rehead(g.queue)
	e.say(w, &why)
}

// bookReservation books what is reserved for a workload.
func (e *Engine) bookReservation(w *workload) {
	w.Queue = e.queueNamed(w.admission.Queue).node
	e.measure(w)
	e.books.Promise(&w.Allocation)
}

// sparedFor lists whom victims of w must spare: w itself and whom w must spare.
func (e *Engine) sparedFor(w *workload) []core.Key {
	return e.stillKnown(append(slices.Clone(w.spare), w.Key))
}

// spare makes a victim spare some more.
func (e *Engine) spare(victim *workload, keys []core.Key) {
	if i, own := slices.BinarySearchFunc(keys, victim.Key, core.Key.Compare); own {
		keys = slices.Delete(slices.Clone(keys), i, i+1)
	}
	if slices.Equal(keys, victim.spare) {
		return // it was evicted for the same before
	}
	if len(victim.spare) > 0 { // else victims share the list, which nobody changes
		all := append(slices.Clone(keys), victim.spare...)
		keys = e.stillKnown(slices.DeleteFunc(all, func(k core.Key) bool { return k == victim.Key }))
	}
	victim.spare, victim.spareKey = keys, ""
}

// stillKnown sorts keys and leaves out those of workloads that are gone.
func (e *Engine) stillKnown(keys []core.Key) []core.Key {
	keys = slices.DeleteFunc(keys, func(k core.Key) bool { return e.workloads[k] == nil })
	slices.SortFunc(keys, core.Key.Compare)
	return slices.Compact(keys)
}

func (e *Engine) await(p *reservation, x *workload) {
	p.pendingVictims++
	x.awaitedBy = append(x.awaitedBy, p)
}

// coveredBy reports whether the plan would fit now if only those were gone that
// it waits for so far.
func (e *Engine) coveredBy(p *reservation) bool {
	return e.books.Try(core.Current, p.workload.Queue, func(t *ledger.Trial) bool {
		for _, x := range e.leaving {
			if slices.Contains(x.awaitedBy, p) {
				t.Without(&x.Allocation)
			}
		}
		return e.fitsNow(p.workload)
	})
}

// fitsNow reports whether what is reserved for a workload is free at this moment.
func (e *Engine) fitsNow(w *workload) bool { return e.books.Fits(core.Current, &w.Allocation) }

// related reports whether a leaving workload holds quota of the same tree, or
// nodes that were reserved.
func (e *Engine) related(p *reservation, x *workload) bool {
	if x.Queue.Root() == p.workload.Queue.Root() {
		return true
	}
	return slices.ContainsFunc(p.workload.Holds, func(h place.Hold) bool {
		return slices.Contains(h.Node.Users(), x.ID)
	})
}

// admitReserved admits those whose victims are gone, and drops reservations that do not
// hold any more. Who has everything and waits for pods of others only keeps it if
// somebody was evicted for it: that must not be in vain. Others go back to their
// queue, as if they had come now: a reservation would keep what is free from those who
// come before them.
func (e *Engine) admitReserved() {
	for _, p := range slices.Clone(e.reservations) {
		w := p.workload
		if !e.stillFits(w) {
			e.withdraw(w)
			e.enter(w)
			continue
		}
		if p.pendingVictims > 0 || !e.fitsNow(w) {
			continue
		}
		if e.unready > 0 {
			if !p.evicted {
				e.withdraw(w)
				e.enter(w)
				continue
			}
			e.say(w, podsReady(e.byNode[w.Queue.ID]))
			continue
		}
		e.endReservation(p)
		e.books.Release(&w.Allocation)
		e.start(w)
		e.recheck[w.Queue.Root()] = true // those who could not take the reservation may evict its owner
		e.plan = append(e.plan, core.Admit{Key: w.Key, Admission: *w.admission})
	}
}

// placeless reports whether pods of an admission have no place although their
// flavors give one: the first node appeared after the plan was made.
func (e *Engine) placeless(w *workload) bool {
	q := e.byNode[w.Queue.ID].spec
	if q == nil {
		return false // nothing is admitted there any more
	}
	for i := range w.admission.PodSets {
		p := &w.admission.PodSets[i]
		names := p.FlavorNames()
		if p.Count > 0 && len(p.Places) == 0 && len(names) > 0 && !slices.ContainsFunc(names, func(f string) bool { return !e.looksForNodes(q, f) }) {
			return true
		}
	}
	return false
}

// stillFits reports whether a reservation fits account Projected: it does not when quota
// was cut, a node was lost, something was admitted past the engine, or nodes
// appeared where there were none.
func (e *Engine) stillFits(w *workload) bool {
	return !e.placeless(w) && e.books.StillFits(core.Projected, &w.Allocation)
}

// endReservation takes a reservation off all lists; its bookings stay.
func (e *Engine) endReservation(p *reservation) {
	w := p.workload
	w.reservation = nil
	e.reservations = slices.DeleteFunc(e.reservations, func(x *reservation) bool { return x == p })
	for _, x := range e.leaving {
		x.awaitedBy = slices.DeleteFunc(x.awaitedBy, func(o *reservation) bool { return o == p })
	}
	q := e.byNode[w.Queue.ID]
	q.reserved = slices.DeleteFunc(q.reserved, func(x *workload) bool { return x == w })
	e.rehead(q)
}

// dropReservation gives back what was held for a workload.
func (e *Engine) dropReservation(p *reservation) {
	w := p.workload
	e.endReservation(p)
	e.free(w.Queue, len(w.Holds) > 0)
	e.books.Release(&w.Allocation)
	w.admission = nil
	e.setPhase(w, waiting)
}
