package place

import (
	"cmp"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Set is a number of pods of one class that must all be placed.
type Set struct {
	// Index is the caller's own.
	Index int
	Class *Class
	Count int32
	// Group names sets that must all be in one domain of the level that each requires; "" is none.
	Group string
	// Parents name the groups that the set is in, one for each level of its Topology.Parents: all sets of a group must be
	// in one domain of that level.
	Parents []string
	// Beside are nodes with pods that stay where they are, of the sets of each of these groups; nil where none do.
	Beside []*Node
	// Peers are pods of the workload that stay where they are and must be in the domain that the set goes to. Those
	// without a Class are of other sets, and in none of its slices.
	Peers []Hold
	// preferred is a level of which one domain is tried for the Group, though none is required; "" is none.
	preferred string
}

// Spot is a number of pods on one node.
type Spot struct {
	Node  *Node
	Count int32
}

// Shortage says why a gang has no place.
type Shortage struct {
	// Set is the index of the pod set that found no place.
	Set int
	// Cause is core.NodesShort, DomainsShort, PodTooLarge, NoSuchNode, GangTooLarge, DomainTooSmall,
	// PodSetsTooLarge or NodesRefused.
	Cause core.Cause
	// Fit of Wanted pods have a place; Nodes match the filter, Down of them are
	// out of service.
	Fit, Wanted int32
	Nodes, Down int32
	// Resource, for PodTooLarge, is one of which a pod needs more than the largest
	// node has; "" if no single resource is too much.
	Resource      string
	Need, Largest core.Amount
	// Limit is one that keeps nodes from taking pods for which they have room, "" if none does.
	// Refused nodes refused such pods, the first with this Answer.
	Limit   string
	Refused int32
	Answer  string
	// Level, for NoSuchNode, is a label that the request names and no node has that the class may use otherwise, "" if
	// that is not why. For DomainsShort and DomainTooSmall it is the one of which a domain must hold all pods, and
	// Domain the one that comes nearest: it has places for Fit of them, and empty and in service would
	// have for Usable. All nodes together have places for Free.
	// For PodSetsTooLarge Level is the one of which one domain must hold the pods of several sets.
	Level, Domain string
	Usable, Free  int32
	// Around is the domain, of AroundLevel, that others of the set's groups are in: Domain itself or a wider one.
	AroundLevel, Around string
}

// Request is what a gang asks for.
type Request struct {
	View View
	Sets []Set
	// Kept are pods of the workload that stay where they are. They are booked, and count with
	// its own limits and what nodes answered.
	Kept []Hold
	// Taken are pods of the workload for which places were found just before: they are as those kept, but not booked.
	Taken []Hold
}

// Possible returns a Shortage if the request can never be placed on the nodes
// there are, even if they were empty and in service.
func (s *Nodes) Possible(set Set) (Shortage, bool) {
	all := s.emptied(set.Class)
	slots, nodes := all.slots, all.nodes
	short := Shortage{Wanted: set.Count, Nodes: nodes, Down: all.down}
	if set.Count == 0 || nodes > 0 && all.most >= int64(set.Count) && s.consistent(set) {
		return short, true
	}
	if short.Refused, short.Answer = s.refusal(set.Class); short.Refused > 0 && slots < int64(set.Count) {
		short.Cause, short.Fit = core.NodesRefused, int32(slots) //nolint:gosec // below Count
		return short, false
	}
	switch {
	case nodes == 0:
		short.Cause = core.NoSuchNode
		short.Level = s.unlabelled(set.Class)
	case slots == 0:
		short.Cause = core.PodTooLarge
		short.Resource, short.Need, short.Largest = s.excess(set.Class)
	case set.Class.near != nil && set.Class.near.required >= 0 && slots >= int64(set.Count):
		short.Cause = core.DomainTooSmall
		s.nameDomain(&short, set.Class, Free)
	default:
		short.Cause = core.GangTooLarge
		short.Fit = fitting(all.most, set.Count)
		short.Limit = s.binding(set.Class)
		if slots >= int64(set.Count) {
			short.Limit = cmp.Or(set.Class.near.limitName(), short.Limit)
		}
	}
	if short.Limit != "" {
		short.Answer = "" // without the limit they would have a place all the same
	}
	return short, false
}

// fitting is how many of a set's pods have a place when so many do by the room of domains: none if that would do, and
// what the pods ask for beyond cannot be had.
func fitting(most int64, count int32) int32 {
	if most >= int64(count) {
		return 0
	}
	return int32(most) //nolint:gosec // below count
}

// consistent reports whether a set has a place on empty nodes where their room does not say so: its slices may be
// too large for how evenly its pods have to spread.
func (s *Nodes) consistent(set Set) bool {
	if set.Class.near == nil || !s.searchesEmpty(set.Class) {
		return true
	}
	empty := s.vacant()
	set.Class = s.classIn(empty, set.Class)
	_, ok := empty.find(set, Free, -1, nil)
	return ok
}

// Fits reports whether the whole request has places.
func (s *Nodes) Fits(r Request) bool {
	if _, ok := s.enough(r); !ok {
		return false
	}
	if len(r.Sets) < 2 {
		return true
	}
	_, _, ok := s.place(r, false)
	return ok
}

// Can reports whether a pod set has places in a view, if it is placed alone.
func (s *Nodes) Can(set Set, v View) bool {
	near := set.Class.near
	switch {
	case s.most(set.Class, v) < int64(set.Count) || near != nil && !near.divides(set.Count):
		return false
	case near == nil || !s.searches(set.Class):
		return true
	}
	_, ok := s.find(set, v, -1, nil)
	return ok
}

// Shortage says why a pod set has no places in a view, where Can denies it: for good, or
// with cause core.NodesShort or DomainsShort.
func (s *Nodes) Shortage(set Set, v View) Shortage {
	short, possible := s.Possible(set)
	if possible {
		short.Cause = core.NodesShort
		short.Fit = fitting(s.most(set.Class, v), set.Count)
		if near := set.Class.near; near != nil && near.required >= 0 {
			short.Cause = core.DomainsShort
			s.nameDomain(&short, set.Class, v)
		}
		short.Limit = s.crowding(set.Class, v)
		if s.slots(set.Class, v) >= int64(set.Count) {
			short.Limit = cmp.Or(set.Class.near.limitName(), short.Limit)
		}
		short.Refused, short.Answer = s.refusal(set.Class)
	}
	return short
}

// nameDomain says which domain comes nearest to holding a gang, and what all have.
func (s *Nodes) nameDomain(short *Shortage, c *Class, v View) {
	ix, empty := s.index(c, v), s.emptied(c)
	short.Free = int32(min(ix.total, 1<<30)) //nolint:gosec // few
	now, ideally := s.holding(c, &ix.domains), empty.holding(c)
	first, second := now, ideally
	if short.Cause == core.DomainTooSmall {
		first, second = second, first
	}
	d, some := first.best(second)
	if !some {
		return
	}
	short.Level, short.Domain = c.near.tree.levels[c.near.required], c.near.tree.domains[d].value
	short.Fit = int32(now.in(d))        //nolint:gosec // below Count
	short.Usable = int32(ideally.in(d)) //nolint:gosec // few
	short.Limit = c.near.limitName()
}

// enough checks each set alone: a bound that needs no search.
func (s *Nodes) enough(r Request) (Shortage, bool) {
	for i, set := range r.Sets {
		near := set.Class.near
		if near != nil && len(set.Peers) > 0 {
			continue // they may be part of a slice, and say which domain
		}
		if near != nil && near.skew != nil && len(r.Kept)+len(r.Taken) > 0 {
			continue // how many a domain may have depends on those that have places
		}
		if !s.Can(set, r.View) {
			short := s.Shortage(set, r.View)
			short.Set = i
			return short, false
		}
	}
	return Shortage{}, true
}

// Place chooses nodes for every pod of the request, or none. Pods go where the
// fewest of the packed resource are left, ready nodes before warned ones, ties
// by node name, so that whole nodes stay free. Spots are parallel to r.Sets, each
// sorted by node name; where the pods of a set must be near to each other, by domain
// before that (sortNear), so that pods which follow each other have places near to
// each other, and each slice one domain. Nodes that a class avoids are taken if it has no place elsewhere.
func (s *Nodes) Place(r Request) ([][]Spot, Shortage, bool) { return s.place(r, true) }

// place is Place; where only whether there is a place matters, it need not be the best.
func (s *Nodes) place(
	r Request,
	best bool,
) ([][]Spot, Shortage, bool) {
	if away, some := elsewhere(r); some {
		if spots, short, ok := s.choose(away, best); ok {
			return spots, short, true
		}
	}
	return s.choose(r, best)
}

// choose is place, whatever nodes are avoided.
func (s *Nodes) choose(r Request, best bool) ([][]Spot, Shortage, bool) { //nolint:revive // as above
	s.settle()
	if len(r.Kept)+len(r.Taken) > 0 {
		s.keep(r, 1)
		defer s.keep(r, -1)
	}
	if short, ok := s.enough(r); !ok {
		return nil, short, false
	}
	spots := make([][]Spot, len(r.Sets))
	if len(r.Sets) == 1 && r.Sets[0].Class.near == nil {
		spots[0], _ = s.fill(r.Sets[0], r.View, nil)
		s.sortSpots(r.Sets, spots)
		return spots, Shortage{}, true
	}
	turn := largestFirst(r.Sets)
	if best && s.pairNear(r, spots) || s.nearTogether(r, turn, spots) {
		s.sortSpots(r.Sets, spots)
		return spots, Shortage{}, true
	}
	short, ok := s.inTurn(r, turn, spots, nil)
	switch {
	case ok:
	case slices.ContainsFunc(r.Sets, func(set Set) bool { return set.Class.near != nil }):
		if len(r.Sets) > 1 {
			is := s.inDomains(r, turn, spots)
			ok = is == found || is == gaveUp && !best && s.pairNear(r, spots)
		}
	default:
		ok = s.exact(r, turn, spots, nil) == found
	}
	if !ok {
		return nil, short, false
	}
	s.sortSpots(r.Sets, spots)
	return spots, Shortage{}, true
}

// keep lets pods of a request that have places count, or no longer.
func (s *Nodes) keep(r Request, sign int64) {
	for _, h := range r.Taken {
		s.book(core.Current, h, sign)
		s.book(core.Projected, h, sign)
	}
	s.stay(r.Kept, sign)
	s.stay(r.Taken, sign)
}

func (s *Nodes) sortSpots(sets []Set, spots [][]Spot) {
	for i, list := range spots {
		if near := sets[i].Class.near; near != nil {
			s.sortNear(near.tree, list)
			continue
		}
		slices.SortFunc(list, func(a, b Spot) int { return cmp.Compare(a.Node.spec.Name, b.Node.spec.Name) })
	}
}

// sortNear orders spots as a walk through the tree comes to them. Domains and nodes with a node that has fewer
// pods than others come last, so that the ranks on a node begin with a multiple of what a node holds: groups of
// ranks that work closely together are on one node each.
func (s *Nodes) sortNear(t *tree, spots []Spot) {
	least := make([]int32, len(t.domains)) // 0 for no pods
	var used []int32
	for _, sp := range spots {
		at := s.domainOf(t, sp.Node.rank)
		if !slices.Contains(used[max(0, len(used)-1):], at) {
			used = append(used, at)
		}
		for d := at; ; d = t.domains[d].in {
			if least[d] == 0 || sp.Count < least[d] {
				least[d] = sp.Count
			}
			if d == root {
				break
			}
		}
	}
	slices.SortFunc(used, func(a, b int32) int {
		x, y, deeper := t.apart(a, b)
		return cmp.Or(
			cmp.Compare(least[y], least[x]),
			core.CompareNames(t.domains[x].value, t.domains[y].value),
			deeper,
		)
	})
	turn := make([]int32, len(t.domains))
	for i, d := range used {
		turn[d] = int32(i)
	}
	slices.SortFunc(spots, func(a, b Spot) int {
		return cmp.Or(
			cmp.Compare(turn[t.narrowest[a.Node.rank]], turn[t.narrowest[b.Node.rank]]),
			cmp.Compare(b.Count, a.Count),
			cmp.Compare(a.Node.rank, b.Node.rank),
		)
	})
}

// largestFirst orders sets by what is hardest to place: the largest pods, and of equal ones those that want equal shares,
// for which a pod before them may leave none.
func largestFirst(sets []Set) []int {
	turn := make([]int, len(sets))
	for i := range turn {
		turn[i] = i
	}
	slices.SortStableFunc(turn, func(a, b int) int {
		x, y := sets[a].Class, sets[b].Class
		return cmp.Or(
			cmp.Compare(y.pack, x.pack), cmp.Compare(y.size, x.size), order(!x.balances(), !y.balances()),
		)
	})
	return turn
}

// fill places one set on the fullest nodes that hold it, changing nothing. It
// appends to dst and returns how many pods are left over.
func (s *Nodes) fill(set Set, v View, dst []Spot) ([]Spot, int32) {
	ix := s.index(set.Class, v)
	left := set.Count
	for b := range ix.rooms {
		if left == 0 {
			break
		}
		ix.rooms[b].each(func(rank int) bool {
			n := min(left, ix.slots[rank])
			dst = append(dst, Spot{s.order[rank], n})
			left -= n
			return left > 0
		})
	}
	return dst, left
}

// inTurn places the sets one after the other in the given turn. What it books
// on the way it takes back. within are, by set, domains that they must be in, -1 or nil for any; sets of a group
// follow the first of them.
func (s *Nodes) inTurn(r Request, turn []int, spots [][]Spot, within []int32) (Shortage, bool) {
	var booked []Hold
	defer func() { s.unbook(booked) }()
	for _, i := range turn {
		set, in := r.Sets[i], int32(-1)
		if within != nil {
			in = within[i]
		}
		joins := true
		if in < 0 {
			in, joins = s.joined(r.Sets, spots, turn, i)
		}
		var left int32
		if !joins {
			left = set.Count
		} else if set.Class.near == nil {
			spots[i], left = s.fill(set, r.View, spots[i][:0])
		} else if found, ok := s.find(set, r.View, in, slices.Concat(r.Kept, r.Taken, booked)); ok {
			spots[i] = found
		} else if left = set.Count; len(set.Peers) == 0 && !s.Can(set, r.View) {
			short := s.Shortage(set, r.View)
			short.Set = i
			return short, false
		}
		if left > 0 && in >= 0 && set.Class.near.required >= 0 {
			return s.shortIn(set, i, in, r.View), false
		}
		if left > 0 {
			_, nodes, down := s.Total(set.Class)
			return Shortage{
				Set: i, Cause: core.NodesShort, Fit: set.Count - left, Wanted: set.Count, Nodes: nodes, Down: down,
			}, false
		}
		for _, sp := range spots[i] {
			booked = append(booked, s.tentative(Hold{sp.Node, set.Class, sp.Count}))
		}
	}
	return Shortage{}, true
}

// tentative books in both accounts, so that either view sees it.
func (s *Nodes) tentative(h Hold) Hold {
	s.book(core.Current, h, 1)
	s.book(core.Projected, h, 1)
	h.Node.takeOwn(h, 1)
	return h
}

func (s *Nodes) unbook(holds []Hold) {
	for _, h := range holds {
		s.book(core.Current, h, -1)
		s.book(core.Projected, h, -1)
		h.Node.takeOwn(h, -1)
	}
}

// exact searches all distributions, with the sets in domains as inTurn has them. Simple greedy order can
// miss one when pod sets differ in shape.
func (s *Nodes) exact(r Request, turn []int, spots [][]Spot, within []int32) outcome {
	x := s.newPacking(r.Sets, turn, searchTries)
	for rank, n := range s.order {
		b := bin{rank: rank, late: n.spec.State != core.NodeReady, most: make([]int32, len(r.Sets))}
		for k, set := range x.sets {
			if s.index(set.Class, r.View).slots[rank] > 0 && s.inDomain(set.Class.near, rank, within, turn[k]) {
				b.most[k] = set.Class.answered(n)
			}
		}
		if slices.Max(b.most) > 0 {
			b.left = x.left(n.left(r.View), func(limit string) int64 { return n.takenOf(limit, r.View) })
			x.add(b)
		}
	}
	s.sliced(x, slices.Concat(r.Kept, r.Taken), r.View)
	is := x.run()
	if is != found {
		return is
	}
	for k, i := range turn {
		spots[i] = spots[i][:0]
		for at, n := range x.given[k] {
			if n > 0 {
				spots[i] = append(spots[i], Spot{s.order[x.bins[at].rank], n})
			}
		}
	}
	return found
}

// left is what is left of a node in a view.
func (n *Node) left(v View) []int64 {
	if v == After {
		return n.free[core.Projected]
	}
	return n.copyLeft(make([]int64, 0, len(n.free[core.Projected])), v)
}

// copyLeft appends what is left of a node in a view.
func (n *Node) copyLeft(to []int64, v View) []int64 {
	projected := n.free[core.Projected]
	if v == After {
		return append(to, projected...)
	}
	current := n.free[core.Current]
	for i := range min(len(current), len(projected)) {
		to = append(to, min(current[i], projected[i]))
	}
	return to
}

// Holdable reports whether holds that are not booked in an account could be: their
// nodes take work and have room, and their domains have where pods of others count. What else is too much there, of what they do not ask
// for, does not matter.
func (s *Nodes) Holdable(l core.Account, holds []Hold) bool {
	ok := true
	for _, h := range holds {
		ok = ok && h.Node.TakesWork() && h.Class.filter.Admits(&h.Node.spec)
		s.book(l, h, 1)
	}
	for _, h := range holds {
		for _, r := range h.Class.needs {
			ok = ok && h.Node.free[l][r.resource] >= 0
		}
		ok = ok && !h.exceeds(l)
	}
	ok = ok && !s.exceedDomains(l, holds)
	for _, h := range holds {
		s.book(l, h, -1)
	}
	return ok
}
