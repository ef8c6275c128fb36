package place

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strconv"
)

// A group of two pod sets, a leader and its workers for example, of which each alone is near may be far apart all the
// same: the domains that are best for the one have no room for the other. Where nothing but room and nearness counts,
// both are placed at the same time, as one set is (near.go): by the least cost of each number of pods of the one and
// of the other, from nodes upwards. Where that takes too long they are placed one after the other.

// maxPairMerges bounds the work of one search for two sets, in sums of two costs.
const maxPairMerges = 1 << 19

// pair is a search for places of two sets.
type pair struct {
	s    *Nodes
	sets [2]*Set
	ix   [2]*index
	tree *tree
	view View
	// fewer is the set with fewer pods. By it, it is listed how many of the other a node has room for.
	fewer int
	// parts are, by domain, what is in it: of domains of one shape the same, in the same order.
	parts  [][]pairPart
	shapes []int32
	whole  []bool
	supply []int64 // of the packed resource
	// kinds are the nodes that differ.
	kinds []pairKind
	// top is the level of which one domain is to hold all. Domains of four levels in it count, from the widest on. curves
	// are those of the shapes in it.
	top    int
	curves map[int32]*pairCurve
	merges int // sums that the search may still make
	spots  [2][]Spot
	// faulty and blind are as those of a finder.
	faulty, blind bool
}

// pairPart is a domain in a domain or, where inside is -1, a node right below it. What is alike has the same number: the
// shape of the domain or the kind of the node.
type pairPart struct {
	inside int32
	rank   int32
	alike  int32
}

// pairKind is all that is asked of nodes which are alike: for how many pods of the one set and of the other at the same
// time they have room, what they have of the packed resource, and what it costs to use them. Nodes that differ in what no
// pod asks for, or have more than all pods need, are of one kind.
type pairKind struct {
	// row is for how many pods of the other set there is room beside each number of the one with fewer, from none on.
	row         []int32
	packed      int64
	late, whole bool
	faults      int32
	curve       *pairCurve
}

// pairCost is a cost of pods of both sets. Of two with as many domains the one is less with which each set alone is in
// fewer: workers are near each other first, and to their leader then.
type pairCost struct {
	cost
	each uint64 // domains used by each set, of four levels as in cost
}

func (a *pairCost) less(b *pairCost) bool {
	if a.domains != b.domains || a.each == b.each {
		return a.cost.less(&b.cost)
	}
	return a.each < b.each
}

// pairCurve is the least cost of each number of pods of both sets, the second's next to each other, and how it is
// reached: from says by part which of its numbers is part of each.
type pairCurve struct {
	most  [2]int32
	costs []pairCost
	parts []*pairCurve
	from  [][]int32
}

func newPairCurve(a, b int32) *pairCurve {
	c := &pairCurve{most: [2]int32{a, b}, costs: make([]pairCost, int(a+1)*int(b+1))}
	for i := range c.costs[1:] {
		c.costs[1+i].cost = noCost()
	}
	return c
}

func (c *pairCurve) at(a, b int32) int32 { return a*(c.most[1]+1) + b }

// pairNear places two sets of one group, as near to each other as there is a way; false if it is no such request, if
// there is no place, or if it takes too long.
func (s *Nodes) pairNear(r Request, spots [][]Spot) bool {
	if !r.pairs() {
		return false
	}
	is, faulty := s.pairUp(r, spots, false)
	if is == gaveUp && faulty { // with fewer kinds of nodes it may not
		is, _ = s.pairUp(r, spots, true)
	}
	return is == found
}

// pairUp is pairNear with what faults nodes have, or blind to these; faulty says that some have any.
func (s *Nodes) pairUp(
	r Request,
	spots [][]Spot,
	blind bool,
) (is outcome, faulty bool) {
	p := &pair{
		s: s, blind: blind, sets: [2]*Set{&r.Sets[0], &r.Sets[1]}, view: r.View, tree: r.Sets[0].Class.near.tree,
		curves: map[int32]*pairCurve{}, merges: min(s.merges, maxPairMerges),
	}
	if p.sets[1].Count < p.sets[0].Count {
		p.fewer = 1
	}
	for i, set := range p.sets {
		p.ix[i] = s.index(set.Class, r.View)
	}
	for level := len(p.tree.levels) - 1; level >= r.Sets[0].Class.near.required; level-- {
		switch is := p.in(level); is {
		case found:
			spots[0], spots[1] = p.spots[0], p.spots[1]
			return found, p.faulty
		case gaveUp:
			return gaveUp, p.faulty
		default:
		}
	}
	return impossible, p.faulty
}

