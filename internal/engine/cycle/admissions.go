package cycle

import (
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/ledger"
	"github.com/mlbatch/mlbatch/internal/engine/place"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// count counts a workload under its state, in which it was not before.
func (ad *admissions) count(w *workload, before ledger.AllocationState) {
	ad.pending.change()
	w.localQueue.counts[before]--
	w.localQueue.counts[w.State()]++
	if w.State() == waiting {
		w.obs.admitted, w.obs.ready = false, false
	}
	w.localQueue.countHeld(w, w.State())
	ad.countReady(w)
}

// addUsage books what a workload's admission gives it while it runs, or leaves.
func (ad *admissions) addUsage(w *workload, as ledger.AllocationState) {
	ad.pending.change()
	q := ad.queueNamed(w.admission.Queue)
	w.Queue = q.node
	w.Stands = w.localQueue.stands
	ad.measure(w)
	q.reserving++
	if as == leaving {
		ad.ledger.Leave(&w.Allocation)
		q.evicting++
		return
	}
	ad.ledger.Hold(&w.Allocation)
	w.Until = ad.until(w)
	ad.judge.search.Add(&w.Candidate)
	ad.lend(w)
}

// lend notes that a queue borrows more now, which may be reclaimed. With fair sharing
// which workloads another may evict depends on all that is used in the tree, even by its own
// queue within its quota: a larger share leads the search for victims elsewhere.
func (ad *admissions) lend(w *workload) {
	if ad.opt.FairSharing != nil || ad.forest.Dirty() || w.Queue.Borrows(w.Uses) {
		ad.pending.lend(w.Queue)
	}
}

// removeUsage takes out of the ledger what hold put there.
func (ad *admissions) removeUsage(w *workload) {
	ad.pending.change()
	q := ad.byNode[w.Queue.ID]
	q.reserving--
	if w.State() == leaving {
		q.evicting--
	} else {
		ad.judge.search.Remove(&w.Candidate)
	}
	ad.pending.free(w.Queue, len(w.Holds) > 0)
	ad.ledger.Release(&w.Allocation)
}

// changeUsage changes what a workload is or holds while that is not in the ledger.
func (ad *admissions) changeUsage(w *workload, change func()) {
	as := w.State()
	ad.removeUsage(w)
	change()
	ad.addUsage(w, as)
}

// leave turns a running workload into one that was evicted and still holds.
func (ad *admissions) leave(w *workload) {
	ad.judge.search.Remove(&w.Candidate)
	w.Interrupted = false
	ad.ledger.Leave(&w.Allocation)
	ad.count(w, running)
	ad.byNode[w.Queue.ID].evicting++
	ad.leaving = append(ad.leaving, w)
	ad.pending.free(w.Queue, len(w.Holds) > 0) // what it leaves can be reserved
}

// cancelEviction undoes leave: the eviction was not carried out. What counted on it is
// decided again.
func (ad *admissions) cancelEviction(w *workload) {
	w.Stands = w.localQueue.stands // it may have come or gone meanwhile
	if w.relocation != nil {
		ad.dropRelocation(w)
		ad.unnoteRelocated(w)
	}
	ad.byNode[w.Queue.ID].evicting--
	ad.ledger.CancelEviction(&w.Allocation)
	ad.count(w, leaving)
	w.Until = ad.until(w)
	ad.judge.search.Add(&w.Candidate)
	ad.lendSeen(w)
	ad.noLongerAwaited(w)
}

// lendSeen notes, with fair sharing, that a workload counts where shares do.
func (ad *admissions) lendSeen(w *workload) {
	if w.Seen() {
		ad.pending.lend(w.Queue)
	}
}

// release ends an admission: the workload waits again.
func (ad *admissions) release(w *workload) {
	before := w.State()
	ad.removeUsage(w)
	w.Interrupted = false
	ad.unexpect(w)
	ad.history.discharge(w, withdrawn)
	ad.noLongerAwaited(w)
	next := w.elsewhere()
	ad.dropRelocation(w)
	w.lose()
	ad.count(w, before)
	if !ad.arrive(w, next) {
		ad.pending.enter(w)
	}
}

// noLongerAwaited tells reservations that a workload they waited for is out of the way.
func (ad *admissions) noLongerAwaited(w *workload) {
	for _, p := range w.awaitedBy {
		p.pendingVictims--
	}
	w.awaitedBy = nil
	if i := slices.Index(ad.leaving, w); i >= 0 {
		ad.leaving = slices.Delete(ad.leaving, i, i+1)
	}
}

// measure finds what a workload's admission uses and holds. Jobs of an equivalence class are
// mostly admitted alike, so the equivalence class remembers what its last admission came to.
func (ad *admissions) measure(w *workload) {
	s := w.equivalence
	if s.last == nil || !alike(s.last, w.admission) {
		s.last, s.uses, s.kinds = w.admission, ad.usesOf(w), make([]*place.Class, len(w.admission.PodSets))
	}
	w.Uses, w.Holds = s.uses, ad.holdsOf(w)
}

// alike reports whether two admissions of an equivalence class differ in nothing but queue and
// places.
func alike(a, b *core.Admission) bool {
	return slices.EqualFunc(a.PodSets, b.PodSets, func(x, y core.PodSetAdmission) bool {
		return x.Name == y.Name && x.Count == y.Count && slices.Equal(x.Flavors, y.Flavors) &&
			slices.Equal(x.Usage, y.Usage)
	})
}

// usesOf is what an admission counts against quota: what it was given, scaled
// down to the pods that still have to run.
func (ad *admissions) usesOf(w *workload) []quota.Use {
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
			uses = addUse(uses, quota.Use{Pair: ad.forest.FlavorResource(flavor, u.Resource), Amount: amount})
		}
	}
	return uses
}

