package place

import (
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/mlbatch/mlbatch/internal/core"
)

// View is what a placement may count on.
type View uint8

const (
	// Free is what is free now and reserved for none.
	Free View = iota
	// After is what is free once the evictions under way are done.
	After
	views
)

// Class is a kind of pod: equal requests and equal constraints. Classes are shared; Release
// gives one back.
type Class struct {
	key    string
	refs   int
	needs  []need
	pack   int64 // of the packed resource
	size   int64 // tie-break for the order in which pod sets are placed
	filter core.Filter
	limits []core.Limit
	near   *nearness // nil if its pods need not be near to each other

	matched []match // by rank
	epoch   uint32
	views   [views]index
	ideal   ideal
}

type need struct {
	resource int
	amount   int64
}

type match struct {
	version uint32
	ok      bool
}

// ideal is what the class would get if all its nodes were empty and in service.
type ideal struct {
	version uint64
	nodes   int32 // that the filter admits
	down    int32 // of these, not taking work
	slots   int64
	// most is how many of the slots one gang may use, rooms the slots by domain.
	most  int64
	rooms rooms
	// over is the field over which the pods have to spread.
	over field
}

// index is how many pods of a class fit per node, and the nodes with room
// arranged by what they have left of the packed resource.
type index struct {
	built bool
	epoch uint32
	seen  uint64
	slots []int32
	where []int16 // bucket of the node, -1 for none
	// whole says of each node whether nothing is held on it and all of the packed resource is free there, where the
	// pods must be near to each other. Pods that the engine did not place and that take none of it, as daemons, do not
	// count.
	whole []bool
	total int64
	rooms [buckets]room
	// domains is room by domain, where is the domain of each node as counted there; most is how
	// many pods one gang may have, -1 if that is to be counted anew.
	domains rooms
	counted []int32
	most    int64
}

// room is a set of nodes, a bit per rank.
type room struct {
	count int
	bits  []uint64
}

// Buckets are by free packed resource up to maxPack, ready nodes first.
const (
	maxPack = 64
	buckets = 2 * (maxPack + 1)
)

// Class interns a kind of pod. requests are those of one pod; one of core.Pods
// is added. The topology is that of the nodes that its flavor selects.
func (s *Nodes) Class(requests core.Resources, is core.Constraints, t core.Topology) *Class {
	requests = requests.With(core.Pods, 1)
	key := classKey(requests, &is, &t)
	c := s.classes[key]
	if c == nil {
		c = &Class{
			key: key, filter: is.Filter, limits: onlyNodes(is.Limits), near: s.nearnessOf(&is.Topology, is.Limits, &t),
		}
		for _, q := range requests {
			if q.Amount > 0 {
				c.needs = append(c.needs, need{s.resource(q.Resource), int64(min(q.Amount, maxRequest))})
			}
		}
		c.pack = int64(min(max(0, requests.Of(s.pack)), maxRequest))
		c.size = int64(min(max(0, requests.Of(core.CPU)), maxRequest))
		s.classes[key] = c
	}
	c.refs++
	return c
}

// Shares reports whether how many of its pods a domain may have depends on pods of other workloads.
func (c *Class) Shares() bool { return c.near != nil && len(c.near.shared) > 0 }

// balances reports whether domains should have equal shares of its pods.
func (c *Class) balances() bool { return c.near != nil && c.near.balanced >= 0 }

// Filter says which nodes the class may use. Do not change it.
func (c *Class) Filter() core.Filter { return c.filter }

// Release gives back a class that Class returned.
func (s *Nodes) Release(c *Class) {
	if c.refs--; c.refs == 0 {
		delete(s.classes, c.key)
		if c.near != nil {
			s.releaseTree(c.near.tree)
		}
	}
}

func classKey(requests core.Resources, is *core.Constraints, t *core.Topology) string {
	var b strings.Builder
	for _, q := range requests {
		b.WriteString(strconv.Quote(q.Resource))
		b.WriteString(strconv.FormatInt(int64(q.Amount), 10))
	}
	b.WriteByte('|')
	is.Key(&b)
	for _, level := range t.Levels {
		b.WriteString("/" + strconv.Quote(level))
	}
	return b.String()
}

// slots returns how many pods of the class fit in a view, all nodes together.
func (s *Nodes) slots(c *Class, v View) int64 { return s.index(c, v).total }

// most returns how many pods of a gang of the class fit in a view.
func (s *Nodes) most(c *Class, v View) int64 {
	ix := s.index(c, v)
	if c.near == nil {
		return ix.total
	}
	if c.near.skew != nil { // it changes with nodes that have no room, too
		return s.holding(c, &ix.domains).most()
	}
	if ix.most < 0 {
		ix.most = s.holding(c, &ix.domains).most()
	}
	return ix.most
}

