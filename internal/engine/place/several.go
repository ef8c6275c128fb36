package place

import (
	"cmp"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Several pod sets of which some must be near to each other: domains are chosen for each that requires
// one, and for each group of them, within those of the groups around it, and the sets are placed in these.

// In how many choices of domains several sets are tried, and how many nodes these may look at in all; and how many domains
// are looked at to make them.
const (
	maxDomainTries = 256
	maxNodeLooks   = 1 << 18
	maxDomainLooks = 1 << 15
)

// tie is a level of which one domain must hold the pods of all sets that have the name, or of a set alone if it is "".
type tie struct {
	name  string
	level int
}

// ties of a set, the widest first.
func (s Set) ties() []tie {
	near := s.Class.near
	if near == nil || near.required < 0 && s.preferred == "" {
		return nil
	}
	out := make([]tie, 0, len(near.parents)+1)
	if s.preferred != "" {
		out = append(out, tie{s.Group, slices.Index(near.tree.levels, s.preferred)})
	}
	for i, level := range near.parents {
		out = append(out, tie{s.Parents[i], level})
	}
	// A domain of its own is implied by that of a group which is no wider.
	if near.own >= 0 &&
		(s.Group != "" || near.own == near.required && !slices.Contains(near.parents, near.own)) {
		out = append(out, tie{s.Group, near.own})
	}
	slices.SortStableFunc(out, func(a, b tie) int { return cmp.Compare(a.level, b.level) })
	return out
}

// label is the level of a tie in words that sets with other trees have, too.
func (s Set) label(t tie) string { return s.Class.near.tree.levels[t.level] }

// joined is the narrowest domain in which a set has to be because sets of its groups have places, which stay or were
// found before in its turn; -1 if it may be anywhere. false if these are too far from each other for it.
func (s *Nodes) joined(sets []Set, spots [][]Spot, turn []int, of int) (in int32, ok bool) {
	set := &sets[of]
	in, ok = -1, true
	join := func(t tie, n *Node) {
		tree := set.Class.near.tree
		d, has := tree.above(s.domainOf(tree, n.rank), t.level)
		if !has { // for this set the node is in no such domain
			ok = false
			return
		}
		wide, narrow := in, d
		if in >= 0 && tree.domains[d].level < tree.domains[in].level {
			wide, narrow = d, in
		}
		if wide >= 0 {
			at, _ := tree.above(narrow, tree.domains[wide].level)
			ok = ok && at == wide
		}
		in = narrow
	}
	for i, n := range set.Beside {
		if n != nil && n.known {
			join(tie{level: set.Class.near.parents[i]}, n)
		}
	}
	for _, t := range set.ties() {
		if t.name == "" {
			continue
		}
		for _, i := range turn[:slices.Index(turn, of)] {
			if len(spots[i]) > 0 && sets[i].tied(t.name, set.label(t)) {
				join(t, spots[i][0].Node)
			}
		}
	}
	return in, ok
}

// tied reports whether a domain of a level must hold the pods of a set and those of others with a name.
func (s Set) tied(name, label string) bool {
	return slices.ContainsFunc(s.ties(), func(t tie) bool { return t.name == name && s.label(t) == label })
}

// shortIn says why a set has no place in a domain that others of its workload are in.
func (s *Nodes) shortIn(set Set, index int, in int32, v View) Shortage {
	all, c := s.emptied(set.Class), set.Class
	short := Shortage{Set: index, Cause: core.DomainsShort, Wanted: set.Count, Nodes: all.nodes, Down: all.down}
	s.nameDomain(&short, c, v)
	now, ideally := s.holding(c, &s.index(c, v).domains), all.holding(c)
	d := now.bestIn(in)
	short.Domain = c.near.tree.domains[d].value
	short.AroundLevel, short.Around = c.near.tree.levels[c.near.tree.domains[in].level], c.near.tree.domains[in].value
	short.Fit = int32(min(now.in(d), int64(set.Count))) //nolint:gosec // a count
	short.Usable = int32(ideally.in(d))                 //nolint:gosec // few
	return short
}

// bestIn is the domain of the required level with the most room within another, that one itself if it is none wider.
func (h holding) bestIn(within int32) int32 {
	t, best := h.near.tree, within
	if t.domains[within].level >= h.near.required {
		return within
	}
	for i := range t.domains {
		d := int32(i)
		if t.domains[d].level != h.near.required {
			continue
		}
		if at, _ := t.above(d, t.domains[within].level); at == within &&
			(best == within || h.in(d) > h.in(best) || h.in(d) == h.in(best) && t.compare(d, best) < 0) {
			best = d
		}
	}
	return best
}

// choice is sets that must be in one domain, and the domains that could be it.
type choice struct {
	tie
	label string
	sets  []int
	// around are the choices of which the domain must be within theirs.
	around []int
	// tree is that of one of the sets, by: of the one that has the most levels around, so that its domains are within one
	// of each other's.
	tree *tree
	by   int
	// domains are those that could be it, of that tree, those with the least room first; at is the one that is tried.
	domains []int32
	at      int
	// demand is how much the sets have of the packed resource.
	demand int64
	// like is the choice before of a set that asks for the same, -1 if there is none.
	like int
}

// domainSearch places sets that found no place in the domains that are best for each alone: it tries the others, those
// with the least room first, and in each choice all ways to place the sets there.
type domainSearch struct {
	s       *Nodes
	r       Request
	turn    []int
	spots   [][]Spot
	choices []choice
	// in is the narrowest domain chosen for each set, of its tree; -1 if it requires none.
	in []int32
	// sample is a node in each domain, by tree, and supply what is free of the packed resource.
	sample map[*tree][]int
	supply map[*tree][]int64
	// demand is how much of the packed resource the sets have for which a domain is chosen.
	demand map[*tree][]int64
	// tries and looks are how many of each may still be made.
	tries, looks int
}

func (s *Nodes) inDomains(r Request, turn []int, spots [][]Spot) outcome {
	return s.search(r, turn, spots, maxDomainTries).run()
}

// search is one that tries so many choices of domains at most.
func (s *Nodes) search(r Request, turn []int, spots [][]Spot, tries int) *domainSearch {
	return &domainSearch{
		s: s, r: r, turn: turn, spots: spots, in: slices.Repeat([]int32{-1}, len(r.Sets)),
		sample: map[*tree][]int{}, supply: map[*tree][]int64{}, demand: map[*tree][]int64{},
		tries: min(tries, 1+maxNodeLooks/max(1, len(s.order))), looks: maxDomainLooks,
	}
}

func (x *domainSearch) run() outcome {
	x.list()
	for k := range x.choices {
		if len(x.choices[k].domains) == 0 {
			return impossible
		}
	}
	return x.choose(0)
}

// choose tries the domains of a choice and of those behind it.
func (x *domainSearch) choose(k int) outcome {
	if k == len(x.choices) {
		return x.place()
	}
	c, worst, from := &x.choices[k], impossible, 0
	if c.like >= 0 {
		from = x.choices[c.like].at // the other way round is the same
	}
	for c.at = from; c.at < len(c.domains); c.at++ {
		if x.tries <= 0 || x.looks <= 0 {
			return gaveUp
		}
		x.looks--
		d := c.domains[c.at]
		if !x.inside(k, d) {
			continue
		}
		counts := !x.counted(k, d)
		if counts && x.demand[c.tree][d]+c.demand > x.supply[c.tree][d] {
			continue
		}
		if counts {
			x.demand[c.tree][d] += c.demand
		}
		is := x.choose(k + 1)
		if counts {
			x.demand[c.tree][d] -= c.demand
		}
		switch is {
		case found:
			return found
		case gaveUp:
			worst = gaveUp
		default:
		}
	}
	return worst
}

// place tries the domains that are chosen.
func (x *domainSearch) place() outcome {
	x.tries--
	for i := range x.in {
		x.in[i] = -1
	}
	for _, c := range x.choices {
		d := c.domains[c.at]
		for _, i := range c.sets {
			t := x.r.Sets[i].Class.near.tree
			at, in := d, true
			if t != c.tree {
				at, in = t.above(x.s.domainOf(t, x.sample[c.tree][d]), slices.Index(t.levels, c.label))
			}
			if !in {
				return impossible // for this set these nodes are in no such domain
			}
			if was := x.in[i]; was < 0 || t.domains[at].level > t.domains[was].level {
				x.in[i] = at
			}
		}
	}
	if _, ok := x.s.inTurn(x.r, x.turn, x.spots, x.in); ok {
		return found
	}
	return x.s.exact(x.r, x.turn, x.spots, x.in)
}

// inside reports whether a domain is within those chosen around it, and around those within it.
func (x *domainSearch) inside(k int, d int32) bool {
	for j := range x.choices[:k] {
		o := &x.choices[j]
		if slices.Contains(x.choices[k].around, j) && !x.within(k, d, j, o.domains[o.at]) ||
			slices.Contains(o.around, k) && !x.within(j, o.domains[o.at], k, d) {
			return false
		}
	}
	return true
}

// within reports whether the domain of one choice is within that of another.
func (x *domainSearch) within(k int, d int32, j int, of int32) bool {
	t := x.choices[j].tree
	at, in := t.above(x.s.domainOf(t, x.sample[x.choices[k].tree][d]), x.choices[j].level)
	return in && at == of
}

// counted reports whether some of the sets of a choice were counted in a domain with a choice before.
func (x *domainSearch) counted(k int, d int32) bool {
	c := &x.choices[k]
	return slices.ContainsFunc(x.choices[:k], func(o choice) bool {
		return o.tree == c.tree && o.domains[o.at] == d &&
			slices.ContainsFunc(o.sets, func(i int) bool { return slices.Contains(c.sets, i) })
	})
}

// list makes the choices: the sets that require a domain, those together that must share it, wider ones before those
// within them.
func (x *domainSearch) list() {
	for _, i := range x.turn {
		set := &x.r.Sets[i]
		var around []int
		for _, t := range set.ties() {
			k := -1
			if t.name != "" {
				k = slices.IndexFunc(
					x.choices,
					func(c choice) bool { return c.name == t.name && c.label == set.label(t) },
				)
			}
			if k < 0 {
				k = len(x.choices)
				x.choices = append(x.choices, choice{
					tie: t, label: set.label(t), tree: set.Class.near.tree, by: i, like: -1,
				})
			}
			c := &x.choices[k]
			if t.level > c.level {
				c.level, c.tree, c.by = t.level, set.Class.near.tree, i
			}
			c.sets = append(c.sets, i)
			c.demand += int64(set.Count) * set.Class.pack
			for _, j := range around {
				if !slices.Contains(c.around, j) {
					c.around = append(c.around, j)
				}
			}
			around = append(around, k)
		}
	}
	for k := range x.choices {
		x.count(x.choices[k].tree)
		x.choices[k].domains = x.domainsFor(&x.choices[k])
		x.choices[k].like = x.likeBefore(k)
	}
}

// likeBefore is the last choice before one for a set alone that asks for what its set does, in the same groups; -1 if
// there is none. The sets can change places.
func (x *domainSearch) likeBefore(k int) int {
	c := &x.choices[k]
	if c.name != "" {
		return -1
	}
	set := &x.r.Sets[c.sets[0]]
	for j := k - 1; j >= 0; j-- {
		o := &x.choices[j]
		if of := &x.r.Sets[o.sets[0]]; o.name == "" && of.Class == set.Class && of.Count == set.Count &&
			len(of.Peers)+len(set.Peers) == 0 && slices.Equal(o.around, c.around) {
			return j
		}
	}
	return -1
}

// count finds a node in each domain of a tree, and what is free there.
func (x *domainSearch) count(t *tree) {
	if x.sample[t] != nil {
		return
	}
	for rank := range x.s.order {
		x.s.domainOf(t, rank) // so that all domains are known
	}
	sample, supply := slices.Repeat([]int{-1}, len(t.domains)), make([]int64, len(t.domains))
	for rank, n := range x.s.order {
		free := int64(0)
		if left := n.left(x.r.View); n.TakesWork() && x.s.packID < len(left) {
			free = max(0, left[x.s.packID])
		}
		for d := x.s.domainOf(t, rank); ; d = t.domains[d].in {
			sample[d] = rank
			if supply[d] += free; d == root {
				break
			}
		}
	}
	x.sample[t], x.supply[t], x.demand[t] = sample, supply, make([]int64, len(supply))
}

// domainsFor lists the domains that could be that of a choice: those that have what stays of its sets or, where
// nothing does, room for each, those with the least first.
func (x *domainSearch) domainsFor(c *choice) []int32 {
	var out []int32
	stays := func(n *Node) {
		if n == nil || !n.known {
			return
		}
		if d, in := c.tree.above(x.s.domainOf(c.tree, n.rank), c.level); in && !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	for _, i := range c.sets {
		set := &x.r.Sets[i]
		for _, h := range set.Peers {
			stays(h.Node)
		}
		for k, n := range set.Beside {
			if set.Parents[k] == c.name {
				stays(n)
			}
		}
	}
	if len(out) > 0 {
		return out
	}
	for i, d := range c.tree.domains {
		if d.level == c.level && x.holdsEach(c, int32(i)) {
			out = append(out, int32(i))
		}
	}
	by := x.r.Sets[c.by].Class
	ix := x.s.index(by, x.r.View)
	slices.SortStableFunc(out, func(a, b int32) int {
		return cmp.Or(
			cmp.Compare(ix.domains.of(by.near, a), ix.domains.of(by.near, b)),
			c.tree.compare(a, b),
		)
	})
	return out
}

// holdsEach reports whether a domain has room for each of the sets alone, as far as its rooms say.
func (x *domainSearch) holdsEach(c *choice, d int32) bool {
	for _, i := range c.sets {
		set := &x.r.Sets[i]
		near := set.Class.near
		if near.tree != c.tree || near.skew != nil && len(x.r.Kept)+len(x.r.Taken) > 0 {
			continue // a search will tell
		}
		if x.s.holding(set.Class, &x.s.index(set.Class, x.r.View).domains).in(d) < int64(set.Count) {
			return false
		}
	}
	return true
}

// inDomain reports whether a node is in the domain that a set must be in, if it must be in one.
func (s *Nodes) inDomain(near *nearness, rank int, within []int32, set int) bool {
	if near == nil || within == nil || within[set] < 0 {
		return true
	}
	d, in := near.tree.above(s.domainOf(near.tree, rank), near.tree.domains[within[set]].level)
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
				if h.Node.known && h.Class != nil {
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