// pairs reports whether a request is two sets of one group, both with pods, of which nothing but room and nearness
// decides where they go.
func (r *Request) pairs() bool {
	if len(r.Sets) != 2 || len(r.Kept)+len(r.Taken) > 0 || r.Sets[0].Group == "" ||
		r.Sets[0].Group != r.Sets[1].Group || r.Sets[0].Count <= 0 || r.Sets[1].Count <= 0 {
		return false
	}
	a, b := r.Sets[0].Class.near, r.Sets[1].Class.near
	if a == nil || b == nil || a.tree != b.tree || a.required != b.required || a.own != b.own {
		return false
	}
	return !slices.ContainsFunc(r.Sets, func(set Set) bool {
		near := set.Class.near
		return len(near.parents)+len(near.layers)+len(near.limits)+len(set.Class.limits)+len(set.Peers) > 0 ||
			near.skew != nil || near.balanced >= 0
	})
}

// in places both in the best domain of a level.
func (p *pair) in(level int) outcome {
	best, least := int32(-1), pairCost{}
	var chosen *pairCurve
	p.top = level
	clear(p.curves)
	for i := range p.tree.domains {
		d := int32(i)
		if p.tree.domains[d].level != level || !p.hasRoom(d) {
			continue
		}
		p.arrange()
		c := p.curve(d)
		if c == nil {
			return gaveUp
		}
		if !c.holds(p) {
			continue
		}
		if is := c.costs[c.at(p.sets[0].Count, p.sets[1].Count)]; best < 0 || p.better(d, best, is, least) {
			best, least, chosen = d, is, c
		}
	}
	if best < 0 {
		return impossible
	}
	p.take(best, chosen, chosen.at(p.sets[0].Count, p.sets[1].Count))
	return found
}

func (p *pair) room(set int, d int32) int64 { return p.ix[set].domains.of(p.sets[set].Class.near, d) }

func (p *pair) hasRoom(d int32) bool {
	return p.room(0, d) >= int64(p.sets[0].Count) && p.room(1, d) >= int64(p.sets[1].Count)
}

// better is that of one set (near.go), by the room for both.
func (p *pair) better(a, b int32, isA, isB pairCost) bool {
	faultsA, faultsB := isA.faults, isB.faults
	if isA.faults, isB.faults = 0, 0; isA != isB {
		return isA.less(&isB)
	}
	return p.tree.snugger(a, b, faultsA, faultsB, func(d int32) int64 { return p.room(0, d) + p.room(1, d) })
}

// arrange lists what is in each domain, once, and finds out which have the same shape.
func (p *pair) arrange() {
	if p.parts != nil {
		return
	}
	domains, inside := p.tree.domains, p.tree.children()
	p.parts, p.shapes = make([][]pairPart, len(domains)), make([]int32, len(domains))
	p.whole, p.supply = make([]bool, len(domains)), make([]int64, len(domains))
	for i := range p.whole {
		p.whole[i] = true
	}
	p.sort()
	known, key := map[string]int32{}, []byte(nil)
	for i := len(domains) - 1; i >= 0; i-- { // a domain comes behind the one that it is in
		slices.SortFunc(p.parts[i], func(a, b pairPart) int {
			return cmp.Or(cmp.Compare(a.alike, b.alike), cmp.Compare(a.rank, b.rank))
		})
		nodes := len(p.parts[i])
		for _, in := range inside[i] {
			if p.room(0, in)+p.room(1, in) == 0 {
				continue
			}
			p.parts[i] = append(p.parts[i], pairPart{inside: in, alike: p.shapes[in]})
			p.supply[i] += p.supply[in]
			p.whole[i] = p.whole[i] && p.whole[in]
		}
		slices.SortStableFunc(p.parts[i][nodes:], func(a, b pairPart) int { return cmp.Compare(a.alike, b.alike) })
		key = binary.AppendVarint(key[:0], int64(domains[i].level))
		key = binary.AppendVarint(key, int64(nodes))
		for _, part := range p.parts[i] {
			key = binary.AppendVarint(key, int64(part.alike))
		}
		is, has := known[string(key)]
		if !has {
			is = int32(len(known)) //nolint:gosec // not more than domains
			known[string(key)] = is
		}
		p.shapes[i] = is
	}
}

