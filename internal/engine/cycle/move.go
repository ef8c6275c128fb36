package cycle

import (
	"cmp"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/place"
)

// checkPlaces marks a running workload whose pods may be planned on nodes that
// take no work.
func (ad *admissions) checkPlaces(w *workload) {
	if slices.ContainsFunc(w.Holds, func(h place.Hold) bool { return !h.Node.TakesWork() }) {
		ad.displace(w)
	}
}

// move gives pods that are planned on nodes that take no work, and do not run
// there, other places with the same quota. Where there is no room the whole
// workload is evicted: a gang is all or nothing.
func (ad *admissions) move() {
	slices.SortFunc(ad.displaced, compareWorkloads)
	for _, w := range ad.displaced {
		w.listed = false
		if w.State() != running || ad.workloads[w.Key] != w {
			continue
		}
		moved, some := ad.homeless(w)
		if !some {
			continue
		}
		if a, ok := ad.rehouse(w, moved); ok {
			ad.changeUsage(w, func() { w.rehouse(a) })
			ad.draft.decide(core.Replace{Key: w.Key, Admission: *a})
			continue
		}
		ad.evict(w, core.NodeFailures, nil)
	}
	ad.displaced = ad.displaced[:0]
}

// homeless counts, per pod set and place, the pods that have to move.
func (ad *admissions) homeless(w *workload) (moved [][]int32, some bool) {
	moved = make([][]int32, len(w.admission.PodSets))
	settled := w.obs.details().settled
	for i, p := range w.admission.PodSets {
		moved[i] = make([]int32, len(p.Places))
		for j, pl := range p.Places {
			if n := ad.nodes.Get(pl.Node); n != nil && n.TakesWork() {
				continue
			}
			if left := pl.Count - core.PodsAt(settled, p.Name, pl.Node); left > 0 {
				moved[i][j] = left
				some = true
			}
		}
	}
	return moved, some
}

// rehouse finds new places for the pods that have to move.
func (ad *admissions) rehouse(w *workload, moved [][]int32) (*core.Admission, bool) {
	var sets []place.Set
	for i := range moved {
		total := int32(0)
		for _, n := range moved[i] {
			total += n
		}
		p := &w.admission.PodSets[i]
		if s := w.equivalence.podSet(p.Name); s >= 0 && total > 0 {
			sets = append(sets, place.Set{Index: i, Class: ad.class(w.equivalence, s, p.FlavorNames()), Count: total})
		}
	}
	spots, _, ok := ad.nodes.Place(place.Request{View: place.Free, Sets: sets, Kept: ad.kept(w, moved)})
	if !ok || len(sets) == 0 {
		return nil, false
	}
	a := &core.Admission{Queue: w.admission.Queue, PodSets: slices.Clone(w.admission.PodSets)}
	for i := range a.PodSets {
		p := &a.PodSets[i]
		var kept []core.Place
		for j, pl := range p.Places {
			if pl.Count -= moved[i][j]; pl.Count > 0 {
				kept = append(kept, pl)
			}
		}
		p.Places = kept
	}
	for s, set := range sets {
		p := &a.PodSets[set.Index]
		for _, pl := range places(spots[s]) {
			p.Places = addPlace(p.Places, pl)
		}
		slices.SortFunc(p.Places, func(a, b core.Place) int { return cmp.Compare(a.Node, b.Node) })
	}
	return a, true
}

// kept are the pods of a workload that stay where they are while others move.
func (ct *catalog) kept(w *workload, moved [][]int32) []place.Hold {
	var out []place.Hold
	for i, p := range w.admission.PodSets {
		s := w.equivalence.podSet(p.Name)
		if s < 0 || placedAlone(&w.equivalence.podSets[s]) {
			continue
		}
		for j, pl := range p.Places {
			if n := pl.Count - moved[i][j]; n > 0 {
				out = append(
					out,
					place.Hold{Node: ct.nodes.Node(pl.Node), Class: ct.class(w.equivalence, s, p.FlavorNames()), Count: n},
				)
			}
		}
	}
	return out
}

// placedAlone reports whether where other pods of a set are matters nothing to one.
func placedAlone(p *core.PodSet) bool {
	return len(p.Limits)+len(p.Filter.Refused) == 0 && p.Topology.Empty()
}

func addPlace(ps []core.Place, p core.Place) []core.Place {
	for i := range ps {
		if ps[i].Node == p.Node {
			ps[i].Count += p.Count
			return ps
		}
	}
	return append(ps, p)
}

// displaceUsers marks workloads that may have to move off a node.
func (ad *admissions) displaceUsers(name string) {
	n := ad.nodes.Get(name)
	if n == nil {
		return
	}
	for _, id := range n.Users() {
		ad.displace(ad.byID[id])
	}
}

func (ad *admissions) displace(w *workload) {
	if !w.listed {
		w.listed = true
		ad.displaced = append(ad.displaced, w)
	}
}
