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
	s      *Nodes
	sets   [2]*Set
	ix     [2]*index
	tree   *tree
	view   View
	inside [][]int32
	// parts are, by domain, what is in it: of domains of one shape the same, in the same order.
	parts  [][]pairPart
	shapes []int32
	whole  []bool
	supply []int64 // of the packed resource
	known  map[string]int32
	curves map[int32]*pairCurve
	left   int // sums that the search may still make
	spots  [2][]Spot
}

// pairPart is a domain in a domain or, where inside is -1, a node right below it.
type pairPart struct {
	inside int32
	rank   int
	key    string
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
	p := &pair{
		s: s, sets: [2]*Set{&r.Sets[0], &r.Sets[1]}, view: r.View, tree: r.Sets[0].Class.near.tree,
		known: map[string]int32{}, curves: map[int32]*pairCurve{}, left: min(s.merges, maxPairMerges),
	}
	for i, set := range p.sets {
		p.ix[i] = s.index(set.Class, r.View)
	}
	for level := len(p.tree.levels) - 1; level >= r.Sets[0].Class.near.required; level-- {
		switch is := p.in(level); is {
		case found:
			spots[0], spots[1] = p.spots[0], p.spots[1]
			return true
		case gaveUp:
			return false
		default:
		}
	}
	return false
}