// holdsOf is what an admission takes of nodes, less where pods have ended.
func (ad *admissions) holdsOf(w *workload) []place.Hold {
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
			class = ad.class(w.equivalence, set, p.FlavorNames())
			w.equivalence.kinds[i] = class
		}
		holds = slices.Grow(holds, len(p.Places))
		for _, pl := range p.Places {
			if n := pl.Count - core.PodsAt(ended, p.Name, pl.Node); n > 0 {
				holds = append(holds, place.Hold{Node: ad.nodes.Node(pl.Node), Class: class, Count: n})
			}
		}
	}
	return holds
}

// podSet returns the index of the named pod set, -1 if there is none.
func (s *equivalence) podSet(name string) int {
	return slices.IndexFunc(s.podSets, func(p core.PodSet) bool { return p.Name == name })
}

// confirm notes that an admission decided here was seen in the API.
func (ad *admissions) confirm(w *workload) {
	w.confirm()
	ad.unexpect(w)
	ad.observe(w)
}

// setReservedAt takes over from the API when an admission was made: the write is later than the
// decision. What is evicted first goes by it, and would after a restart.
func (ad *admissions) setReservedAt(w *workload, at time.Time) {
	if at.IsZero() || w.Reserved == at.Unix() {
		return
	}
	if w.State() != running {
		w.Reserved = at.Unix()
		return
	}
	ad.judge.search.Remove(&w.Candidate)
	w.Reserved = at.Unix()
	w.Until = ad.until(w)
	ad.judge.search.Add(&w.Candidate)
	ad.pending.free(w.Queue, false) // in another order, others may be enough
}

// observe notes that an admission is a fact: the workload that has it may be evicted.
func (ad *admissions) observe(w *workload) {
	if !w.Unseen {
		return
	}
	ad.ledger.Observe(&w.Allocation)
	ad.lendSeen(w)
	ad.pending.seen(w.Queue)
}

// adopt accepts an admission that was not decided here, be it above quota. One that leaves
// goes on to.
func (ad *admissions) adopt(w *workload, o *core.Workload) {
	before, as := w.State(), running
	if before == leaving {
		as = leaving
	}
	if before == running || before == leaving {
		ad.removeUsage(w)
	}
	ad.dropRelocation(w)
	w.adopt(o.Admission)
	ad.unexpect(w)
	w.Reserved = o.Reserved.Unix()
	ad.addUsage(w, as)
	ad.count(w, before)
	ad.drainAgain = true
}

// recheckDraining has queues looked at again that are being drained: an admission was observed
// that was not decided here, or in one of them.
func (ad *admissions) recheckDraining() { ad.drainAgain = true }

// forget drops what a decision would look at again.
func (ad *admissions) forget() {
	ad.drainAgain = false
	ad.disinherit()
}