// sort finds out which nodes with room for pods are alike, and puts each into its domain.
func (p *pair) sort() {
	known, kind := map[string]int32{}, pairKind{}
	var key []byte
	var left []int64
	p.allot()
	for rank, n := range p.s.order {
		ix := p.counts(rank)
		if ix == nil {
			continue
		}
		kind.late, kind.whole, kind.faults = ix.where[rank] > maxPack, ix.whole[rank], 0
		if faults := n.spec.Faults; faults > 0 && !p.blind {
			kind.faults, p.faulty = faults, true
		}
		left = n.copyLeft(left[:0], p.view)
		if kind.packed = 0; p.s.packID < len(left) {
			kind.packed = max(0, left[p.s.packID])
		}
		p.fill(&kind, rank, left)
		key = strconv.AppendBool(strconv.AppendBool(key[:0], kind.late), kind.whole)
		key = binary.AppendVarint(key, int64(kind.faults))
		key = binary.AppendVarint(key, kind.packed)
		for _, k := range kind.row {
			key = binary.AppendVarint(key, int64(k))
		}
		is, has := known[string(key)]
		if !has {
			is = int32(len(p.kinds)) //nolint:gosec // not more than nodes
			known[string(key)] = is
			p.kinds = append(p.kinds, kind)
			p.kinds[is].row = slices.Clone(kind.row)
		}
		d := ix.counted[rank]
		p.parts[d] = append(p.parts[d], pairPart{-1, int32(rank), is})
		p.supply[d] += kind.packed
		p.whole[d] = p.whole[d] && kind.whole
	}
}

// counts is the index of a set for which a node has room; nil if it has none for either.
func (p *pair) counts(rank int) *index {
	for _, ix := range p.ix {
		if ix.slots[rank] > 0 {
			return ix
		}
	}
	return nil
}

// allot makes room for the parts of all domains.
func (p *pair) allot() {
	count, all := make([]int, len(p.parts)), 0
	for rank := range p.s.order {
		if ix := p.counts(rank); ix != nil {
			count[ix.counted[rank]]++
			all++
		}
	}
	flat := make([]pairPart, all)
	for d, n := range count {
		p.parts[d], flat = flat[:0:n], flat[n:]
	}
}

// fill counts for how many pods a node has room, of which so much is left, which it takes.
func (p *pair) fill(kind *pairKind, rank int, left []int64) {
	few, many := p.fewer, 1-p.fewer
	most := min(p.sets[many].Count, p.ix[many].slots[rank])
	kind.row = append(kind.row[:0], most)
	for range min(p.sets[few].Count, p.ix[few].slots[rank]) {
		take(p.sets[few].Class.needs, left, 1)
		if most > 0 {
			most = min(most, count(p.sets[many].Class.needs, left, left))
		}
		kind.row = append(kind.row, most)
	}
}

// curve is that of a domain; nil if it takes too long. Of a domain that is to hold all, only that of all counts.
func (p *pair) curve(d int32) *pairCurve {
	c := p.curves[p.shapes[d]]
	if c != nil {
		return c
	}
	if p.tree.domains[d].level > p.top {
		c = p.sum(d, pairBound{})
	} else {
		for _, is := range p.bounds(d) { // the first with which there is a way has the least
			if c = p.sum(d, is); c == nil || c.holds(p) {
				break
			}
		}
	}
	if c == nil {
		return nil
	}
	if level := p.tree.domains[d].level; level >= 0 {
		at := level - (p.top + 1)
		for i := range c.costs {
			is := &c.costs[i]
			if i == 0 || is.impossible() {
				continue
			}
			a, b := int64(i)/int64(c.most[1]+1), int64(i)%int64(c.most[1]+1)
			if at >= 0 && at < levelsInUse {
				one := uint64(1) << (levelBits * (levelsInUse - 1 - at))
				is.domains += one
				is.each += one * uint64(min(a, 1)+min(b, 1)) //nolint:gosec // two at most
			}
			if p.whole[d] && p.pack(a, b) < p.supply[d] {
				is.nodes += 1 << brokenDomains
			}
		}
	}
	p.curves[p.shapes[d]] = c
	return c
}

// sum is what pods in the parts of a domain cost, in so many of them at most as a bound says.
func (p *pair) sum(d int32, is pairBound) *pairCurve {
	c := newPairCurve(0, 0)
	for _, part := range p.parts[d] {
		var of *pairCurve
		if part.inside >= 0 {
			of = p.curve(part.inside)
		} else {
			of = p.nodeCurve(&p.kinds[part.alike])
		}
		if of == nil || !p.merge(c, of) {
			return nil
		}
		is.apply(p, c)
	}
	return c
}

// holds reports whether there is a way to have all pods there.
func (c *pairCurve) holds(p *pair) bool {
	return c.most[0] >= p.sets[0].Count && c.most[1] >= p.sets[1].Count &&
		!c.costs[c.at(p.sets[0].Count, p.sets[1].Count)].impossible()
}

// pairBound is in how many of the domains inside another the pods are at most, and how many pods of each set one of
// these holds at most; no bound if used is 0.
type pairBound struct {
	used    int64
	largest [2]int64
}

// bounds are those to try, one after the other: the fewest domains in which each set alone has room, one more, as many
// as there are.
func (p *pair) bounds(d int32) []pairBound {
	is := pairBound{}
	for k := range p.sets {
		var rooms []int64
		for _, part := range p.parts[d] {
			if part.inside < 0 { // no domain is used for what is on a node
				return []pairBound{{}}
			}
			rooms = append(rooms, p.room(k, part.inside))
		}
		slices.SortFunc(rooms, func(a, b int64) int { return cmp.Compare(b, a) })
		used := int64(0)
		for left := int64(p.sets[k].Count); left > 0 && int(used) < len(rooms); used++ {
			left -= rooms[used]
		}
		is.used, is.largest[k] = max(is.used, used), rooms[0]
	}
	more := is
	more.used++
	return []pairBound{is, more, {}}
}

