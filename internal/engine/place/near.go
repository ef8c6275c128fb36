package place

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
)

// Where the pods of a set must be near to each other they go to one domain, as narrow as there is
// one with room for all, and in it to as few domains of each level as possible, the widest first. Of
// equal choices those come first that use the fewest warned nodes, break the fewest whole domains and nodes,
// so that these stay free, use the fewest nodes, and leave the least of the packed resource on them; of equal domains
// the one in which the least is left, and around which, so that a block in use is used before a whole one, and then the
// one on whose nodes the fewest faults are. Which
// choice is best is found exactly, by dynamic programming over the tree (a knapsack on a tree: the least
// cost of each number of pods, from nodes upwards).

// maxMerges bounds the work of one search, in sums of two costs. Beyond it, domains are taken one after
// the other, the one with the most room first and the one with the least that suffices last.
const maxMerges = 1 << 22

// cost of pods in a part of a tree. Of two, the one is less whose first number that differs is.
type cost struct {
	// domains used of each of four levels, the widest in the highest bits.
	domains uint64
	// nodes are, from the highest bits: nodes with warnings, whole domains broken, whole nodes broken, nodes.
	nodes uint64
	// left is what is left of the packed resource on the nodes used.
	left int64
	// faults are those of the nodes used.
	faults int64
}

// Where the numbers of a cost stand.
const (
	levelBits     = 15
	levelsInUse   = 4
	brokenNodes   = 16
	brokenDomains = 32
	warnedNodes   = 48
)

// noCost is that of what cannot be.
func noCost() cost { return cost{domains: math.MaxUint64} }

func (a *cost) impossible() bool { return a.domains == math.MaxUint64 }

func (a *cost) less(b *cost) bool {
	switch {
	case a.domains != b.domains:
		return a.domains < b.domains
	case a.nodes != b.nodes:
		return a.nodes < b.nodes
	case a.left != b.left:
		return a.left < b.left
	}
	return a.faults < b.faults
}

// apart are a cost without faults, and these.
func (a *cost) apart() (is cost, faults int64) {
	is, faults = *a, a.faults
	is.faults = 0
	return is, faults
}

func (a *cost) plus(b *cost) cost {
	return cost{a.domains + b.domains, a.nodes + b.nodes, a.left + b.left, a.faults + b.faults}
}

// alike is a number of nodes of one domain with equal room.
type alike struct {
	ranks []int
	slots int32
	left  int64
	late  bool
	whole bool
	// faults are those of each.
	faults int32
}

// part of a domain: a domain in it, or nodes that are alike. Which ones, it says by their places in the lists of the
// domain, so that it holds for every domain of the same shape.
type part struct {
	inside int // -1 for nodes
	nodes  int
	costs  []cost
	first  int // the least number of pods but none that has a cost
	of     *curve
}

// curve is the least cost of each number of pods in a domain, and how it is reached: of k pods on the
// first i+1 parts, from[i][k] are on the last of them.
type curve struct {
	costs []cost
	first int
	parts []part
	from  [][]int32
}

// curveKey is what a curve depends on: the shape of the domain, the widest level that counts, and the numbers of pods.
type curveKey struct {
	shape       int32
	top         int
	least, most int32
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
	// rooms is for how many pods there is room in each domain, unlimited the same but for limits of domains, whole says
	// of which nothing is held.
	rooms     []int64
	unlimited []int64
	whole     []bool
	// kinds are the nodes right below each domain, those together that are alike. Domains of one shape have the same
	// kinds of nodes and the same shapes inside, in the same order, and so the same curves, which are computed once.
	kinds  [][]alike
	shapes []int32
	curves map[curveKey]*curve
	// kept are pods of the set that stay, and of others that it must be near to, by domain; at is the narrowest that has
	// all of them. sliced are those that its slices have, the set's own.
	kept   map[int32]int32
	sliced map[int32]int32
	at     int32
	// own are all pods of the workload that have places, unbooked those of them that are booked on no node; taken is
	// what is taken of the limits of domains.
	own, unbooked []Hold
	taken         []map[int32]int64
	top           int // level of the domain that is searched
	left          int // sums that the search may still make
	spots         []Spot
	// faulty says that some nodes have more faults than others, so that there are more kinds of them, blind that this is
	// not looked at, and tired that a search took too long.
	faulty, blind, tired bool
}