// holding is how many pods of a gang of the class domains may have by their rooms.
func (s *Nodes) holding(c *Class, r *rooms) holding {
	if c.near.skew == nil {
		return holding{near: c.near, rooms: r}
	}
	return holding{near: c.near, rooms: r, over: s.emptied(c).over}
}

// holding is how many pods domains may have if they are empty.
func (is *ideal) holding(c *Class) holding {
	return holding{near: c.near, rooms: &is.rooms, over: is.over}
}

// Total returns how many pods of a gang would fit if all nodes were empty and in service,
// how many nodes the filter admits, and how many of these are out of service.
func (s *Nodes) Total(c *Class) (slots int64, nodes, down int32) {
	found := s.emptied(c)
	return found.most, found.nodes, found.down
}

// emptied is what the class would get if all its nodes were empty and in service.
func (s *Nodes) emptied(c *Class) ideal {
	if s.supposed > 0 { // nodes are not what they are thought to be
		return s.empty(c)
	}
	if c.ideal.version != s.specs+1 {
		c.ideal = s.empty(c)
	}
	return c.ideal
}

// empty counts what emptied returns.
func (s *Nodes) empty(c *Class) ideal {
	s.settle()
	found := ideal{version: s.specs + 1, over: s.fieldOf(c)}
	for rank, n := range s.order {
		if !s.admits(c, rank) {
			continue
		}
		found.nodes++
		if !n.spec.State.TakesWork() {
			found.down++
		}
		slots := c.count(n.cap, n.cap)
		if c.limited() {
			slots = c.withinEmpty(n, slots)
		}
		found.slots += int64(slots)
		if c.near != nil {
			found.rooms.add(c.near, s.domainOf(c.near.tree, rank), int64(slots))
		}
	}
	if found.most = found.slots; c.near != nil {
		found.most = found.holding(c).most()
	}
	return found
}

// admits reports whether pods of the class may use a node, leaving aside capacity and state.
func (s *Nodes) admits(c *Class, rank int) bool {
	return c.filter.Admits(&s.order[rank].spec) &&
		(c.near == nil || c.near.reaches(s.domainOf(c.near.tree, rank)))
}

// excess returns a resource of which a pod needs more than any node has that
// its filter admits, the packed resource first; "" if there is none.
func (s *Nodes) excess(c *Class) (resource string, needed, largest core.Amount) {
	needs := slices.Clone(c.needs)
	slices.SortStableFunc(
		needs,
		func(a, b need) int { return order(a.resource != s.packID, b.resource != s.packID) },
	)
	for _, r := range needs {
		most := int64(0)
		for _, n := range s.order {
			if s.admits(c, n.rank) && r.resource < len(n.cap) {
				most = max(most, n.cap[r.resource])
			}
		}
		if most < r.amount {
			return s.resourceName(r.resource), core.Amount(r.amount), core.Amount(most)
		}
	}
	return "", 0, 0
}

// order puts false before true.
func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// resourceName is the inverse of resource.
func (s *Nodes) resourceName(id int) string {
	for name, i := range s.resources { // one name per id, so order does not matter
		if i == id {
			return name
		}
	}
	return ""
}

// count returns how many pods fit into the smaller of two vectors.
func (c *Class) count(a, b []int64) int32 { return count(c.needs, a, b) }

func count(needs []need, a, b []int64) int32 {
	most := int64(1 << 30)
	for _, r := range needs {
		if r.resource >= len(a) || r.resource >= len(b) {
			return 0
		}
		free := min(a[r.resource], b[r.resource])
		if free < r.amount {
			return 0
		}
		if free < most*r.amount {
			most = free / r.amount
		}
	}
	return int32(most)
}

// index returns the class's index of a view, brought up to date.
func (s *Nodes) index(c *Class, v View) *index {
	s.settle()
	if s.apart == 0 {
		v = Free // the accounts agree, one index serves both
	}
	ix := &c.views[v]
	end := s.base + uint64(len(s.log))
	if !ix.built || ix.epoch != s.epoch || ix.seen < s.base || end-ix.seen > uint64(len(s.order)) {
		s.rebuild(c, v)
		return ix
	}
	for ; ix.seen < end; ix.seen++ {
		s.refresh(c, v, int(s.log[ix.seen-s.base]))
	}
	return ix
}

