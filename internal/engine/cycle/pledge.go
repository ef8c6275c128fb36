package cycle

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/ledger"
	"github.com/mlbatch/mlbatch/internal/engine/place"
)

// pledge is a complete plan, quota and nodes, held for a workload until those
// that must first go are gone. It is booked in ledger Then, so that nobody,
// least of all a victim, can take it; that makes loops impossible. It ends when
// it is redeemed, when the workload leaves, or when it does not fit any more.
type pledge struct {
	work *work
	// owing counts workloads that must be gone before it is redeemed.
	owing int
	// evicted says that some of them were evicted for it. Else it counts on those who
	// left anyway.
	evicted bool
}

// pledge evicts the victims of a verdict and holds the plan for the workload.
func (e *Engine) pledge(w *work, v verdict) {
	g := w.group
	w.admission = e.admission(g, v)
	e.depart(w, g)
	e.setPhase(w, promised)
	w.Queue = g.queue.node
	p := &pledge{work: w, evicted: len(v.victims) > 0}
	w.pledge = p
	why := *v.why
	spared := e.sparedFor(w)
	e.plan = slices.Grow(e.plan, len(v.victims))
	for _, victim := range v.victims {
		x := e.byID[victim.ID]
		e.spare(x, spared)
		e.evict(x, victim.Reason, w)
		e.owe(p, x)
	}
	e.bookPromise(w)
	e.lend(w)
	if len(e.leaving) > len(v.victims) && !e.coveredBy(p) {
		for _, x := range e.leaving { // some of what it counts on comes from those that left before
			if !slices.Contains(x.owed, p) && e.related(p, x) {
				e.owe(p, x)
			}
		}
	}
	e.unsettle(w)
	why.Victims = int32(p.owing) //nolint:gosec // few
	e.pledges = append(e.pledges, p)
	g.queue.promised = append(g.queue.promised, w)
	if g.queue.strict() {
		e.mentionAll(g.queue)
	}
	e.rehead(g.queue)
	e.say(w, &why)
}

// bookPromise books what a workload is promised.
func (e *Engine) bookPromise(w *work) {
	w.Queue = e.queueNamed(w.admission.Queue).node
	e.measure(w)
	e.books.Promise(&w.Allocation)
}

// sparedFor lists whom victims of w must spare: w itself and whom w must spare.
func (e *Engine) sparedFor(w *work) []core.Key {
	return e.stillKnown(append(slices.Clone(w.spare), w.Key))
}

// spare makes a victim spare some more.
func (e *Engine) spare(victim *work, keys []core.Key) {
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
	keys = slices.DeleteFunc(keys, func(k core.Key) bool { return e.works[k] == nil })
	slices.SortFunc(keys, core.Key.Compare)
	return slices.Compact(keys)
}

func (e *Engine) owe(p *pledge, x *work) {
	p.owing++
	x.owed = append(x.owed, p)
}

// coveredBy reports whether the plan would fit now if only those were gone that
// it waits for so far.
func (e *Engine) coveredBy(p *pledge) bool {
	return e.books.Try(core.Now, p.work.Queue, func(t *ledger.Trial) bool {
		for _, x := range e.leaving {
			if slices.Contains(x.owed, p) {
				t.Without(&x.Allocation)
			}
		}
		return e.fitsNow(p.work)
	})
}

// fitsNow reports whether what a workload was promised is free at this moment.
func (e *Engine) fitsNow(w *work) bool { return e.books.Fits(core.Now, &w.Allocation) }

// related reports whether a leaving workload holds quota of the same tree, or
// nodes that were promised.
func (e *Engine) related(p *pledge, x *work) bool {
	if x.Queue.Root() == p.work.Queue.Root() {
		return true
	}
	return slices.ContainsFunc(p.work.Holds, func(h place.Hold) bool {
		return slices.Contains(h.Node.Users(), x.ID)
	})
}

// redeem admits those whose victims are gone, and drops pledges that do not
// hold any more. Who has everything and waits for pods of others only keeps it if
// somebody was evicted for it: that must not be in vain. Others go back to their
// queue, as if they had come now: a promise would keep what is free from those who
// come before them.
func (e *Engine) redeem() {
	for _, p := range slices.Clone(e.pledges) {
		w := p.work
		if !e.stillFits(w) {
			e.withdraw(w)
			e.enter(w)
			continue
		}
		if p.owing > 0 || !e.fitsNow(w) {
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
		e.endPledge(p)
		e.books.Release(&w.Allocation)
		e.setPhase(w, running)
		w.Reserved = e.now.Unix()
		e.repeals = e.repeals || w.told != nil
		w.assumed, w.moved, w.Unseen, w.told, w.applied = true, false, true, nil, 0
		e.countReady(w)
		e.expect(w)
		e.hold(w)
		e.charge(w)
		e.recheck[w.Queue.Root()] = true // those who could not take the pledge may evict its owner
		e.plan = append(e.plan, core.Admit{Key: w.Key, Admission: *w.admission})
	}
}

// placeless reports whether pods of an admission have no place although their
// flavors give one: the first node appeared after the plan was made.
func (e *Engine) placeless(w *work) bool {
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

// stillFits reports whether a pledge fits ledger Then: it does not when quota
// was cut, a node was lost, something was admitted past the engine, or nodes
// appeared where there were none.
func (e *Engine) stillFits(w *work) bool {
	return !e.placeless(w) && e.books.StillFits(core.Then, &w.Allocation)
}

// endPledge takes a pledge off all lists; its bookings stay.
func (e *Engine) endPledge(p *pledge) {
	w := p.work
	w.pledge = nil
	e.pledges = slices.DeleteFunc(e.pledges, func(x *pledge) bool { return x == p })
	for _, x := range e.leaving {
		x.owed = slices.DeleteFunc(x.owed, func(o *pledge) bool { return o == p })
	}
	q := e.byNode[w.Queue.ID]
	q.promised = slices.DeleteFunc(q.promised, func(x *work) bool { return x == w })
	e.rehead(q)
}

// dropPledge gives back what was held for a workload.
func (e *Engine) dropPledge(p *pledge) {
	w := p.work
	e.endPledge(p)
	e.free(w.Queue, len(w.Holds) > 0)
	e.books.Release(&w.Allocation)
	w.admission = nil
	e.setPhase(w, waiting)
}
