package place

import (
	"cmp"
	"math"
	"slices"
)

// Where the pods of a set must be near to each other they go to one domain, as narrow as there is
// one with room for all, and in it to as few domains of each level as possible, the widest first. Of
// equal choices those come first that break the fewest whole domains and nodes and leave the least
// of the packed resource on nodes that they share, so that whole ones stay free; warned nodes only
// if others do not do. Which choice is best is found exactly, by dynamic programming over the tree
// (a knapsack on a tree: the least cost of each number of pods, from nodes upwards).

// maxMerges bounds the work of one search, in sums of two costs. Beyond it, domains are taken one after
// the other, the one with the most room first and the one with the least that suffices last.
const maxMerges = 1 << 22

// cost of pods in a part of a tree; of two, the one that is less by the first of its numbers that differs.
type cost [4]int64

const (
	warnedNodes  = iota // nodes with warnings
	usedDomains         // domains used of each of four levels, the widest in the highest bits
	usedNodes           // nodes used, and the whole domains and whole nodes broken
	leftOnShared        // what is left of the packed resource on the nodes used
)

// Widths of the numbers in one part of a cost.
const (
	levelBits   = 15
	levelsInUse = 4
	brokenBits  = 20
)

var impossibleCost = cost{math.MaxInt64}

func (a *cost) less(b *cost) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

func (a *cost) plus(b *cost) cost {
	return cost{a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]}
}

// alike is a number of nodes of one domain with equal room.
type alike struct {
	ranks []int
	slots int32
	left  int64
	late  bool
	whole bool
}

// part of a domain: a domain in it, or nodes that are alike.
type part struct {
	domain int32 // root for nodes
	nodes  alike
	costs  []cost
	of     *curve
}

// curve is the least cost of each number of pods in a domain, and how it is reached: of k pods on the
// first i+1 parts, from[i][k] are on the last of them.
type curve struct {
	costs []cost
	parts []part
	from  [][]int32
}

// finder searches places for one pod set whose pods must be near to each other.
type finder struct {
	s     *Nodes
	ix    *index
	class *Class
	near  *nearness
	view  View
	// inside are the domains in each domain, nodes the ranks right below it, with room.
	inside [][]int32
	nodes  [][]int
	// kept are pods of the set that stay, by domain; at is the narrowest that has all of them.
	kept  map[int32]int32
	at    int32
	top   int // level of the domain that is searched
	left  int // sums that the search may still make
	spots []Spot
}

// find places a set whose pods must be near, changing nothing; false if there is no place. within is a
// domain of the required level to stay in, or -1.
func (s *Nodes) find(set Set, v View, kept []Hold, within int32) ([]Spot, bool) {
	near := set.Class.near
	ix := s.index(set.Class, v)
	f := &finder{s: s, ix: ix, class: set.Class, near: near, view: v}
	f.arrange()
	if f.keep(kept); len(f.kept) == 0 && !near.divides(set.Count) {
		return nil, false
	}
	domains := near.tree.domains
	for level := len(near.tree.levels) - 1; level >= near.required; level-- {
		best, least := int32(-1), impossibleCost
		var chosen *curve
		greedy := int32(-1)
		for i := range domains {
			d := int32(i) //nolint:gosec // not more than nodes and levels
			if domains[d].level != level || !f.may(d, within) || f.room(d) < int64(set.Count) {
				continue
			}
			f.top, f.left = level, maxMerges
			c := f.curve(d, set.Count)
			if c == nil {
				if greedy < 0 || f.tighter(d, greedy) {
					greedy = d
				}
				continue
			}
			is := c.costs[set.Count]
			if is == impossibleCost {
				continue
			}
			if best < 0 || is.less(&least) || is == least && f.tighter(d, best) {
				best, least, chosen = d, is, c
			}
		}
		switch {
		case best >= 0:
			f.take(chosen, set.Count)
			return f.spots, true
		case greedy >= 0 && f.fillDomain(greedy, set.Count) == 0:
			return f.spots, true
		}
		f.spots = f.spots[:0]
	}
	return nil, false
}

// arrange lists what is in each domain.
func (f *finder) arrange() {
	t := f.near.tree
	f.inside, f.nodes = make([][]int32, len(t.domains)), make([][]int, len(t.domains))
	for i := 1; i < len(t.domains); i++ {
		in := t.domains[i].in
		f.inside[in] = append(f.inside[in], int32(i)) //nolint:gosec // not more than nodes and levels
	}
	for _, inside := range f.inside {
		slices.SortFunc(inside, func(a, b int32) int { return CompareNames(t.domains[a].value, t.domains[b].value) })
	}
	for rank, slots := range f.ix.slots {
		if slots > 0 {
			d := f.ix.counted[rank]
			f.nodes[d] = append(f.nodes[d], rank)
		}
	}
}