func (s *Nodes) rebuild(c *Class, v View) {
	ix := &c.views[v]
	n := len(s.order)
	*ix = index{built: true, epoch: s.epoch, seen: s.base + uint64(len(s.log)), rooms: ix.rooms, most: -1}
	ix.slots = make([]int32, n)
	ix.where = slices.Repeat([]int16{-1}, n)
	if c.near != nil {
		ix.counted, ix.whole = make([]int32, n), make([]bool, n)
	}
	for i := range ix.rooms {
		ix.rooms[i] = room{}
	}
	if c.epoch != s.epoch || len(c.matched) != n {
		c.epoch = s.epoch
		c.matched = make([]match, n)
	}
	for rank := range n {
		s.refresh(c, v, rank)
	}
}

// refresh recomputes one node in an index.
func (s *Nodes) refresh(c *Class, v View, rank int) {
	ix := &c.views[v]
	n := s.order[rank]
	m := &c.matched[rank]
	if m.version != n.version+1 {
		*m = match{n.version + 1, s.admits(c, rank)}
	}
	slots, bucket := int32(0), int16(-1)
	if m.ok && n.TakesWork() {
		slots = s.fits(c, v, n)
	}
	if slots > 0 {
		bucket = s.bucket(v, n)
	}
	if c.near != nil {
		ix.count(c.near, rank, slots, s.domainOf(c.near.tree, rank))
		ix.whole[rank] = s.isWhole(n, v)
	}
	ix.total += int64(slots - ix.slots[rank])
	ix.slots[rank] = slots
	if old := ix.where[rank]; old != bucket {
		if old >= 0 {
			ix.rooms[old].clear(rank)
		}
		if bucket >= 0 {
			ix.rooms[bucket].set(rank, len(s.order))
		}
		ix.where[rank] = bucket
	}
}

func (s *Nodes) isWhole(n *Node, v View) bool {
	return allZero(n.held[core.Projected]) && (s.packID >= len(n.cap) || n.left(v)[s.packID] == n.cap[s.packID])
}

// count notes by domain that a node has so many slots.
func (ix *index) count(near *nearness, rank int, slots int32, d int32) {
	was := ix.counted[rank]
	if was == d && slots == ix.slots[rank] {
		return
	}
	ix.domains.add(near, was, -int64(ix.slots[rank]))
	ix.domains.add(near, d, int64(slots))
	ix.counted[rank], ix.most = d, -1
}

// fits is how many pods of the class fit on a node in a view.
func (s *Nodes) fits(c *Class, v View, n *Node) int32 {
	pods := s.room(c, v, n)
	if pods > 0 && c.limited() {
		pods = c.within(n, v, pods)
	}
	return pods
}

// room is for how many pods of the class a node has what they request.
func (s *Nodes) room(c *Class, v View, n *Node) int32 {
	if v == Free {
		return c.count(n.free[core.Current], n.free[core.Projected])
	}
	return c.count(n.free[core.Projected], n.free[core.Projected])
}

func (s *Nodes) bucket(v View, n *Node) int16 {
	left := int64(0)
	if s.packID < len(n.free[core.Projected]) {
		left = n.free[core.Projected][s.packID]
	}
	if v == Free && s.packID < len(n.free[core.Current]) {
		left = min(left, n.free[core.Current][s.packID])
	}
	b := int16(max(0, min(left, maxPack)))
	if n.spec.State != core.NodeReady {
		b += maxPack + 1
	}
	return b
}

func (r *room) set(rank, n int) {
	if r.bits == nil {
		r.bits = make([]uint64, (n+63)/64)
	}
	r.bits[rank/64] |= 1 << (rank % 64)
	r.count++
}

func (r *room) clear(rank int) {
	r.bits[rank/64] &^= 1 << (rank % 64)
	r.count--
}

// each calls f with the ranks in the room, lowest first, until f says no.
func (r *room) each(f func(rank int) bool) {
	if r.count == 0 {
		return
	}
	for i, word := range r.bits {
		for ; word != 0; word &= word - 1 {
			if !f(i*64 + bits.TrailingZeros64(word)) {
				return
			}
		}
	}
}

// Any reports whether a node with these labels exists, in whatever state.
func (s *Nodes) Any(labels map[string]string) bool {
	for _, n := range s.byName {
		if n.known && has(n.spec.Labels, labels) {
			return true
		}
	}
	return false
}

// Count is how many nodes have all of some labels.
func (s *Nodes) Count(labels map[string]string) (n int) {
	for _, node := range s.byName { // a sum, so order does not matter
		if node.known && has(node.spec.Labels, labels) {
			n++
		}
	}
	return n
}

func has(labels, want map[string]string) bool {
	for k, v := range want {
		if w, ok := labels[k]; !ok || w != v {
			return false
		}
	}
	return true
}
