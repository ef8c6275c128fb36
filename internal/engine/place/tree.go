package place

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/mlbatch/mlbatch/internal/core"
)

// tree is the domains of a topology as node labels give them: a root, which is all nodes, and
// below it domains, narrower level by level. It is as ragged as the labels are.
type tree struct {
	key    string
	levels []string
	// leading levels are of limits and may be missing on a node, which is then in a domain without a name.
	leading int
	refs    int
	epoch   uint32
	// domains are in the order in which they were found, each behind the one that it is in.
	domains []domain
	found   map[domain]int32
	// inside are the domains in each of them, by name, as of a number of domains.
	inside [][]int32
	// narrowest is the narrowest domain of each node, by rank, as of a version of the node.
	narrowest []int32
	versions  []uint32
}

// domain is a vertex of a tree. The root has level -1 and is in itself.
type domain struct {
	in    int32
	level int
	value string
}

// root is the domain of all nodes.
const root int32 = 0

// unlabelled reports whether nodes are in a domain for want of the label.
func (d *domain) unlabelled() bool { return d.value == "" }

// treeOf returns the tree of some levels, which release gives back; the leading ones nodes may lack.
func (s *Nodes) treeOf(levels []string, leading int) *tree {
	key := strconv.Itoa(leading) + "\n" + strings.Join(levels, "\n")
	t := s.trees[key]
	if t == nil {
		t = &tree{key: key, levels: levels, leading: leading}
		s.trees[key] = t
	}
	t.refs++
	return t
}

func (s *Nodes) releaseTree(t *tree) {
	if t.refs--; t.refs == 0 {
		delete(s.trees, t.key)
	}
}

// domainOf is the narrowest domain of a node. The nodes are settled.
func (s *Nodes) domainOf(t *tree, rank int) int32 {
	if t.epoch != s.epoch {
		t.epoch = s.epoch
		t.domains = append(t.domains[:0], domain{in: root, level: -1})
		t.found, t.inside = map[domain]int32{}, nil
		t.narrowest = make([]int32, len(s.order))
		t.versions = make([]uint32, len(s.order))
	}
	n := s.order[rank]
	if t.versions[rank] == n.version+1 {
		return t.narrowest[rank]
	}
	at := root
	for level, label := range t.levels {
		value, has := n.spec.Labels[label]
		if !has && level >= t.leading {
			break
		}
		is := domain{in: at, level: level, value: value}
		id, known := t.found[is]
		if !known {
			id = int32(len(t.domains)) //nolint:gosec // not more than nodes and levels
			t.found[is] = id
			t.domains = append(t.domains, is)
		}
		at = id
	}
	t.narrowest[rank], t.versions[rank] = at, n.version+1
	return at
}

// children are the domains in each domain, by name.
func (t *tree) children() [][]int32 {
	if len(t.inside) == len(t.domains) {
		return t.inside
	}
	t.inside = make([][]int32, len(t.domains))
	for i := 1; i < len(t.domains); i++ {
		in := t.domains[i].in
		t.inside[in] = append(t.inside[in], int32(i))
	}
	for _, inside := range t.inside {
		slices.SortFunc(
			inside,
			func(a, b int32) int { return core.CompareNames(t.domains[a].value, t.domains[b].value) },
		)
	}
	return t.inside
}

// above is the domain of a level that a domain is in, the domain itself included; false if it is in none.
func (t *tree) above(d int32, level int) (int32, bool) {
	for t.domains[d].level > level {
		d = t.domains[d].in
	}
	return d, t.domains[d].level == level
}

// compare orders domains: wider ones first, then by name from the widest level on.
func (t *tree) compare(a, b int32) int {
	if a == b {
		return 0
	}
	x, y := &t.domains[a], &t.domains[b]
	if x.level != y.level {
		return cmp.Compare(x.level, y.level)
	}
	return cmp.Or(t.compare(x.in, y.in), core.CompareNames(x.value, y.value))
}

// apart are the domains in which two domains are that differ where their paths from the root part. If one is in
// the other, both are that one, and deeper is negative if the first is the wider.
func (t *tree) apart(a, b int32) (x, y int32, deeper int) {
	level := min(t.domains[a].level, t.domains[b].level)
	deeper = cmp.Compare(t.domains[a].level, t.domains[b].level)
	x, _ = t.above(a, level)
	y, _ = t.above(b, level)
	for x != y && t.domains[x].in != t.domains[y].in {
		x, y = t.domains[x].in, t.domains[y].in
	}
	return x, y, deeper
}

// nearness is a request to be near in terms of a tree. Levels are indices of the tree's; -1 is the root.
type nearness struct {
	tree *tree
	// required is the narrowest level of which one domain must hold all pods, and scope the widest: own, which is asked
	// for, or one of parents, those of the groups that the set is in.
	required, scope, own int
	parents              []int
	// layers are slices, coarse to fine.
	layers []layer
	// balanced is the level of which domains should have equal shares, -1 for none: as few domains as do or, if wide, as
	// many. preferred is the narrowest level of which one domain should hold all pods that are spread so, required if
	// none should.
	balanced  int
	wide      bool
	preferred int
	// limits are those of domains, without skew; skew, if not nil, is the one of pods that must spread.
	limits []domainLimit
	skew   *domainLimit
	// shared are those of them that count the pods of all workloads.
	shared []core.Limit
	// depth is the level of which a node must have a domain to be of use.
	depth int
}

