package place

import (
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Together returns a Shortage if pod sets that could each be placed alone can
// never be placed at the same time on the nodes there are, even if these were
// empty and in service. Where that takes too long to find out it returns none.
func (s *Nodes) Together(sets []Set) (Shortage, bool) {
	if len(sets) < 2 {
		return Shortage{}, true
	}
	s.settle()
	if slices.ContainsFunc(sets, func(set Set) bool { return set.Class.near != nil }) {
		return s.togetherNear(sets)
	}
	turn := largestFirst(sets)
	left, all := make([][]int64, len(s.order)), s.columns(sets)
	for _, i := range turn {
		if s.fillEmpty(sets[i], all.needs[i], &all, left) {
			continue
		}
		x := s.newPacking(sets, turn, maxTries)
		for rank, n := range s.order {
			b := bin{rank: rank, left: x.left(n.cap, nil), most: make([]int32, len(sets))}
			for k, set := range x.sets {
				if set.Class.filter.Admits(&n.spec) {
					b.most[k] = set.Class.answered(n)
				}
			}
			x.add(b)
		}
		if x.run() != impossible {
			break
		}
		_, nodes, down := s.Total(sets[i].Class)
		return Shortage{Set: i, Cause: core.PodSetsTooLarge, Wanted: sets[i].Count, Nodes: nodes, Down: down}, false
	}
	return Shortage{}, true
}

// togetherNear is Together where pods must be near to each other.
func (s *Nodes) togetherNear(sets []Set) (Shortage, bool) {
	empty := s.vacant()
	r := Request{View: Free, Sets: slices.Clone(sets)}
	for i := range r.Sets {
		r.Sets[i].Class = s.classIn(empty, sets[i].Class)
	}
	turn, spots := largestFirst(r.Sets), make([][]Spot, len(sets))
	short, ok := empty.inTurn(r, turn, spots, nil)
	if ok || empty.inDomains(r, turn, spots) != impossible {
		return Shortage{}, true
	}
	_, nodes, down := s.Total(sets[short.Set].Class)
	return Shortage{
		Set: short.Set, Cause: core.PodSetsTooLarge, Wanted: sets[short.Set].Count, Nodes: nodes, Down: down,
		Limit: sharedLimit(sets),
	}, false
}

// sharedLimit names the first limit of domains that several sets share; "" if they share none.
func sharedLimit(sets []Set) string {
	var seen []string
	for _, set := range sets {
		for _, name := range set.Class.near.limitNames() {
			if slices.Contains(seen, name) {
				return name
			}
			seen = append(seen, name)
		}
	}
	return ""
}

// fillEmpty puts a set on the first nodes that hold it. left is what is left of
// each node, nil for all of it.
func (s *Nodes) fillEmpty(set Set, needs []need, all *columns, left [][]int64) bool {
	want := set.Count
	for rank, n := range s.order {
		if want == 0 {
			break
		}
		if !set.Class.filter.Admits(&n.spec) {
			continue
		}
		if left[rank] == nil {
			left[rank] = all.left(n.cap, nil)
		}
		k := min(want, set.Class.answered(n), count(needs, left[rank], left[rank]))
		take(needs, left[rank], k)
		want -= k
	}
	return want == 0
}

// take takes n pods off what is left of a node; they must fit.
func take(needs []need, left []int64, n int32) {
	if n == 0 {
		return
	}
	for _, r := range needs {
		left[r.resource] -= int64(n) * r.amount
	}
}
