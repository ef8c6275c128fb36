package place

import (
	"cmp"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Several pod sets of which some must be near to each other: domains are chosen for each that requires
// one, or for a group of them, and the sets are placed in these.

// In how many choices of domains several sets are tried: each looks at all nodes.
const (
	maxDomainTries = 256
	maxDomainLooks = 1 << 18
)

// domainOfGroup is where the sets of a group are of which one was placed before in its turn; -1 if none was.
func (s *Nodes) domainOfGroup(sets []Set, spots [][]Spot, turn []int, of int) int32 {
	for _, i := range turn[:slices.Index(turn, of)] {
		if near := sets[i].Class.near; sameGroup(&sets[i], &sets[of]) && len(spots[i]) > 0 {
			d, _ := near.tree.above(s.domainOf(near.tree, spots[i][0].Node.rank), near.required)
			return d
		}
	}
	return -1
}

// sameGroup reports whether two sets must be in one domain of the same level.
func sameGroup(a, b *Set) bool {
	x, y := a.Class.near, b.Class.near
	return a.Group != "" && a.Group == b.Group && x != nil && y != nil &&
		x.required >= 0 && x.tree == y.tree && x.required == y.required
}

// shortIn says why a set has no place in a domain that others of its workload are in.
func (s *Nodes) shortIn(set Set, index int, in int32, v View) Shortage {
	all, c := s.emptied(set.Class), set.Class
	short := Shortage{Set: index, Cause: core.DomainsShort, Wanted: set.Count, Nodes: all.nodes, Down: all.down}
	s.nameDomain(&short, c, v)
	short.Domain = c.near.tree.domains[in].value
	now := s.holding(c, &s.index(c, v).domains).in(in)
	short.Fit = int32(min(now, int64(set.Count))) //nolint:gosec // a count
	short.Usable = int32(all.holding(c).in(in))   //nolint:gosec // few
	return short
}

// choice is sets that must be in one domain, and the domains that could be it.
type choice struct {
	sets    []int
	domains []int32
	at      int
}

// inDomains places sets that found no place in the domains that are best for each alone: it tries the
// others, those with the least room first, and in each choice all ways to place the sets there.
func (s *Nodes) inDomains(r Request, turn []int, spots [][]Spot) outcome {
	choices := s.choices(r, turn)
	within := slices.Repeat([]int32{-1}, len(r.Sets))
	worst := impossible
	for range min(maxDomainTries, 1+maxDomainLooks/max(1, len(s.order))) {
		for _, c := range choices {
			if len(c.domains) == 0 {
				return impossible
			}
			for _, i := range c.sets {
				within[i] = c.domains[c.at]
			}
		}
		if _, ok := s.inTurn(r, turn, spots, within); ok {
			return found
		}
		switch s.exact(r, turn, spots, within) {
		case found:
			return found
		case gaveUp:
			worst = gaveUp
		default:
		}
		k := len(choices) - 1
		for ; k >= 0; k-- {
			if choices[k].at++; choices[k].at < len(choices[k].domains) {
				break
			}
			choices[k].at = 0
		}
		if k < 0 {
			return worst
		}
	}
	return gaveUp
}

// choices are the sets that require a domain, those together that must share it.
func (s *Nodes) choices(r Request, turn []int) []choice {
	var out []choice
	for _, i := range turn {
		near := r.Sets[i].Class.near
		if near == nil || near.required < 0 {
			continue
		}
		if k := slices.IndexFunc(
			out,
			func(c choice) bool { return sameGroup(&r.Sets[c.sets[0]], &r.Sets[i]) },
		); k >= 0 {
			out[k].sets = append(out[k].sets, i)
			continue
		}
		out = append(out, choice{sets: []int{i}, domains: s.domainsFor(r.Sets[i], r.View)})
	}
	return out
}

// domainsFor lists the domains of the required level that have what stays of a set or, where nothing does, room
// for it, those with the least first.
func (s *Nodes) domainsFor(set Set, v View) []int32 {
	near, ix := set.Class.near, s.index(set.Class, v)
	var out []int32
	for _, h := range set.Peers {
		if !h.Node.known {
			continue
		}
		if d, in := near.tree.above(
			s.domainOf(near.tree, h.Node.rank),
			near.required,
		); in &&
			!slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	if len(out) > 0 {
		return out
	}
	for i, d := range near.tree.domains {
		if d.level == near.required && s.holding(set.Class, &ix.domains).in(int32(i)) >= int64(set.Count) {
			out = append(out, int32(i))
		}
	}
	slices.SortStableFunc(out, func(a, b int32) int {
		return cmp.Or(
			cmp.Compare(ix.domains.of(near, a), ix.domains.of(near, b)),
			near.tree.compare(a, b),
		)
	})
	return out
}

// inDomain reports whether a node is in the domain that a set must be in, if it must be in one.
func (s *Nodes) inDomain(near *nearness, rank int, within []int32, set int) bool {
	if near == nil || within == nil || within[set] < 0 {
		return true
	}
	d, in := near.tree.above(s.domainOf(near.tree, rank), near.required)
	return in && d == within[set]
}

// sliced lets a search observe the slices of its sets, with their peers, and the limits of domains, with the pods of
// the workload that stay.
func (s *Nodes) sliced(x *packing, stay []Hold, v View) {
	x.view = v
	if !slices.ContainsFunc(x.sets, func(set Set) bool { return set.Class.near != nil }) {
		return
	}
	for i := range x.bins {
		b := &x.bins[i]
		b.domains = make([]int32, len(x.sets))
		for k, set := range x.sets {
			if near := set.Class.near; near != nil {
				b.domains[k] = s.domainOf(near.tree, b.rank)
			}
		}
	}
	x.whole = func(k int) bool {
		near := x.sets[k].Class.near
		if near == nil {
			return true
		}
		for _, l := range near.layers {
			pods := map[int32]int64{}
			for i, n := range x.given[k] {
				if d, in := near.tree.above(x.bins[i].domains[k], l.level); in {
					pods[d] += int64(n)
				}
			}
			for _, h := range x.sets[k].Peers {
				if h.Node.known {
					if d, in := near.tree.above(s.domainOf(near.tree, h.Node.rank), l.level); in {
						pods[d] += int64(h.Count)
					}
				}
			}
			for _, n := range pods { // any will do, so order does not matter
				if n%l.size != 0 {
					return false
				}
			}
		}
		if len(near.limits) == 0 && near.skew == nil {
			return true
		}
		return s.bounded(x, k, stay)
	}
}

// bounded reports whether the limits of domains hold for a set that a search has placed, beside those before it.
func (s *Nodes) bounded(x *packing, k int, stay []Hold) bool {
	f := &finder{s: s, class: x.sets[k].Class, near: x.sets[k].Class.near, view: x.view}
	for j := range x.sets[:k+1] {
		for i, n := range x.given[j] {
			if n > 0 {
				f.unbooked = append(f.unbooked, Hold{s.order[x.bins[i].rank], x.sets[j].Class, n})
			}
		}
	}
	f.own = slices.Concat(stay, f.unbooked)
	for i, l := range f.near.limits {
		for d := range f.near.tree.domains {
			at := int32(d)
			if is := &f.near.tree.domains[d]; is.level == l.level && !is.unlabelled() &&
				f.limitTaken(at, i) > int64(l.Most) {
				return false
			}
		}
	}
	return f.near.skew == nil || f.near.even(s.emptied(f.class).over, f.spreadKept(), s.givenTo(x, k))
}

// givenTo are the domains over which the pods of a set have to spread and that a search gave some.
func (s *Nodes) givenTo(x *packing, k int) (out field) {
	near := x.sets[k].Class.near
	for i, n := range x.given[k] {
		if d, in := near.tree.above(
			x.bins[i].domains[k],
			near.skew.level,
		); in && n > 0 &&
			!slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

// vacant are the same nodes, empty and in service.
func (s *Nodes) vacant() *Nodes {
	out := New(s.pack)
	for name := range s.resources {
		out.resources[name] = s.resources[name]
	}
	for _, n := range s.order {
		is := n.spec
		is.State, is.Foreign, is.ForeignLimits = core.NodeReady, nil, nil
		out.Set(is)
	}
	return out
}

// classIn is the class among other nodes that know the same resources.
func (s *Nodes) classIn(of *Nodes, c *Class) *Class {
	is := &Class{key: c.key, needs: c.needs, pack: c.pack, size: c.size, filter: c.filter, limits: c.limits}
	if c.near != nil {
		near := *c.near
		near.tree = of.treeOf(c.near.tree.levels, c.near.tree.leading)
		is.near = &near
	}
	return is
}