// find places a set whose pods must be near, changing nothing; false if there is no place. within is a
// domain of the required level to stay in, or -1; own are the pods of the workload that have places.
func (s *Nodes) find(set Set, v View, within int32, own []Hold) ([]Spot, bool) {
	near := set.Class.near
	ix := s.index(set.Class, v)
	if near.skew != nil && s.emptied(set.Class).over == nil {
		near = near.withoutField()
	}
	f := &finder{s: s, ix: ix, class: set.Class, near: near, view: v, own: own, blind: !s.faulty()}
	spots, ok := f.search(set, within)
	if f.vain() { // whatever else is better or worse counts more
		f = &finder{s: s, ix: ix, class: set.Class, near: near, view: v, own: own, blind: true}
		return f.search(set, within)
	}
	return spots, ok
}

// faulty reports whether a node has faults: the last in their order has the most.
func (s *Nodes) faulty() bool { return len(s.order) > 0 && s.order[len(s.order)-1].spec.Faults > 0 }

// vain reports whether the search is made anew without faults, whatever this one finds.
func (f *finder) vain() bool { return f.tired && f.faulty }

// search is find, with what faults nodes have or without.
func (f *finder) search(set Set, within int32) ([]Spot, bool) {
	near := f.near
	f.keep(set.Peers)
	if len(f.kept)+len(near.limits) == 0 && near.skew == nil && !near.wide && near.divides(set.Count) {
		if n, ok := f.onOneNode(set.Count, within); ok {
			return []Spot{{n, set.Count}}, true
		}
	}
	f.arrange()
	f.measure()
	if len(f.kept) == 0 && !near.divides(set.Count) {
		return nil, false
	}
	if near.skew != nil {
		return f.spots, f.spread(set.Count, within)
	}
	return f.spots, f.nearest(set.Count, within)
}

// nearest places pods in one domain that is as narrow as possible or, if they should have equal shares of domains of
// a level and one does not hold all, or they should be spread, in such shares; false if there is no place.
func (f *finder) nearest(want, within int32) bool {
	near := f.near
	domains := near.tree.domains
	if near.wide && f.balance(near.preferred, want, within) {
		return true
	}
	for level := len(near.tree.levels) - 1; level >= near.required && !f.vain(); level-- {
		if level == near.balanced-1 && !near.wide && f.balance(level, want, within) {
			return true
		}
		best, least := int32(-1), noCost()
		var chosen *curve
		greedy := int32(-1)
		for i := range domains {
			d := int32(i)
			if domains[d].level != level || !f.may(d, within) || f.room(d) < int64(want) {
				continue
			}
			f.top, f.left = level, f.s.merges
			c := f.curve(d, want, want)
			if f.vain() {
				return false
			}
			if c == nil {
				if greedy < 0 || f.tighter(d, greedy) {
					greedy = d
				}
				continue
			}
			is := c.costs[want]
			if is.impossible() {
				continue
			}
			if best < 0 || f.better(d, best, &is, &least, f.room) {
				best, least, chosen = d, is, c
			}
		}
		switch {
		case best >= 0:
			f.take(best, chosen, want)
			return true
		case greedy >= 0 && f.fillDomain(greedy, want) == 0:
			return true
		}
		f.spots = f.spots[:0]
	}
	return false
}

// onOneNode is the best node for a whole set, in one of the narrowest domains, where one can be sure without a
// search that no choice of several is better: it has no warning and nothing whole is broken. false if there is none.
func (f *finder) onOneNode(want, within int32) (*Node, bool) {
	t := f.near.tree
	if !slices.ContainsFunc(f.ix.slots, func(slots int32) bool { return slots >= want }) {
		return nil, false
	}
	f.top = len(t.levels) - 1
	if n := f.onBrokenNode(want, within); n != nil {
		return n, true
	}
	whole := make([]bool, len(t.domains))
	for i := range whole {
		whole[i] = true
	}
	for rank, slots := range f.ix.slots {
		if slots > 0 && !f.ix.whole[rank] {
			whole[f.ix.counted[rank]] = false
		}
	}
	best, at, least := -1, root, noCost()
	for rank, slots := range f.ix.slots {
		d := f.ix.counted[rank]
		if slots < want || t.domains[d].level != f.top || f.ix.where[rank] > maxPack || !f.may(d, within) {
			continue
		}
		room := f.freely(d)
		if room < int64(want) {
			continue // of no whole slice
		}
		is := cost{}
		f.chargeNodes(&is, f.likeness(rank), 1, int64(want))
		f.charge(&is, d, whole[d] && int64(want) < room)
		if best < 0 || f.better(d, at, &is, &least, f.freely) {
			best, at, least = rank, d, is
		}
	}
	if best < 0 || want > 1 && least.nodes > 1 {
		return nil, false // several nodes may break less
	}
	return f.s.order[best], true
}

