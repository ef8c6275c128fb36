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
	if set, limit := s.crowdedTogether(sets); limit != "" {
		_, nodes, down := s.Total(sets[set].Class)
		return Shortage{
			Set: set, Cause: core.PodSetsTooLarge, Wanted: sets[set].Count, Nodes: nodes, Down: down, Limit: limit,
		}, false
	}
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
		Limit: sharedLimit(sets), Level: groupLevel(sets[short.Set]),
	}, false
}

// crowdedTogether names a limit of domains that the pods of several sets share and of which all domains together have less
// than these take, and the set at which they do; "" if there is none.
func (s *Nodes) crowdedTogether(sets []Set) (set int, limit string) {
	for _, first := range sets {
		if first.Class.near == nil {
			continue
		}
		for _, l := range first.Class.near.limits {
			most, taken, bounded := int64(0), int64(0), true
			t, seen := first.Class.near.tree, map[int32]bool{}
			for i, o := range sets {
				k := -1
				if near := o.Class.near; near != nil && near.tree == t { // else one domain may be two for it
					k = slices.IndexFunc(near.limits, func(x domainLimit) bool { return x.Name == l.Name })
				}
				if k < 0 {
					continue
				}
				for rank := range s.order {
					d, in := t.above(s.domainOf(t, rank), l.level)
					if !s.admits(o.Class, rank) || in && seen[d] {
						continue
					}
					seen[d] = true
					bounded = bounded && in && !t.domains[d].unlabelled()
					most += int64(l.Most)
				}
				if taken += int64(o.Count) * int64(o.Class.near.limits[k].Count); taken > most {
					set = i
				}
			}
			if bounded && taken > most {
				return set, l.Name
			}
		}
	}
	return 0, ""
}

// groupLevel is the widest level of which one domain must hold a set and others; "" if none must.
func groupLevel(set Set) string {
	for _, t := range set.ties() {
		if t.name != "" {
			return set.label(t)
		}
	}
	return ""
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