// keep counts the pods that stay, by domain.
func (f *finder) keep(kept []Hold) {
	f.at = -1
	t := f.near.tree
	for _, h := range kept {
		if h.Class != f.class || !h.Node.known {
			continue
		}
		if f.kept == nil {
			f.kept = map[int32]int32{}
		}
		d := f.s.domainOf(t, h.Node.rank)
		if f.at < 0 {
			f.at = d
		}
		for at := d; ; at = t.domains[at].in {
			if f.kept[at] += h.Count; at == root {
				break
			}
		}
	}
	total := f.kept[root]
	for f.at > root && f.kept[f.at] < total {
		f.at = t.domains[f.at].in
	}
}

// may reports whether the set may be in a domain: it is within another, and has what stays.
func (f *finder) may(d, within int32) bool {
	t := f.near.tree
	if within >= 0 {
		if at, in := t.above(d, t.domains[within].level); !in || at != within {
			return false
		}
	}
	if f.at < 0 || f.kept[d] == f.kept[root] {
		return true
	}
	// Where what stays is in several domains of the required level, one of these has to do.
	return t.domains[f.at].level < f.near.required && f.kept[d] > 0
}

// room is for how many pods there is room in a domain, slices not observed where some of them stay.
func (f *finder) room(d int32) int64 {
	if len(f.kept) == 0 {
		return f.ix.domains.of(f.near, d)
	}
	room := int64(0)
	for _, rank := range f.nodes[d] {
		room += int64(f.ix.slots[rank])
	}
	for _, in := range f.inside[d] {
		room += f.room(in)
	}
	return room
}

// tighter reports whether less is left in a than in b, or as much and a comes first by name.
func (f *finder) tighter(a, b int32) bool {
	domains := f.near.tree.domains
	return cmp.Or(
		cmp.Compare(f.room(a), f.room(b)),
		CompareNames(domains[a].value, domains[b].value),
		cmp.Compare(a, b),
	) < 0
}

// curve is the least cost of up to so many pods in a domain; nil if that takes too long to find out.
func (f *finder) curve(d int32, want int32) *curve {
	c := &curve{costs: []cost{{}}}
	for _, in := range f.inside[d] {
		if f.room(in) == 0 && f.kept[in] == 0 {
			continue
		}
		of := f.curve(in, want)
		if of == nil {
			return nil
		}
		c.parts = append(c.parts, part{domain: in, of: of, costs: of.costs})
	}
	for _, nodes := range f.groups(d) {
		c.parts = append(c.parts, part{nodes: nodes, costs: f.alikeCosts(nodes, want)})
	}
	whole := f.whole(d)
	for _, p := range c.parts {
		if !f.merge(c, p.costs, want) {
			return nil
		}
	}
	room := f.room(d)
	for k := range c.costs {
		if !f.slicesAt(d, k) {
			c.costs[k] = impossibleCost
			continue
		}
		if k > 0 && d != root {
			f.charge(&c.costs[k], d, whole && int64(k) < room)
		}
	}
	return c
}

// merge adds a part to a curve; false if that takes too long.
func (f *finder) merge(c *curve, more []cost, want int32) bool {
	n := min(len(c.costs)+len(more)-1, int(want)+1)
	sum, from := make([]cost, n), make([]int32, n)
	for k := range sum {
		sum[k] = impossibleCost
	}
	for j := range more {
		if more[j] == impossibleCost {
			continue
		}
		for k := range c.costs {
			if j+k >= n {
				break
			}
			if f.left--; f.left < 0 {
				return false
			}
			if c.costs[k] == impossibleCost {
				continue
			}
			if is := c.costs[k].plus(&more[j]); is.less(&sum[j+k]) {
				sum[j+k], from[j+k] = is, int32(j) //nolint:gosec // not above want
			}
		}
	}
	c.costs, c.from = sum, append(c.from, from)
	return true
}

// slicesAt reports whether a domain may have so many more pods by its slices.
func (f *finder) slicesAt(d int32, k int) bool {
	for _, l := range f.near.layers {
		if l.level == f.near.tree.domains[d].level && (int64(k)+int64(f.kept[d]))%l.size != 0 {
			return false
		}
	}
	return true
}

// charge adds what it costs to use a domain.
func (f *finder) charge(c *cost, d int32, breaks bool) {
	depth := f.near.tree.domains[d].level - f.top
	if f.kept[d] == 0 && depth > 0 && depth <= levelsInUse {
		c[usedDomains] += 1 << (levelBits * (levelsInUse - depth))
	}
	if breaks {
		c[usedNodes] += 1 << brokenBits
	}
}