// onBrokenNode is what onOneNode finds among nodes without a warning that are in use already, if there is such a one:
// with it nothing whole is broken, so that only how much is left matters. It looks at no more nodes than have as much left.
func (f *finder) onBrokenNode(want, within int32) (found *Node) {
	best, at, used := -1, root, false
	for b := range maxPack + 1 {
		f.ix.rooms[b].each(func(rank int) bool {
			d := f.ix.counted[rank]
			if f.ix.slots[rank] < want || f.near.tree.domains[d].level != f.top || !f.may(d, within) {
				return true
			}
			if f.freely(d) < int64(want) {
				return true // of no whole slice
			}
			if f.ix.whole[rank] {
				used = int64(b) <= int64(want)*f.class.pack // then it is not broken, and may do as well
				return !used
			}
			if best < 0 || d != at && f.better(d, at, f.faultsOf(rank), f.faultsOf(best), f.freely) {
				best, at = rank, d
			}
			return true
		})
		switch {
		case used:
			return nil
		case best >= 0:
			return f.s.order[best]
		}
	}
	return nil
}

// arrange lists what is in each domain.
func (f *finder) arrange() {
	t := f.near.tree
	f.inside, f.nodes = t.children(), make([][]int, len(t.domains))
	count, all := make([]int, len(t.domains)), 0
	for rank, slots := range f.ix.slots {
		if slots > 0 {
			count[f.ix.counted[rank]]++
			all++
		}
	}
	flat := make([]int, all)
	for d, n := range count {
		f.nodes[d], flat = flat[:0:n], flat[n:]
	}
	for rank, slots := range f.ix.slots {
		if slots > 0 {
			d := f.ix.counted[rank]
			f.nodes[d] = append(f.nodes[d], rank)
		}
	}
}

