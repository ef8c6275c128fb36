package place

import "slices"

// maxPreferredTries is in how many choices of domains of each level the sets of a group are tried that need not be in
// one: a place that is nearer is worth no more.
const maxPreferredTries = 16

// nearTogether places sets of which some are in groups that need not be in one domain: each of these groups, in the
// order of their first sets, is in one as narrow as there is one in which all have a place. false if there is no such
// group, or none can be in one domain.
func (s *Nodes) nearTogether(r Request, turn []int, spots [][]Spot) (placed bool) {
	try := r
	try.Sets = slices.Clone(r.Sets)
	for i := range r.Sets {
		members := r.loose(i)
		if len(members) < 2 || members[0] != i {
			continue
		}
		prefer := func(label string) {
			for _, m := range members {
				try.Sets[m].preferred = label
			}
		}
		near, at := r.Sets[i].Class.near, make([][]Spot, len(spots))
		for level := len(near.tree.levels) - 1; level > near.required; level-- {
			prefer(near.tree.levels[level])
			if s.search(try, turn, at, maxPreferredTries).run() == found {
				copy(spots, at)
				placed = true
				break
			}
			prefer("")
		}
	}
	return placed
}

// loose are the sets of the group of one that are as near to each other as can be: those with the same levels that need
// not be in one domain with it, nor spread, and of which no pods stay.
func (r *Request) loose(of int) (members []int) {
	group, with := r.Sets[of].Group, r.Sets[of].Class.near
	if group == "" || with == nil || len(r.Kept)+len(r.Taken) > 0 {
		return nil
	}
	for i, set := range r.Sets {
		near := set.Class.near
		if set.Group != group || near == nil || near.tree != with.tree || near.required != with.required ||
			near.own >= 0 || near.skew != nil || len(set.Peers) > 0 {
			continue
		}
		members = append(members, i)
	}
	return members
}
