package cycle_test

import (
	"github.com/mlbatch/mlbatch/internal/core"
)

// blockedByReservation reports whether some of the uses must be borrowed out of what first
// workloads of StrictFIFO queues reserve, were the ones in g gone.
func (r *reference) blockedByReservation(w *refWorkload, uses map[fr]core.Amount, g gone) bool {
	me := refNode{w.queue, true}
	for x, v := range uses {
		if !r.borrows(me, x, v, g) {
			continue
		}
		before := len(r.workloads)
		for _, name := range sortedKeys(r.queues) {
			b := r.reservingHead(name)
			if b == nil || name == w.queue || r.root(name) != r.root(w.queue) {
				continue
			}
			kept, over := r.headReservation(b)
			if !r.holdsUp(b, over, w) {
				continue
			}
			nominal, _, _ := r.quota(refNode{name, true}, x)
			amount := min(kept[x], nominal-r.usage(refNode{name, true}, x, core.Projected, g))
			if amount <= 0 {
				continue
			}
			// A reservation counts like a workload that runs.
			r.workloads[core.Key{Namespace: "reservation of", Name: name}] = &refWorkload{
				phase:  refRunning,
				unseen: true,
				adm: &core.Admission{
					Queue: name, PodSets: []core.PodSetAdmission{{
						Flavors: []core.FlavorChoice{{Resource: x.Resource, Flavor: x.Flavor}},
						Usage:   core.Resources{{Resource: x.Resource, Amount: amount}},
					}},
				},
			}
		}
		room := r.room(w.queue, x, core.Projected, g)
		if len(r.workloads) > before {
			for _, name := range sortedKeys(r.queues) {
				delete(r.workloads, core.Key{Namespace: "reservation of", Name: name})
			}
		}
		if v > room {
			r.held[w.Key] = true
			return true
		}
	}
	return false
}

// reservingHead is the workload for which a queue reserves quota.
func (r *reference) reservingHead(queue string) *refWorkload {
	q := r.queues[queue]
	if q.Strategy != core.StrictFIFO || q.Preemption.Reclaim == core.PreemptAny || q.Cohort == "" ||
		q.Stop == core.Hold ||
		q.Stop == core.HoldAndDrain {
		return nil
	}
	for _, w := range r.inQueue(queue) {
		switch w.phase {
		case refReserved:
			return nil
		case refWaiting:
			return w
		case refRunning, refLeaving: // none waits on their account
		}
	}
	return nil
}

// headReservation is what is reserved for a first workload: all it asks for, from the first flavors whose
// nominal quota and nodes could hold it; nothing if there are none, or if the
// nodes could not hold all pods together.
// A workload that fits no nominal quota counts on flavors of which its queue may
// take back more than its own.
func (r *reference) headReservation(w *refWorkload) (sum map[fr]core.Amount, over bool) {
	asks, ok := r.asks(w)
	if !ok {
		return nil, false
	}
	flavors := make([][]string, len(w.PodSets))
	sum = map[fr]core.Amount{}
	for _, ask := range asks {
		found := -1
		for o := range ask.flavors {
			if found < 0 && !ask.bad[o] && r.withinNominal(w, ask, o, sum) {
				found = o
			}
		}
		for o := range ask.flavors {
			if found < 0 && !ask.bad[o] && r.retrievable(w, ask, o, sum) {
				found, over = o, true
			}
		}
		if found < 0 {
			return nil, false
		}
		for x, v := range ask.need[found] {
			sum[x] += v
		}
		flavors[ask.set] = append(flavors[ask.set], ask.flavors[found])
	}
	var sets []refSet
	for i := range w.PodSets {
		if s, seen := r.set(w, i, flavors[i]); seen {
			sets = append(sets, s)
		}
	}
	if !r.possible(sets) {
		return nil, false
	}
	return sum, over
}

// holdsUp reports whether what is reserved for b is kept from w: not if b could evict w
// again, and, if b is larger than the nominal quota, only if w comes after it.
func (r *reference) holdsUp( //nolint:revive // it is what headReservation says
	b *refWorkload,
	over bool,
	w *refWorkload,
) bool {
	p := r.queues[b.queue].Preemption
	if !over {
		return p.Reclaim != core.PreemptLowerPriority || w.Priority >= b.Priority
	}
	reclaims := allowsPolicy(p.WhileBorrow) && w.Priority < b.Priority &&
		(p.MaxPriority == nil || w.Priority <= int64(*p.MaxPriority))
	return refOrder(b, w) < 0 && !reclaims
}

// retrievable reports whether a queue may ever take back enough for a flavor that
// its nominal quota does not hold.
func (r *reference) retrievable(w *refWorkload, ask refAsk, o int, sum map[fr]core.Amount) bool {
	for x, v := range ask.need[o] {
		v += sum[x]
		n := refNode{w.queue, true}
		if r.fair != nil || v > r.limit(n, x) {
			return false
		}
		found := allowsPolicy(r.queues[w.queue].Preemption.WhileBorrow)
		rest := v - r.local(n, x)
		for n, _ = r.parent(n); !found; {
			up, more := r.parent(n)
			if !more {
				return false
			}
			found = rest <= r.subtree(n, x)
			rest -= r.local(n, x)
			n = up
		}
	}
	return r.couldHold(w, ask, o)
}

func (r *reference) couldHold(w *refWorkload, ask refAsk, o int) bool {
	s, seen := r.set(w, ask.set, ask.flavors[o:o+1])
	return !seen || r.gradeNodes(r.queues[w.queue], s) != mNoFit
}

// possible reports whether the nodes there are could hold the sets together, if
// they were empty and in service.
func (r *reference) possible(sets []refSet) bool {
	r.bare = true
	_, ok := r.place(sets, []core.Account{core.Current}, nil)
	r.bare = false
	return ok
}

func (r *reference) withinNominal(w *refWorkload, ask refAsk, o int, sum map[fr]core.Amount) bool {
	for x, v := range ask.need[o] {
		nominal, _, _ := r.quota(refNode{w.queue, true}, x)
		if v+sum[x] > nominal {
			return false
		}
	}
	return r.couldHold(w, ask, o)
}

// headReservationEnds looks again at what was refused for head reservations, once a queue that reserves
// has admitted its first workload.
func (r *reference) headReservationEnds(w *refWorkload) {
	q := r.queues[w.queue]
	if q.Strategy != core.StrictFIFO || q.Preemption.Reclaim == core.PreemptAny || q.Cohort == "" {
		return
	}
	for k := range r.held {
		delete(r.refused, k)
	}
	clear(r.held)
}
