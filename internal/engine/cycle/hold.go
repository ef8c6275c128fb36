package cycle

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/place"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// setPhase moves a workload to another phase and keeps the counts.
func (e *Engine) setPhase(w *workload, p phase) {
	e.changes++
	w.localQueue.counts[w.phase]--
	w.phase = p
	w.localQueue.counts[p]++
	if p == waiting {
		w.obs.admitted, w.obs.ready = false, false
	}
	e.countReady(w)
}

func withRoot(list []*quota.Node, n *quota.Node) []*quota.Node {
	if slices.Contains(list, n.Root()) {
		return list
	}
	return append(list, n.Root())
}

// hold books what a running or leaving workload's admission gives it.
func (e *Engine) hold(w *workload) {
	e.changes++
	q := e.queueNamed(w.admission.Queue)
	w.Queue = q.node
	w.Stands = w.localQueue.stands
	e.measure(w)
	q.reserving++
	if w.phase == leaving {
		e.books.Leave(&w.Allocation)
		q.evicting++
		return
	}
	e.books.Hold(&w.Allocation)
	e.search.Add(&w.Candidate)
	e.lend(w)
}

// lend notes that somebody borrows more now, which may be reclaimed. With fair sharing
// whom somebody may evict depends on all that is used in the tree, even by its own
// queue within its quota: a larger share leads the search for victims elsewhere.
func (e *Engine) lend(w *workload) {
	if e.opt.FairSharing != nil || e.forest.Dirty() || w.Queue.Borrows(w.Uses) {
		e.lent = withRoot(e.lent, w.Queue)
	}
}

// unhold takes off the books what hold put there.
func (e *Engine) unhold(w *workload) {
	e.changes++
	q := e.byNode[w.Queue.ID]
	q.reserving--
	if w.phase == leaving {
		q.evicting--
	} else {
		e.search.Remove(&w.Candidate)
	}
	e.free(w.Queue, len(w.Holds) > 0)
	e.books.Release(&w.Allocation)
}

// free notes that quota of a tree, and perhaps nodes, came free.
func (e *Engine) free(n *quota.Node, nodes bool) {
	e.freed = withRoot(e.freed, n)
	e.nodesFreed = e.nodesFreed || nodes
}

// leave turns a running workload into one that was evicted and still holds.
func (e *Engine) leave(w *workload) {
	e.search.Remove(&w.Candidate)
	e.books.Leave(&w.Allocation)
	e.setPhase(w, leaving)
	e.byNode[w.Queue.ID].evicting++
	e.leaving = append(e.leaving, w)
	e.free(w.Queue, len(w.Holds) > 0) // what it leaves can be reserved
}

// stay undoes leave: the eviction was not carried out. Who counted on it is
// decided again.
func (e *Engine) stay(w *workload) {
	e.setPhase(w, running)
	w.Stands = w.localQueue.stands // it may have come or gone meanwhile
	e.byNode[w.Queue.ID].evicting--
	e.books.Stay(&w.Allocation)
	e.search.Add(&w.Candidate)
	e.lendSeen(w)
	e.noLongerAwaited(w)
	e.checkPlaces(w)
}

// lendSeen notes, with fair sharing, that a workload counts where shares do.
func (e *Engine) lendSeen(w *workload) {
	if w.Seen() {
		e.lent = withRoot(e.lent, w.Queue)
	}
}

// release ends an admission: the workload waits again.
func (e *Engine) release(w *workload) {
	e.unhold(w)
	e.unexpect(w)
	e.discharge(w, withdrawn)
	e.noLongerAwaited(w)
	w.admission, w.assumed, w.ordered, w.told = nil, false, false, nil
	w.applied, w.moved, w.Unseen = 0, false, false
	e.setPhase(w, waiting)
	e.enter(w)
}

// noLongerAwaited tells reservations that a workload they waited for is out of the way.
func (e *Engine) noLongerAwaited(w *workload) {
	for _, p := range w.awaitedBy {
		p.pendingVictims--
	}
	w.awaitedBy = nil
	if i := slices.Index(e.leaving, w); i >= 0 {
		e.leaving = slices.Delete(e.leaving, i, i+1)
	}
}

// measure finds what a workload's admission uses and holds. Jobs of an equivalence class are
// mostly admitted alike, so the equivalence class remembers what its last admission came to.
func (e *Engine) measure(w *workload) {
	s := w.equivalence
	if s.last == nil || !alike(s.last, w.admission) {
		s.last, s.uses, s.kinds = w.admission, e.usesOf(w), make([]*place.Class, len(w.admission.PodSets))
	}
	w.Uses, w.Holds = s.uses, e.holdsOf(w)
}

// alike reports whether two admissions of an equivalence class differ in nothing but queue and
// places.
func alike(a, b *core.Admission) bool {
	return slices.EqualFunc(a.PodSets, b.PodSets, func(x, y core.PodSetAdmission) bool {
		return x.Name == y.Name && x.Count == y.Count && slices.Equal(x.Flavors, y.Flavors) && slices.Equal(x.Usage, y.Usage)
	})
}

// usesOf is what an admission counts against quota: what it was given, scaled
// down to the pods that still have to run.
func (e *Engine) usesOf(w *workload) []quota.Use {
	var uses []quota.Use
	for _, p := range w.admission.PodSets {
		left := p.Count
		if s := w.equivalence.podSet(p.Name); s >= 0 {
			left = min(left, w.equivalence.podSets[s].Count)
		}
		uses = slices.Grow(uses, len(p.Usage))
		for _, u := range p.Usage {
			amount := u.Amount
			if left < p.Count {
				amount = amount / core.Amount(p.Count) * core.Amount(left)
			}
			flavor := p.FlavorOf(u.Resource)
			if flavor == "" || amount == 0 {
				continue
			}
			uses = addUse(uses, quota.Use{Pair: e.forest.FlavorResource(flavor, u.Resource), Amount: amount})
		}
	}
	return uses
}

func addUse(uses []quota.Use, u quota.Use) []quota.Use {
	for i := range uses {
		if uses[i].Pair == u.Pair {
			uses[i].Amount = uses[i].Amount.Add(u.Amount)
			return uses
		}
	}
	return append(uses, u)
}

// holdsOf is what an admission takes of nodes, less where pods have ended.
func (e *Engine) holdsOf(w *workload) []place.Hold {
	var holds []place.Hold
	ended := w.obs.details().ended
	for i := range w.admission.PodSets {
		p := &w.admission.PodSets[i]
		set := w.equivalence.podSet(p.Name)
		if set < 0 || len(p.Places) == 0 {
			continue
		}
		class := w.equivalence.kinds[i]
		if class == nil {
			class = e.class(w.equivalence, set, p.FlavorNames())
			w.equivalence.kinds[i] = class
		}
		holds = slices.Grow(holds, len(p.Places))
		for _, pl := range p.Places {
			if n := pl.Count - podsAt(ended, p.Name, pl.Node); n > 0 {
				holds = append(holds, place.Hold{Node: e.nodes.Node(pl.Node), Class: class, Count: n})
			}
		}
	}
	return holds
}

// podsAt is how many pods of a pod set are listed on a node.
func podsAt(sets []core.PodSetPlaces, set, node string) int32 {
	for _, s := range sets {
		if s.Name != set {
			continue
		}
		for _, p := range s.Places {
			if p.Node == node {
				return p.Count
			}
		}
	}
	return 0
}

// podSet returns the index of the named pod set, -1 if there is none.
func (s *equivalence) podSet(name string) int {
	return slices.IndexFunc(s.podSets, func(p core.PodSet) bool { return p.Name == name })
}
