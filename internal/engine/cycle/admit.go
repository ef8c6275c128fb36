package cycle

import (
	"cmp"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/ledger"
	"github.com/mlbatch/mlbatch/internal/engine/place"
)

// admit gives a workload its quota and nodes now.
func (ad *admissions) admit(w *workload, v *verdict) {
	w.plan(ad.admission(w.group, v))
	free := ad.unready == 0
	ad.pending.depart(w, w.group)
	ad.start(w, waiting)
	ad.turns.given(w)
	if free && ad.unready > 0 {
		// A workload that would have been admitted leaves its turn to the next of its queue,
		// which may evict.
		reheadAll(ad.turns)
	}
	ad.draft.decide(core.Admit{Key: w.Key, Admission: *w.admission})
}

// start gives a workload what its admission says, which was not seen yet. It counts in
// another state until now.
func (ad *admissions) start(w *workload, before ledger.AllocationState) {
	w.Reserved = ad.now.Unix()
	ad.draft.admits(w)
	w.give()
	ad.addUsage(w, running)
	ad.count(w, before)
	ad.expect(w)
	ad.history.charge(w)
}

// evict orders a running workload to give up what it holds.
func (ad *admissions) evict(w *workload, reason core.EvictReason, beneficiary *workload) {
	d := core.Evict{Key: w.Key, Reason: reason, Next: w.elsewhere()}
	if reason == core.NodeFailures {
		d.Failed = ad.failedNodes(w)
	}
	if beneficiary != nil {
		d.For, d.ForUID = beneficiary.Key, beneficiary.UID
		d.Why = core.Reason{
			Code:  core.WaitingForPreempted,
			Queue: ad.byNode[beneficiary.Queue.ID].name,
			Tree:  beneficiary.Queue.CohortName(),
			Ahead: beneficiary.Key,
		}
		d.Lost = lostWork(w, leastLost(ad.byNode[beneficiary.Queue.ID]), ad.now.Unix())
	}
	w.orderEviction()
	ad.leave(w)
	ad.draft.decide(d)
}

// lostWork is what a workload loses that is evicted for another, whose queue counts so much of it; nil if it counts none.
func lostWork(w *workload, most, now int64) *core.LostWork {
	if most == 0 || w.Interrupted {
		return nil
	}
	since, saved := w.Since()
	return &core.LostWork{
		Since: time.Unix(since, 0).UTC(), Saved: saved, For: seconds(now - since),
		Counted: seconds(w.Counted(now, most)),
	}
}

// leastLost is how much of what victims lose counts when a queue chooses them, in seconds; 0 for nothing.
func leastLost(q *queue) int64 {
	if q.spec == nil {
		return 0
	}
	return int64(max(0, q.spec.Preemption.LeastLost) / time.Second)
}

func seconds(n int64) time.Duration { return time.Duration(max(0, n)) * time.Second }

// admission spells out what a verdict gives.
func (ad *admissions) admission(g *group, v *verdict) *core.Admission {
	p := v.plan
	a := &core.Admission{Queue: g.queue.name, PodSets: make([]core.PodSetAdmission, len(g.equivalence.podSets))}
	for i := range g.equivalence.podSets {
		set := &g.equivalence.podSets[i]
		out := &a.PodSets[i]
		out.Name, out.Count = set.Name, p.counts[i]
		n := 0
		for _, k := range p.asks[i] {
			n += len(p.Requests[k].Options[v.assigned.Chosen[k]].Uses)
		}
		out.Flavors = make([]core.FlavorChoice, 0, n)
		out.Usage = make(core.Resources, 0, n)
		for _, k := range p.asks[i] {
			for _, u := range p.Requests[k].Options[v.assigned.Chosen[k]].Uses {
				fr := ad.forest.Name(u.Pair)
				out.Flavors = append(out.Flavors, core.FlavorChoice{Resource: fr.Resource, Flavor: fr.Flavor})
				out.Usage = append(out.Usage, core.Quantity{Resource: fr.Resource, Amount: u.Amount})
			}
		}
		if len(p.asks[i]) > 1 {
			slices.SortFunc(
				out.Flavors,
				func(a, b core.FlavorChoice) int { return cmp.Compare(a.Resource, b.Resource) },
			)
			slices.SortFunc(out.Usage, func(a, b core.Quantity) int { return cmp.Compare(a.Resource, b.Resource) })
		}
	}
	for s, spots := range v.spots {
		a.PodSets[v.sets[s].Index].Places = places(spots)
	}
	return a
}

func places(spots []place.Spot) []core.Place {
	out := make([]core.Place, len(spots))
	for i, s := range spots {
		out[i] = core.Place{Node: s.Node.Name(), Count: s.Count}
	}
	return out
}