// apply drops numbers of pods in some of the domains that those which may still be used cannot make up to all.
func (b *pairBound) apply(p *pair, c *pairCurve) {
	if b.used == 0 {
		return
	}
	for i := range c.costs {
		is := &c.costs[i]
		if is.impossible() {
			continue
		}
		pods := [2]int64{int64(i) / int64(c.most[1]+1), int64(i) % int64(c.most[1]+1)}
		left := b.used - int64(is.domains>>(levelBits*(levelsInUse-1)))
		for k, set := range p.sets {
			if left < 0 || pods[k]+left*b.largest[k] < int64(set.Count) {
				is.cost = noCost()
			}
		}
	}
}

// nodeCurve is what pods on a node cost.
func (p *pair) nodeCurve(kind *pairKind) *pairCurve {
	if kind.curve != nil {
		return kind.curve
	}
	most := [2]int32{}
	most[p.fewer], most[1-p.fewer] = int32(len(kind.row)-1), kind.row[0] //nolint:gosec // a number of pods
	kind.curve = newPairCurve(most[0], most[1])
	pods := [2]int32{}
	for few, many := range kind.row {
		for k := range many + 1 {
			if few == 0 && k == 0 {
				continue
			}
			pods[p.fewer], pods[1-p.fewer] = int32(few), k
			is := pairCost{}
			is.nodes, is.faults = 1, int64(kind.faults)
			is.left = max(0, kind.packed-p.pack(int64(pods[0]), int64(pods[1])))
			if kind.late {
				is.nodes += 1 << warnedNodes
			}
			if kind.whole && is.left > 0 {
				is.nodes += 1 << brokenNodes
			}
			kind.curve.costs[kind.curve.at(pods[0], pods[1])] = is
		}
	}
	return kind.curve
}

// pack is how much pods of both take of the packed resource.
func (p *pair) pack(a, b int64) int64 { return a*p.sets[0].Class.pack + b*p.sets[1].Class.pack }

// merge adds a part to a curve; false if it takes too long.
func (p *pair) merge(c, of *pairCurve) bool {
	out := newPairCurve(
		min(p.sets[0].Count, c.most[0]+of.most[0]), min(p.sets[1].Count, c.most[1]+of.most[1]),
	)
	from := make([]int32, len(out.costs))
	for i := len(c.costs) - 1; i >= 0; i-- { // of equal ones the one with the most pods of the first set before the part
		has := &c.costs[i]
		if has.impossible() {
			continue
		}
		if p.merges -= len(of.costs); p.merges < 0 {
			return false
		}
		a, b := int32(i)/(c.most[1]+1), int32(i)%(c.most[1]+1) //nolint:gosec // not above the number of costs
		for k := range min(of.most[0], out.most[0]-a) + 1 {
			for m := range min(of.most[1], out.most[1]-b) + 1 {
				more := &of.costs[of.at(k, m)]
				if more.impossible() {
					continue
				}
				to := out.at(a+k, b+m)
				if is := (pairCost{has.plus(&more.cost), has.each + more.each}); out.costs[to].impossible() ||
					is.less(&out.costs[to]) {
					out.costs[to], from[to] = is, of.at(k, m)
				}
			}
		}
	}
	c.most, c.costs = out.most, out.costs
	c.parts, c.from = append(c.parts, of), append(c.from, from)
	return true
}

// take places so many pods of both in a domain as the curve of its shape says.
func (p *pair) take(d int32, c *pairCurve, state int32) {
	// Numbers of pods before a part was added are those of a smaller curve: its rows are as long as they were then.
	most := make([][2]int32, len(c.parts)+1)
	for i, of := range c.parts {
		for k := range most[i] {
			most[i+1][k] = min(p.sets[k].Count, most[i][k]+of.most[k])
		}
	}
	a, b := state/(c.most[1]+1), state%(c.most[1]+1)
	for i, of := range slices.Backward(c.parts) {
		part := p.parts[d][i]
		n := c.from[i][a*(most[i+1][1]+1)+b]
		k, m := n/(of.most[1]+1), n%(of.most[1]+1)
		a, b = a-k, b-m
		switch {
		case n == 0:
		case part.inside >= 0:
			p.take(part.inside, of, n)
		default:
			for set, pods := range [2]int32{k, m} {
				if pods > 0 {
					p.spots[set] = append(p.spots[set], Spot{p.s.order[part.rank], pods})
				}
			}
		}
	}
}