// layer is a level of which each domain holds a multiple of size pods.
type layer struct {
	level int
	size  int64
}

// nearnessOf is a request in terms of the tree of a topology or, where that lacks a level that is asked
// for, of these levels alone; nil if it asks for nothing and there is no topology. Where there is one, pods
// that ask for nothing are as near as they can be all the same, and leave whole domains to others.
func (s *Nodes) nearnessOf(r *core.TopologyRequest, limits []core.Limit, t *core.Topology) *nearness {
	limits = onlyDomains(limits)
	if r.Empty() && len(t.Levels)+len(limits) == 0 {
		return nil
	}
	levels := t.Levels
	if len(levels) == 0 || t.Missing(*r) != "" {
		levels = r.Levels()
	}
	switch last, asked := len(levels)-1, slices.Contains(r.Levels(), core.HostnameLabel); {
	case asked && !slices.Contains(levels, core.HostnameLabel):
		levels = append(slices.Clip(levels), core.HostnameLabel)
	case !asked && last >= 0 && levels[last] == core.HostnameLabel:
		levels = levels[:last] // nodes are the leaves anyway
	}
	levels, leading := withLimits(levels, limits)
	near := &nearness{tree: s.treeOf(levels, leading)}
	near.own = slices.Index(levels, r.Required)
	near.required, near.scope = near.own, near.own
	for _, label := range r.Parents {
		level := slices.Index(levels, label)
		near.parents = append(near.parents, level)
		near.required = max(near.required, level)
		if near.scope < 0 || level < near.scope {
			near.scope = level
		}
	}
	near.balanced = slices.Index(levels, r.Balanced)
	if near.preferred = near.required; near.balanced < 0 && r.Spread != "" {
		near.balanced = slices.Index(levels, r.Spread)
		near.wide = near.balanced > near.required
		if p := slices.Index(levels, r.Preferred); near.wide && p < near.balanced {
			near.preferred = max(near.required, p)
		}
	}
	near.depth = near.required
	for _, slice := range r.Slices {
		l := layer{slices.Index(levels, slice.Level), int64(max(1, slice.Size))}
		near.layers = append(near.layers, l)
		near.depth = max(near.depth, l.level)
	}
	near.limitBy(limits)
	return near
}

// usable is how many of the pods that a domain has room for it may hold.
func (near *nearness) usable(d *domain, room int64) int64 {
	if len(near.limits) > 0 {
		room = near.within(d, room, nil)
	}
	return near.sliced(d.level, room)
}

// sliced is how many pods of so many a domain of a level may have by its own slices.
func (near *nearness) sliced(level int, room int64) int64 {
	for _, l := range near.layers {
		if l.level == level {
			room -= room % l.size
		}
	}
	return room
}

// divides reports whether so many pods can be cut into slices.
func (near *nearness) divides(count int32) bool {
	return !slices.ContainsFunc(near.layers, func(l layer) bool { return int64(count)%l.size != 0 })
}

// rooms is for how many pods each domain has room below it, slices observed.
type rooms []int64

// add notes room for more pods, or fewer, right below a domain.
func (r *rooms) add(near *nearness, d int32, more int64) {
	domains := near.tree.domains
	for len(*r) < len(domains) {
		*r = append(*r, 0)
	}
	for more != 0 {
		was := near.usable(&domains[d], (*r)[d])
		(*r)[d] += more
		more = near.usable(&domains[d], (*r)[d]) - was
		if d == root {
			return
		}
		d = domains[d].in
	}
}

// of is how many pods a domain may hold.
func (r *rooms) of(near *nearness, d int32) int64 {
	if int(d) >= len(*r) {
		return 0
	}
	room := near.usable(&near.tree.domains[d], (*r)[d])
	if len(near.limits) > 0 {
		room = near.withinAbove(d, room, nil)
	}
	return room
}

// holding is how many pods of a gang domains may have by their rooms, and by the field over which the pods spread if
// they must.
type holding struct {
	near  *nearness
	rooms *rooms
	over  field
}

// in is how many pods may be in a domain.
func (h holding) in(d int32) int64 {
	if h.over != nil {
		return h.rooms.spreadIn(h.near, h.over, d)
	}
	return h.rooms.of(h.near, d)
}

// best is the domain of the required level that may hold the most pods, of equals the one that would
// hold the most by other rooms, and of these the first by name; false if there is none.
func (h holding) best(other holding) (best int32, some bool) {
	t := h.near.tree
	for i := range t.domains {
		d := int32(i)
		if t.domains[d].level != h.near.required {
			continue
		}
		if !some {
			best, some = d, true
			continue
		}
		a, b := h.in(d), h.in(best)
		x, y := other.in(d), other.in(best)
		if a > b || a == b && (x > y || x == y && t.compare(d, best) < 0) {
			best = d
		}
	}
	return best, some
}

// most is how many pods one domain of the required level may hold.
func (h holding) most() int64 {
	most := int64(0)
	for i := range h.near.tree.domains {
		if h.near.tree.domains[i].level == h.near.required {
			most = max(most, h.in(int32(i)))
		}
	}
	return most
}