// whole reports whether nothing is held on the nodes of a domain that the set may use.
func (f *finder) whole(d int32) bool {
	for _, rank := range f.nodes[d] {
		if !f.wholeNode(rank) {
			return false
		}
	}
	for _, in := range f.inside[d] {
		if !f.whole(in) {
			return false
		}
	}
	return true
}

func (f *finder) wholeNode(rank int) bool {
	n := f.s.order[rank]
	id := f.s.packID
	return id >= len(n.cap) || n.cap[id] == 0 || n.left(f.view)[id] == n.cap[id]
}

// groups are the nodes right below a domain, those together that are alike.
func (f *finder) groups(d int32) []alike {
	var out []alike
	for _, rank := range f.nodes[d] {
		b := f.ix.where[rank]
		is := alike{slots: f.ix.slots[rank], left: int64(b % (maxPack + 1)), late: b > maxPack, whole: f.wholeNode(rank)}
		i := slices.IndexFunc(out, func(o alike) bool {
			return o.slots == is.slots && o.left == is.left && o.late == is.late && o.whole == is.whole
		})
		if i < 0 {
			i, out = len(out), append(out, is)
		}
		out[i].ranks = append(out[i].ranks, rank)
	}
	return out
}

// alikeCosts are the costs of up to so many pods on nodes that are alike: as few nodes as possible, the
// last of them as far as it is needed.
func (f *finder) alikeCosts(a alike, want int32) []cost {
	most := min(int64(want), int64(a.slots)*int64(len(a.ranks)))
	out := make([]cost, most+1)
	for k := int64(1); k <= most; k++ {
		full, rest := k/int64(a.slots), k%int64(a.slots)
		c := &out[k]
		f.chargeNodes(c, a, full, int64(a.slots))
		if rest > 0 {
			f.chargeNodes(c, a, 1, rest)
		}
	}
	return out
}

// chargeNodes adds what it costs to put so many pods on each of so many nodes.
func (f *finder) chargeNodes(c *cost, a alike, nodes, pods int64) {
	if a.late {
		c[warnedNodes] += nodes
	}
	c[usedNodes] += nodes << (2 * brokenBits)
	left := max(0, a.left-pods*f.class.pack)
	c[leftOnShared] += nodes * left
	if a.whole && left > 0 {
		c[usedNodes] += nodes
	}
}

// take places so many pods as a curve says.
func (f *finder) take(c *curve, k int32) {
	for i := len(c.parts) - 1; i >= 0; i-- {
		n := c.from[i][k]
		if k -= n; n == 0 {
			continue
		}
		p := &c.parts[i]
		if p.of != nil {
			f.take(p.of, n)
			continue
		}
		f.fillNodes(p.nodes, n)
	}
}

// fillNodes places pods on nodes that are alike.
func (f *finder) fillNodes(a alike, n int32) {
	for _, rank := range a.ranks {
		if n == 0 {
			return
		}
		k := min(n, a.slots)
		f.spots = append(f.spots, Spot{f.s.order[rank], k})
		n -= k
	}
}

// fillDomain places so many pods in a domain without a search, and returns how many are left over: those
// that fit in one part go to the smallest that holds them, else the largest is filled.
func (f *finder) fillDomain(d int32, want int32) int32 {
	type rest struct {
		domain int32
		nodes  alike
		room   int64
	}
	var parts []rest
	for _, in := range f.inside[d] {
		parts = append(parts, rest{domain: in, room: f.room(in)})
	}
	for _, g := range f.groups(d) {
		parts = append(parts, rest{nodes: g, room: int64(g.slots) * int64(len(g.ranks))})
	}
	for want > 0 && len(parts) > 0 {
		best := 0
		for i := range parts {
			a, b := &parts[i], &parts[best]
			switch fits := a.room >= int64(want); {
			case fits && (b.room < int64(want) || a.room < b.room), !fits && a.room > b.room:
				best = i
			}
		}
		p := parts[best]
		parts = slices.Delete(parts, best, best+1)
		n := int32(min(int64(want), p.room)) //nolint:gosec // not above want
		if p.domain != root {
			for _, l := range f.near.layers {
				if l.level == f.near.tree.domains[p.domain].level {
					n -= (n + f.kept[p.domain]) % int32(l.size) //nolint:gosec // a number of pods
				}
			}
			if n > 0 {
				want -= n - f.fillDomain(p.domain, n)
			}
			continue
		}
		f.fillNodes(p.nodes, n)
		want -= n
	}
	return want
}
