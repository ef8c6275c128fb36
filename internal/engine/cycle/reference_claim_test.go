package cycle_test

import (
	"github.com/mlbatch/mlbatch/internal/core"
)

// contested reports whether some of the uses must be borrowed out of what first
// workloads of StrictFIFO queues claim, were the ones in g gone.
func (r *reference) contested(w *refWork, uses map[fr]core.Amount, g gone) bool {
	me := refNode{w.queue, true}
	for x, v := range uses {
		if !r.borrows(me, x, v, g) {
			continue
		}
		before := len(r.works)
		for _, name := range sortedKeys(r.queues) {
			b := r.claimant(name)
			if b == nil || name == w.queue || r.root(name) != r.root(w.queue) {
				continue
			}
			if r.queues[name].Preemption.Reclaim == core.PreemptLowerPriority && w.Priority < b.Priority {
				continue
			}
			nominal, _, _ := r.quota(refNode{name, true}, x)
			amount := min(r.claim(b)[x], nominal-r.usage(refNode{name, true}, x, core.Then, g))
			if amount <= 0 {
				continue
			}
			// A claim counts like a workload that runs.
			r.works[core.Key{Namespace: "claim of", Name: name}] = &refWork{phase: refRunning, unseen: true, adm: &core.Admission{
				Queue: name, PodSets: []core.PodSetAdmission{{
					Flavors: []core.FlavorChoice{{Resource: x.Resource, Flavor: x.Flavor}},
					Usage:   core.Resources{{Resource: x.Resource, Amount: amount}},
				}},
			}}
		}
		room := r.room(w.queue, x, core.Then, g)
		if len(r.works) > before {
			for _, name := range sortedKeys(r.queues) {
				delete(r.works, core.Key{Namespace: "claim of", Name: name})
			}
		}
		if v > room {
			r.held[w.Key] = true
			return true
		}
	}
	return false
}

// claimant is the workload for which a queue claims quota.
func (r *reference) claimant(queue string) *refWork {
	q := r.queues[queue]
	if q.Strategy != core.StrictFIFO || q.Preemption.Reclaim == core.PreemptAny || q.Cohort == "" || q.Stop == core.Hold || q.Stop == core.HoldAndDrain {
		return nil
	}
	for _, w := range r.inQueue(queue) {
		switch w.phase {
		case refPromised:
			return nil
		case refWaiting:
			return w
		case refRunning, refLeaving: // nobody waits on their account
		}
	}
	return nil
}

// claim is what a first workload claims: all it asks for, from the first flavors whose
// nominal quota and nodes could hold it; nothing if there are none, or if the
// nodes could not hold all pods together.
func (r *reference) claim(w *refWork) map[fr]core.Amount {
	asks, ok := r.asks(w)
	if !ok {
		return nil
	}
	flavors := make([][]string, len(w.PodSets))
	sum := map[fr]core.Amount{}
	for _, ask := range asks {
		found := false
		for o := range ask.flavors {
			if found = !ask.bad[o] && r.withinNominal(w, ask, o, sum); !found {
				continue
			}
			for x, v := range ask.need[o] {
				sum[x] += v
			}
			flavors[ask.set] = append(flavors[ask.set], ask.flavors[o])
			break
		}
		if !found {
			return nil
		}
	}
	var sets []refSet
	for i := range w.PodSets {
		if s, seen := r.set(w, i, flavors[i]); seen {
			sets = append(sets, s)
		}
	}
	if !r.possible(sets) {
		return nil
	}
	return sum
}

// possible reports whether the nodes there are could hold the sets together, if
// they were empty and in service.
func (r *reference) possible(sets []refSet) bool {
	r.bare = true
	_, ok := r.place(sets, []core.Ledger{core.Now}, nil)
	r.bare = false
	return ok
}

func (r *reference) withinNominal(w *refWork, ask refAsk, o int, sum map[fr]core.Amount) bool {
	for x, v := range ask.need[o] {
		nominal, _, _ := r.quota(refNode{w.queue, true}, x)
		if v+sum[x] > nominal {
			return false
		}
	}
	s, seen := r.set(w, ask.set, ask.flavors[o:o+1])
	return !seen || r.gradeNodes(r.queues[w.queue], s) != mNoFit
}

// claimEnds looks again at who was refused for claims, once a queue that claims
// has admitted its first workload.
func (r *reference) claimEnds(w *refWork) {
	q := r.queues[w.queue]
	if q.Strategy != core.StrictFIFO || q.Preemption.Reclaim == core.PreemptAny || q.Cohort == "" {
		return
	}
	for k := range r.held {
		delete(r.refused, k)
	}
	clear(r.held)
}