// keep counts the pods that stay, by domain.
func (f *finder) keep(peers []Hold) {
	f.at = -1
	t := f.near.tree
	for _, h := range peers {
		if !h.Node.known {
			continue
		}
		if f.kept == nil {
			f.kept, f.sliced = map[int32]int32{}, map[int32]int32{}
		}
		d := f.s.domainOf(t, h.Node.rank)
		if f.at < 0 {
			f.at = d
		}
		for at := d; ; at = t.domains[at].in {
			if h.Class != nil {
				f.sliced[at] += h.Count
			}
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

// measure finds out the room in each domain, slices not observed where some pods stay, and which are whole.
func (f *finder) measure() {
	domains := f.near.tree.domains
	f.rooms, f.whole = make([]int64, len(domains)), make([]bool, len(domains))
	f.unlimited, f.kinds = f.rooms, make([][]alike, len(domains))
	if len(f.near.limits) > 0 {
		f.unlimited = make([]int64, len(domains))
	}
	for i := len(domains) - 1; i >= 0; i-- { // a domain comes behind the one that it is in
		f.whole[i], f.kinds[i] = true, f.kindsOf(f.nodes[i])
		for _, k := range f.kinds[i] {
			f.rooms[i] += int64(k.slots) * int64(len(k.ranks))
			f.whole[i] = f.whole[i] && k.whole
		}
		for _, in := range f.inside[i] {
			f.rooms[i] += f.rooms[in]
			f.whole[i] = f.whole[i] && f.whole[in]
		}
		if len(f.near.limits) > 0 {
			d := int32(i) //nolint:gosec // not more than nodes and levels
			f.unlimited[i] += f.rooms[i]
			for _, in := range f.inside[i] {
				f.unlimited[i] += f.unlimited[in] - f.rooms[in]
			}
			f.unlimited[i] = f.near.sliced(domains[i].level, f.unlimited[i])
			f.rooms[i] = f.near.within(&domains[i], f.rooms[i], func(l int) int64 { return f.limitTaken(d, l) })
		}
		if len(f.kept) == 0 {
			f.rooms[i] = f.near.sliced(domains[i].level, f.rooms[i])
		}
	}
	if len(f.near.limits) > 0 {
		for i := range domains {
			f.rooms[i] = f.near.withinAbove(int32(i), f.rooms[i], f.limitTaken)
		}
	}
	f.shape()
}

// shape finds out which domains have the same shape. Where pods stay each has one of its own.
func (f *finder) shape() {
	domains := f.near.tree.domains
	f.shapes, f.curves = make([]int32, len(domains)), map[curveKey]*curve{}
	known, key := map[string]int32{}, []byte(nil)
	for i := len(domains) - 1; i >= 0; i-- {
		if len(f.kept) > 0 {
			f.shapes[i] = int32(i) //nolint:gosec // not more than nodes and levels
			continue
		}
		key = binary.AppendVarint(key[:0], int64(domains[i].level))
		key = binary.AppendVarint(key, f.rooms[i])
		key = binary.AppendVarint(key, f.unlimited[i])
		for _, k := range f.kinds[i] {
			key = binary.AppendVarint(key, int64(k.slots))
			key = binary.AppendVarint(key, k.left)
			key = binary.AppendVarint(key, int64(len(k.ranks)))
			key = strconv.AppendBool(strconv.AppendBool(key, k.late), k.whole)
			key = binary.AppendVarint(key, int64(k.faults))
		}
		key = append(key, '/')
		for _, in := range f.inside[i] {
			key = binary.AppendVarint(key, int64(f.shapes[in]))
		}
		is, has := known[string(key)]
		if !has {
			is = int32(len(known)) //nolint:gosec // not more than domains
			known[string(key)] = is
		}
		f.shapes[i] = is
	}
}

func (f *finder) room(d int32) int64 { return f.rooms[d] }

// freely is the room in a domain as the class counts it, which is known before measure.
func (f *finder) freely(d int32) int64 { return f.ix.domains.of(f.near, d) }

// tighter is snugger by the room that was measured.
func (f *finder) tighter(a, b int32) bool { return f.snugger(a, b, f.room) }

// snugger reports whether less is left in a than in b or, where it is as much, in the domains around them, from the
// narrowest on, so that a block that is in use is used before a whole one; or as much and a comes first by name.
func (f *finder) snugger(a, b int32, room func(int32) int64) bool {
	return f.near.tree.snugger(a, b, 0, 0, room)
}

// snugger is that of a finder; of domains in which as much is left, that in which the nodes used have fewer faults is first.
func (t *tree) snugger(a, b int32, faultsA, faultsB int64, room func(int32) int64) bool {
	for x, y := a, b; x != y; x, y = t.domains[x].in, t.domains[y].in {
		if is := cmp.Compare(room(x), room(y)); is != 0 {
			return is < 0
		}
	}
	return cmp.Or(cmp.Compare(faultsA, faultsB), t.compare(a, b)) < 0
}

// better reports whether a place in domain a that costs so much is better than one in b: faults count only where nothing
// else does but names.
func (f *finder) better(a, b int32, costA, costB *cost, room func(int32) int64) bool {
	isA, faultsA := costA.apart()
	isB, faultsB := costB.apart()
	if isA != isB {
		return isA.less(&isB)
	}
	return f.near.tree.snugger(a, b, faultsA, faultsB, room)
}

// faultsOf is the cost that nothing but the faults of a node is.
func (f *finder) faultsOf(rank int) *cost { return &cost{faults: int64(f.likeness(rank).faults)} }

// curve is the least cost in a domain of each number of pods from the least to the most, and of none; nil if
// that takes too long to find out.
func (f *finder) curve(d int32, least, most int32) *curve {
	key := curveKey{f.shapes[d], f.top, least, most}
	c := f.curves[key]
	if c == nil {
		if c = f.newCurve(d, least, most); c != nil {
			f.curves[key] = c
		}
	}
	return c
}

func (f *finder) newCurve(d int32, least, most int32) *curve {
	c := &curve{costs: make([]cost, 1, most+1), first: 1}
	few := fewest{low: 1}
	if len(f.kinds[d]) == 0 && len(f.kept) == 0 {
		few = f.fewest(d, least, most)
	}
	for i, in := range f.inside[d] {
		switch {
		case f.kept[in] > 0:
		case f.room(in) < int64(few.low) || few.enough(f.shapes[in]):
			continue
		}
		of := f.curve(in, few.low, int32(min(int64(most), f.room(in)))) //nolint:gosec // not above most
		if of == nil {
			return nil
		}
		c.parts = append(c.parts, part{inside: i, of: of, costs: of.costs, first: of.first})
	}
	for i, nodes := range f.kinds[d] {
		c.parts = append(c.parts, part{inside: -1, nodes: i, costs: f.alikeCosts(nodes, most), first: 1})
	}
	for i := range c.parts {
		if !f.merge(c, &c.parts[i], most) {
			return nil
		}
		few.apply(c.costs)
	}
	c.first = max(1, int(least))
	for k := range c.costs {
		if k > 0 && k < c.first || !f.slicesAt(d, k) {
			c.costs[k] = noCost()
			continue
		}
		if k > 0 && d != root && !c.costs[k].impossible() {
			f.charge(&c.costs[k], d, f.whole[d] && int64(k) < f.unlimited[d])
		}
	}
	return c
}

// fewest is what follows from that some pods are in as few of the domains inside another as possible.
type fewest struct {
	// low is how few pods one of these domains may have, if any: the largest of them, all but one, are filled.
	low int32
	// copies is how many of them are used at most, if that is known, and so how many of one shape are of use; seen are
	// those of each shape so far.
	copies int
	seen   map[int32]int
	// Numbers of pods in some of the domains lead nowhere that the domains which may still be used cannot make up to
	// what is wanted: want, of the used with the largest room each; shift is where a cost has the number of domains.
	want, used, largest int64
	shift               int
}

// fewest is for a number of pods in a range.
func (f *finder) fewest(d int32, least, most int32) fewest {
	rooms := make([]int64, 0, len(f.inside[d]))
	for _, in := range f.inside[d] {
		rooms = append(rooms, f.room(in))
	}
	slices.SortFunc(rooms, func(a, b int64) int { return cmp.Compare(b, a) })
	is := fewest{low: 1}
	depth := f.near.tree.domains[d].level + 1 - f.top
	counts := depth > 0 && depth <= levelsInUse
	if counts {
		sum := int64(0)
		for is.copies = 0; is.copies < len(rooms) && sum < int64(most); is.copies++ {
			sum += rooms[is.copies]
		}
		is.seen = map[int32]int{}
	}
	filled, used := int64(0), int64(0)
	for _, room := range rooms {
		used++
		if filled+room >= int64(least) {
			if filled+room < int64(most) {
				return is // one more domain is needed for some
			}
			break
		}
		filled += room
	}
	if least == most && used > 0 && counts {
		is.want, is.used, is.largest = int64(least), used, rooms[0]
		is.shift = levelBits * (levelsInUse - depth)
	}
	is.low = max(1, int32(int64(least)-filled)) //nolint:gosec // not above least
	return is
}

// enough reports whether as many domains of a shape were looked at as may be used; if not, it counts one more.
func (x *fewest) enough(shape int32) bool {
	if x.seen == nil {
		return false
	}
	x.seen[shape]++
	return x.seen[shape] > x.copies
}

// apply drops the costs of numbers of pods that lead nowhere.
func (x *fewest) apply(costs []cost) {
	if x.want == 0 {
		return
	}
	for k := range costs {
		if costs[k].impossible() {
			continue
		}
		used := int64(costs[k].domains >> x.shift & (1<<levelBits - 1))
		if int64(k)+(x.used-used)*x.largest < x.want {
			costs[k] = noCost()
		}
	}
}

// merge adds a part to a curve; false if that takes too long. Sums are made for the highest number of pods first, so
// that each is of costs without the part; of equal sums the one with the most pods in the part stays, but none of it
// where that costs no more.
func (f *finder) merge(c *curve, p *part, most int32) bool {
	n := min(len(c.costs)+len(p.costs)-1, int(most)+1)
	from, needed := make([]int32, n), p.costs[0].impossible() // what stays there needs more to be whole slices
	was := len(c.costs)
	for range n - was {
		c.costs = append(c.costs, noCost())
	}
	for k := was - 1; k >= 0; k-- {
		if c.costs[k].impossible() {
			continue
		}
		has, end := c.costs[k], min(len(p.costs), n-k)
		if f.left -= max(0, end-p.first); f.left < 0 {
			f.tired = true
			return false
		}
		for j := p.first; j < end; j++ {
			more, least := &p.costs[j], &c.costs[j+k]
			first := from[j+k] == 0
			if more.impossible() || has.domains+more.domains > least.domains && (!first || !needed) {
				continue
			}
			is := has.plus(more)
			if first && (needed || is.less(least)) || !first && !least.less(&is) {
				*least, from[j+k] = is, int32(j) //nolint:gosec // not above most
			}
		}
	}
	for k := range from {
		if needed && from[k] == 0 {
			c.costs[k] = noCost()
		}
	}
	c.from = append(c.from, from)
	return true
}

// slicesAt reports whether a domain may have so many more pods by its slices.
func (f *finder) slicesAt(d int32, k int) bool {
	for _, l := range f.near.layers {
		if l.level == f.near.tree.domains[d].level && (int64(k)+int64(f.sliced[d]))%l.size != 0 {
			return false
		}
	}
	return true
}

// charge adds what it costs to use a domain.
func (f *finder) charge(c *cost, d int32, breaks bool) { //nolint:revive // a fact
	depth := f.near.tree.domains[d].level - f.top
	if f.kept[d] == 0 && depth > 0 && depth <= levelsInUse {
		c.domains += 1 << (levelBits * (levelsInUse - depth))
	}
	if breaks {
		c.nodes += 1 << brokenDomains
	}
}

// likeness is what makes a node like others.
func (f *finder) likeness(rank int) alike {
	b := f.ix.where[rank]
	is := alike{
		slots: f.ix.slots[rank],
		left:  int64(b % (maxPack + 1)),
		late:  b > maxPack,
		whole: f.ix.whole[rank],
	}
	if f.blind { // nodes are not looked at each by itself where none has faults
		return is
	}
	if faults := f.s.order[rank].spec.Faults; faults > 0 {
		is.faults, f.faulty = faults, true
	}
	return is
}

// kindsOf puts nodes together that are alike.
func (f *finder) kindsOf(ranks []int) []alike {
	var out []alike
	for _, rank := range ranks {
		is := f.likeness(rank)
		i := slices.IndexFunc(out, func(o alike) bool {
			return o.slots == is.slots && o.left == is.left && o.late == is.late && o.whole == is.whole &&
				o.faults == is.faults
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
		c.nodes += uint64(nodes) << warnedNodes //nolint:gosec // a number of nodes
	}
	c.nodes += uint64(nodes) //nolint:gosec // a number of nodes
	left := max(0, a.left-pods*f.class.pack)
	c.left += nodes * left
	c.faults += nodes * int64(a.faults)
	if a.whole && left > 0 {
		c.nodes += uint64(nodes) << brokenNodes //nolint:gosec // a number of nodes
	}
}

// take places so many pods in a domain as the curve of its shape says.
func (f *finder) take(d int32, c *curve, k int32) {
	for i := len(c.parts) - 1; i >= 0; i-- {
		n := c.from[i][k]
		if k -= n; n == 0 {
			continue
		}
		p := &c.parts[i]
		if p.of != nil {
			f.take(f.inside[d][p.inside], p.of, n)
			continue
		}
		f.fillNodes(f.kinds[d][p.nodes], n)
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
	for _, g := range f.kinds[d] {
		parts = append(parts, rest{nodes: g, room: int64(g.slots) * int64(len(g.ranks))})
	}
	slices.SortStableFunc(parts, func(a, b rest) int { return cmp.Compare(b.room, a.room) })
	for want > 0 && len(parts) > 0 {
		at := 0
		if parts[0].room >= int64(want) { // the last that holds all
			at, _ = slices.BinarySearchFunc(parts, int64(want), func(p rest, want int64) int {
				return order(p.room < want, true)
			})
			at--
		}
		p := parts[at]
		if at == 0 {
			parts = parts[1:]
		} else {
			parts = slices.Delete(parts, at, at+1)
		}
		n := int32(min(int64(want), p.room)) //nolint:gosec // not above want
		if p.domain != root {
			for _, l := range f.near.layers {
				if l.level == f.near.tree.domains[p.domain].level {
					n -= (n + f.sliced[p.domain]) % int32(l.size) //nolint:gosec // a number of pods
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