// pairs reports whether a request is two sets of one group of which nothing but room and nearness decides where they
// go.
func (r *Request) pairs() bool {
	if len(r.Sets) != 2 || len(r.Kept)+len(r.Taken) > 0 || r.Sets[0].Group == "" ||
		r.Sets[0].Group != r.Sets[1].Group {
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
		if c.most[0] < p.sets[0].Count || c.most[1] < p.sets[1].Count {
			continue
		}
		is := c.costs[c.at(p.sets[0].Count, p.sets[1].Count)]
		if !is.impossible() && (best < 0 || is.less(&least) || is == least && p.snugger(d, best)) {
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

// snugger is that of one set (near.go), by the room for both.
func (p *pair) snugger(a, b int32) bool {
	f := &finder{s: p.s, near: p.sets[0].Class.near}
	return f.snugger(a, b, func(d int32) int64 { return p.room(0, d) + p.room(1, d) })
}

// arrange lists what is in each domain, once, and finds out which have the same shape.
func (p *pair) arrange() {
	if p.parts != nil {
		return
	}
	domains := p.tree.domains
	p.inside = p.tree.children()
	p.parts, p.shapes = make([][]pairPart, len(domains)), make([]int32, len(domains))
	p.whole, p.supply = make([]bool, len(domains)), make([]int64, len(domains))
	for i := range p.whole {
		p.whole[i] = true
	}
	for rank := range p.s.order {
		if p.ix[0].slots[rank] == 0 && p.ix[1].slots[rank] == 0 {
			continue
		}
		set := 0
		if p.ix[0].slots[rank] == 0 {
			set = 1
		}
		d := p.ix[set].counted[rank]
		p.parts[d] = append(p.parts[d], pairPart{-1, rank, p.nodeKey(rank)})
		p.supply[d] += p.packed(rank)
		p.whole[d] = p.whole[d] && p.ix[set].whole[rank]
	}
	for i := len(domains) - 1; i >= 0; i-- { // a domain comes behind the one that it is in
		for _, in := range p.inside[i] {
			if p.room(0, in)+p.room(1, in) == 0 {
				continue
			}
			p.parts[i] = append(p.parts[i], pairPart{in, 0, strconv.Itoa(int(p.shapes[in]))})
			p.supply[i] += p.supply[in]
			p.whole[i] = p.whole[i] && p.whole[in]
		}
		slices.SortStableFunc(p.parts[i], func(a, b pairPart) int {
			if (a.inside < 0) != (b.inside < 0) {
				return order(a.inside < 0, b.inside < 0)
			}
			return cmp.Compare(a.key, b.key)
		})
		key := binary.AppendVarint(nil, int64(domains[i].level))
		for _, part := range p.parts[i] {
			key = strconv.AppendBool(strconv.AppendQuote(key, part.key), part.inside < 0)
		}
		is, has := p.known[string(key)]
		if !has {
			is = int32(len(p.known)) //nolint:gosec // not more than domains
			p.known[string(key)] = is
		}
		p.shapes[i] = is
	}
}

// nodeKey is equal for nodes that are alike.
func (p *pair) nodeKey(rank int) string {
	var key []byte
	left := p.s.order[rank].left(p.view)
	for i, set := range p.sets {
		key = binary.AppendVarint(key, int64(p.ix[i].slots[rank]))
		for _, n := range set.Class.needs {
			if n.resource < len(left) {
				key = binary.AppendVarint(key, left[n.resource])
			}
		}
	}
	key = binary.AppendVarint(key, p.packed(rank))
	key = strconv.AppendBool(key, p.late(rank))
	return string(strconv.AppendBool(key, p.isWhole(rank)))
}

func (p *pair) packed(rank int) int64 {
	if left := p.s.order[rank].left(p.view); p.s.packID < len(left) {
		return max(0, left[p.s.packID])
	}
	return 0
}

func (p *pair) late(rank int) bool {
	return max(p.ix[0].where[rank], p.ix[1].where[rank]) > maxPack
}

func (p *pair) isWhole(rank int) bool {
	return p.ix[0].slots[rank] > 0 && p.ix[0].whole[rank] || p.ix[1].slots[rank] > 0 && p.ix[1].whole[rank]
}

// curve is that of a domain; nil if it takes too long.
func (p *pair) curve(d int32) *pairCurve {
	if c := p.curves[p.shapes[d]]; c != nil {
		return c
	}
	c := newPairCurve(0, 0)
	nodes := map[string]*pairCurve{}
	for _, part := range p.parts[d] {
		var of *pairCurve
		if part.inside >= 0 {
			of = p.curve(part.inside)
		} else if of = nodes[part.key]; of == nil {
			of = p.nodeCurve(part.rank)
			nodes[part.key] = of
		}
		if of == nil || !p.merge(c, of) {
			return nil
		}
	}
	if level := p.tree.domains[d].level; level >= 0 {
		at := level - max(0, len(p.tree.levels)-levelsInUse) // the narrowest levels count where there are many
		for i := range c.costs {
			is := &c.costs[i]
			if i == 0 || is.impossible() {
				continue
			}
			a, b := int64(i)/int64(c.most[1]+1), int64(i)%int64(c.most[1]+1)
			if at >= 0 {
				one := uint64(1) << (levelBits * (levelsInUse - 1 - at))
				is.domains += one
				is.each += one * uint64(min(a, 1)+min(b, 1)) //nolint:gosec // two at most
			}
			if p.whole[d] && a*p.sets[0].Class.pack+b*p.sets[1].Class.pack < p.supply[d] {
				is.nodes += 1 << brokenDomains
			}
		}
	}
	p.curves[p.shapes[d]] = c
	return c
}

// nodeCurve is what pods on one node cost.
func (p *pair) nodeCurve(rank int) *pairCurve {
	most := [2]int32{}
	for i, set := range p.sets {
		most[i] = min(set.Count, p.ix[i].slots[rank])
	}
	c := newPairCurve(most[0], most[1])
	left, has := p.s.order[rank].left(p.view), p.packed(rank)
	rest := make([]int64, len(left))
	for a := range most[0] + 1 {
		copy(rest, left)
		take(p.sets[0].Class.needs, rest, a)
		b := min(most[1], count(p.sets[1].Class.needs, rest, rest))
		for k := range b + 1 {
			if a+k == 0 {
				continue
			}
			is := pairCost{}
			is.nodes = 1
			is.left = max(0, has-int64(a)*p.sets[0].Class.pack-int64(k)*p.sets[1].Class.pack)
			if p.late(rank) {
				is.nodes += 1 << warnedNodes
			}
			if p.isWhole(rank) && is.left > 0 {
				is.nodes += 1 << brokenNodes
			}
			c.costs[c.at(a, k)] = is
		}
	}
	return c
}

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
		if p.left -= len(of.costs); p.left < 0 {
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
