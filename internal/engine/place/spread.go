package place

import (
	"cmp"
	"maps"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
)

// The pods of a gang may have to be in different domains (podAntiAffinity), in all of them alike
// (topologySpreadConstraints), or should have equal shares of as few as do (balanced). The first bounds how many pods
// a domain has room for. For the others it is decided first how many pods each domain gets; these are then placed in it
// as near to each other as they can be.

// domainLimit is a limit of each domain of a level of a tree.
type domainLimit struct {
	core.Limit
	level int
}

// portion is a number of pods that a domain gets.
type portion struct {
	domain int32
	pods   int64
}

// limitBy notes limits of domains; levels are those of the tree.
func (near *nearness) limitBy(limits []core.Limit) {
	for _, l := range limits {
		is := domainLimit{l, slices.Index(near.tree.levels, l.Level)}
		if !l.Own {
			near.shared = append(near.shared, l)
		}
		switch {
		case l.Skew == 0:
			near.limits = append(near.limits, is)
		case near.skew == nil: // of several the first counts
			near.skew = &is
			near.depth = max(near.depth, is.level)
		}
	}
}

// reaches reports whether a node whose narrowest domain this is has the labels that it needs to be of use.
func (near *nearness) reaches(d int32) bool {
	domains := near.tree.domains
	if domains[d].level < near.depth {
		return false
	}
	if near.skew == nil {
		return true
	}
	at, _ := near.tree.above(d, near.skew.level)
	return !domains[at].unlabelled()
}

// onlyDomains are the limits of domains.
func onlyDomains(limits []core.Limit) []core.Limit {
	return slices.DeleteFunc(slices.Clone(limits), func(l core.Limit) bool { return l.PerNode() })
}

// onlyNodes are the limits of nodes.
func onlyNodes(limits []core.Limit) []core.Limit {
	if !slices.ContainsFunc(limits, func(l core.Limit) bool { return !l.PerNode() }) {
		return limits
	}
	return slices.DeleteFunc(slices.Clone(limits), func(l core.Limit) bool { return !l.PerNode() })
}

// withLimits are levels with those of limits that they lack, the widest first: regions and zones, which everybody
// has, are wider than what clusters call their own, and in front are the others. leading says how many were added.
func withLimits(levels []string, limits []core.Limit) (all []string, leading int) {
	var more []string
	for _, l := range limits {
		switch {
		case slices.Contains(levels, l.Level) || slices.Contains(more, l.Level):
		case l.Level == core.HostnameLabel:
			levels = append(slices.Clip(levels), l.Level) // nothing is narrower
		default:
			more = append(more, l.Level)
		}
	}
	wide := []string{core.RegionLabel, core.ZoneLabel}
	slices.SortFunc(more, func(a, b string) int {
		i, j := slices.Index(wide, a), slices.Index(wide, b)
		return cmp.Or(order(i < 0, j < 0), cmp.Compare(i, j), cmp.Compare(a, b))
	})
	return slices.Concat(more, levels), len(more)
}

// limitNames are the words of the limits of domains.
func (near *nearness) limitNames() []string {
	if near == nil {
		return nil
	}
	out := make([]string, 0, len(near.limits)+1)
	for i := range near.limits {
		out = append(out, near.limits[i].Name)
	}
	if near.skew != nil {
		out = append(out, near.skew.Name)
	}
	return out
}

// limitName is the first of them; "" if there is none.
func (near *nearness) limitName() string {
	for _, name := range near.limitNames() {
		return name
	}
	return ""
}

// within is how many of so many pods a domain may have by its limits, when so much of each is taken.
func (near *nearness) within(d *domain, room int64, taken func(i int) int64) int64 {
	for i := range near.limits {
		l := &near.limits[i]
		if l.level != d.level || d.unlabelled() {
			continue
		}
		left := int64(l.Most)
		if taken != nil {
			left -= taken(i)
		}
		room = near.cut(d.level, min(room, max(0, left/int64(l.Count))))
	}
	return room
}

// withinAbove is within by the limits of the domains that a domain is in.
func (near *nearness) withinAbove(d int32, room int64, taken func(d int32, i int) int64) int64 {
	domains := near.tree.domains
	for at := d; at != root; at = domains[at].in {
		var here func(int) int64
		if taken != nil {
			here = func(i int) int64 { return taken(at, i) }
		}
		room = near.cut(domains[d].level, near.within(&domains[at], room, here))
	}
	return room
}

// cut is the largest number of pods, not above n, that a domain of a level may have by the slices in it.
func (near *nearness) cut(level int, n int64) int64 { return n - n%near.unit(level) }

// unit is of how many pods the number in a domain of a level is a multiple.
func (near *nearness) unit(level int) int64 {
	for _, l := range near.layers {
		if l.level >= level {
			return l.size // coarse to fine
		}
	}
	return 1
}

// intricate reports whether the room of domains alone does not say how many pods have a place, even if no others are
// there: then only a search does.
func (near *nearness) intricate() bool {
	skew := near.skew
	if skew == nil {
		return false
	}
	return near.unit(skew.level) > int64(skew.Skew) ||
		slices.ContainsFunc(near.limits, func(l domainLimit) bool { return l.level < skew.level }) ||
		slices.ContainsFunc(near.layers, func(l layer) bool { return l.level < skew.level })
}

// searches reports whether only a search says for how many pods of a class there is a place: that of others' pods in
// domains is not in their room.
func (s *Nodes) searches(c *Class) bool { return len(c.near.shared) > 0 || s.searchesEmpty(c) }

// searchesEmpty is the same on empty nodes.
func (s *Nodes) searchesEmpty(c *Class) bool {
	return c.near.intricate() || c.near.skew != nil && s.emptied(c).over == nil
}

// field are the domains over which pods have to spread: those with a node that counts (core.Limit.SpreadsOver). It is
// nil if they need not, or if each domain has the skew at most: there are too many, or fewer than there must be.
type field []int32

// widestField is over how many domains the spread of pods is counted: a label that tells more apart names nodes, and
// looking at all for each pod would take long. Beyond it, each domain has the skew at most.
const widestField = 256

// fieldOf lists them, in the order of the tree.
func (s *Nodes) fieldOf(c *Class) field {
	if c.near == nil || c.near.skew == nil {
		return nil
	}
	t := c.near.tree
	out := field{}
	seen := make([]bool, 0, len(t.domains))
	for rank, n := range s.order {
		if !c.near.skew.SpreadsOver(c.filter, &n.spec) {
			continue
		}
		d, in := t.above(s.domainOf(t, rank), c.near.skew.level)
		if !in || t.domains[d].unlabelled() {
			continue
		}
		for len(seen) < len(t.domains) {
			seen = append(seen, false)
		}
		if seen[d] {
			continue
		}
		if seen[d], out = true, append(out, d); len(out) > widestField {
			return nil
		}
	}
	if len(out) < int(c.near.skew.MinDomains) {
		return nil
	}
	slices.SortFunc(out, t.compare)
	return out
}

// within lists those of the field in a domain, or the one that it is in.
func (f field) within(t *tree, top int32, level int) field {
	if at, in := t.above(top, level); in && t.domains[top].level >= level {
		if slices.Contains(f, at) {
			return field{at}
		}
		return nil
	}
	return slices.DeleteFunc(slices.Clone(f), func(d int32) bool {
		at, in := t.above(d, t.domains[top].level)
		return !in || at != top
	})
}

// spreadIn is how many pods may be in a domain: each one of the field has at most the skew more than that with
// the least room.
func (r *rooms) spreadIn(near *nearness, over field, top int32) int64 {
	inside := over.within(near.tree, top, near.skew.level)
	room := func(d int32) int64 {
		if near.tree.domains[top].level > near.skew.level {
			d = top
		}
		return r.of(near, d)
	}
	least := int64(0)
	if len(inside) == len(over) && len(inside) > 0 {
		least = room(inside[0])
		for _, d := range inside {
			least = min(least, room(d))
		}
	}
	most := least + int64(near.skew.Skew)
	if len(over) == 1 {
		most = room(over[0]) // nothing to be alike to
	}
	sum := int64(0)
	for _, d := range inside {
		sum += near.cut(near.skew.level, min(room(d), most))
	}
	return sum
}

// spread places pods that must spread, as evenly as there is room; false if there is none.
func (f *finder) spread(want, within int32) bool {
	over, t := f.s.emptied(f.class).over, f.near.tree
	tops := []int32{root}
	if f.near.required >= 0 {
		tops = tops[:0]
		for i := range t.domains {
			if t.domains[i].level == f.near.required && f.may(int32(i), within) {
				tops = append(tops, int32(i))
			}
		}
		slices.SortStableFunc(
			tops,
			func(a, b int32) int { return cmp.Or(cmp.Compare(f.room(a), f.room(b)), t.compare(a, b)) },
		)
	}
	for _, top := range tops {
		portions, ok := f.evenly(over, over.within(t, top, f.near.skew.level), top, int64(want))
		if ok && f.fillPortions(portions) && f.holds() {
			return true
		}
		if f.spots = f.spots[:0]; f.vain() {
			break
		}
	}
	return false
}

// evenly says how many pods each domain of a field gets that is in another, so that those with the most have as few as
// possible; false if there is no room for all, or the pods would not spread.
func (f *finder) evenly(over, inside field, top int32, want int64) ([]portion, bool) {
	near, kept := f.near, f.spreadKept()
	unit := near.unit(near.skew.level)
	out := make([]portion, len(inside))
	for i, d := range inside {
		out[i].domain = d
		if near.tree.domains[top].level > near.skew.level {
			out[i].domain = top
		}
	}
	// share is what a domain gets if none has more than so many.
	share := func(i int, most int64) int64 {
		return near.cut(near.skew.level, min(f.room(out[i].domain), max(0, most-kept[inside[i]])))
	}
	sum := func(most int64) (n int64) {
		for i := range out {
			n += share(i, most)
		}
		return n
	}
	highest := want
	for _, n := range kept {
		highest = max(highest, want+n)
	}
	if sum(highest) < want {
		return nil, false
	}
	low, most := int64(0), highest // most becomes the least that does
	for low < most {
		if mid := (low + most) / 2; sum(mid) < want {
			low = mid + 1
		} else {
			most = mid
		}
	}
	rest := want - sum(most-1)
	for i := range out {
		out[i].pods = share(i, most-1)
		if more := share(i, most) - out[i].pods; more > 0 && rest > 0 {
			out[i].pods += unit
			rest -= unit
		}
	}
	given := field{}
	for i, d := range inside {
		if kept[d] += out[i].pods; out[i].pods > 0 {
			given = append(given, d)
		}
	}
	return out, rest == 0 && near.even(over, kept, given)
}

// even reports whether none of the domains that are given pods has more of them above those of another of the field than
// the skew; above none, if there is no field. How uneven others are that get none does not matter.
func (near *nearness) even(over field, pods map[int32]int64, given field) bool {
	if len(over) == 1 || len(given) == 0 {
		return true
	}
	least, most := int64(0), pods[given[0]]
	for i, d := range over {
		if i == 0 {
			least = pods[d]
		}
		least = min(least, pods[d])
	}
	for _, d := range given {
		most = max(most, pods[d])
	}
	return most-least <= int64(near.skew.Skew)
}

// spreadKept counts, by domain, the pods that have places and count when pods spread.
func (f *finder) spreadKept() map[int32]int64 {
	skew := f.near.skew
	return f.takenIn(skew, func(c *Class) int64 {
		if c.near != nil && c.near.skew != nil && c.near.skew.Name == skew.Name {
			return 1
		}
		return 0
	})
}

// limitTaken is how much of a limit of the set's is taken in a domain by other pods.
func (f *finder) limitTaken(d int32, i int) int64 {
	if f.taken == nil {
		f.taken = make([]map[int32]int64, len(f.near.limits))
		for k := range f.near.limits {
			f.taken[k] = f.takenOf(&f.near.limits[k])
		}
	}
	return f.taken[i][d]
}

// takenOf is how much of a limit is taken by other pods, by domain.
func (f *finder) takenOf(l *domainLimit) map[int32]int64 {
	return f.takenIn(l, func(c *Class) int64 {
		if c.near == nil {
			return 0
		}
		for _, o := range c.near.limits {
			if o.Name == l.Name {
				return int64(o.Count)
			}
		}
		if c.near.skew != nil && c.near.skew.Name == l.Name {
			return 1
		}
		return 0
	})
}

// withoutField is the same for pods that spread over more domains than are counted: of so many, one has none of them,
// so that no other has more than the skew.
func (near *nearness) withoutField() *nearness {
	is := *near
	most := *near.skew
	most.Most, most.Skew = most.Skew, 0
	is.limits, is.skew = append(slices.Clip(is.limits), most), nil
	return &is
}

// takenIn sums what pods take of a limit, by domain: those of the workload or, if the limit is shared, all that are
// booked on nodes. each is how much one pod of a class takes.
func (f *finder) takenIn(l *domainLimit, each func(*Class) int64) map[int32]int64 {
	t, out := f.near.tree, map[int32]int64{}
	add := func(n *Node, taken int64) {
		if taken == 0 {
			return
		}
		if d, in := f.s.above(t, n, l.level); in {
			out[d] += taken
		}
	}
	holds := f.own
	if !l.Own {
		for _, n := range f.s.order {
			if l.Skew == 0 || l.SpreadsOver(f.class.filter, &n.spec) {
				add(n, n.takenOf(l.Name, f.view))
			}
		}
		holds = f.unbooked
	}
	for _, h := range holds {
		add(h.Node, each(h.Class)*int64(h.Count))
	}
	return out
}

// exceedDomains reports whether more is booked than domains of holds admit by limits that count the pods of all.
func (s *Nodes) exceedDomains(account core.Account, holds []Hold) bool {
	for i, h := range holds {
		if h.Class.near == nil || len(h.Class.near.shared) == 0 ||
			slices.ContainsFunc(holds[:i], func(o Hold) bool { return o.Class == h.Class }) {
			continue
		}
		s.settle()
		t := h.Class.near.tree
		for _, limit := range h.Class.near.limits {
			if limit.Own {
				continue
			}
			ours, taken := map[int32]bool{}, map[int32]int64{}
			for _, o := range holds {
				if d, in := s.above(t, o.Node, limit.level); in && o.Class == h.Class {
					ours[d] = true
				}
			}
			for _, n := range s.order {
				if d, in := s.above(t, n, limit.level); in && ours[d] {
					taken[d] += n.shares[account][limit.Name].taken + n.foreign[limit.Name].taken
				}
			}
			for _, sum := range taken { // any will do, so order does not matter
				if sum > int64(limit.Most) {
					return true
				}
			}
		}
	}
	return false
}

// above is the domain of a level that a node is in; false if it is in none.
func (s *Nodes) above(t *tree, n *Node, level int) (int32, bool) {
	if !n.known {
		return 0, false
	}
	return t.above(s.domainOf(t, n.rank), level)
}

// Uneven reports whether pods of one workload, on nodes of which others may have come since, do not spread any more as
// they have to. Where sets may use different nodes, which of them is placed first decides what is even: then it does not
// say.
func (s *Nodes) Uneven(holds []Hold) bool {
	for _, h := range holds {
		near := h.Class.near
		if near == nil || near.skew == nil || len(near.shared) > 0 {
			continue
		}
		if slices.ContainsFunc(holds, func(o Hold) bool { return s.spreadsElsewhere(h.Class, o.Class) }) {
			continue
		}
		s.settle()
		f := &finder{s: s, class: h.Class, near: near, own: holds}
		pods := f.spreadKept()
		if !near.even(s.emptied(h.Class).over, pods, slices.Sorted(maps.Keys(pods))) {
			return true
		}
	}
	return false
}

// spreadsElsewhere reports whether pods of two classes spread together, and each by other domains.
func (s *Nodes) spreadsElsewhere(a, b *Class) bool {
	if a == b || b.near == nil || b.near.skew == nil || b.near.skew.Name != a.near.skew.Name {
		return false
	}
	return a.near.tree != b.near.tree || !slices.Equal(s.emptied(a).over, s.emptied(b).over)
}

// fillPortions places pods in domains; false if one of these has no place for its own.
func (f *finder) fillPortions(portions []portion) bool {
	for _, p := range portions {
		if p.pods == 0 {
			continue
		}
		n := int32(p.pods) //nolint:gosec // pods of a set
		f.top, f.left = f.near.tree.domains[p.domain].level, f.s.merges
		switch c := f.curve(p.domain, n, n); {
		case f.vain():
			return false
		case c == nil:
			if f.fillDomain(p.domain, n) > 0 {
				return false
			}
		case c.costs[n].impossible():
			return false
		default:
			f.take(p.domain, c, n)
		}
	}
	return true
}

// holds reports whether slices and limits hold for the spots found: of domains that are wider than the portions nobody
// has seen to that.
func (f *finder) holds() bool {
	if len(f.near.layers)+len(f.near.limits) == 0 {
		return true
	}
	t := f.near.tree
	pods := func(level int) map[int32]int64 {
		out := map[int32]int64{}
		for _, sp := range f.spots {
			if d, in := t.above(f.s.domainOf(t, sp.Node.rank), level); in {
				out[d] += int64(sp.Count)
			}
		}
		return out
	}
	for _, l := range f.near.layers {
		for d, n := range pods(l.level) { // any will do, so order does not matter
			if (n+int64(f.sliced[d]))%l.size != 0 {
				return false
			}
		}
	}
	for i, l := range f.near.limits {
		for d, n := range pods(l.level) { // any will do, so order does not matter
			if !t.domains[d].unlabelled() && n*int64(l.Count)+f.limitTaken(d, i) > int64(l.Most) {
				return false
			}
		}
	}
	return true
}

// balance places pods so that domains of the balanced level have equal shares, as few of these as do or, if they are
// spread, as many, in one domain as narrow as there is one, of the given level at most; false if there is none.
func (f *finder) balance(narrowest int, want, within int32) bool {
	t, near := f.near.tree, f.near
	for level := narrowest; level >= near.required && !f.vain(); level-- {
		var best []portion
		at := root
		for i := range t.domains {
			d := int32(i)
			if t.domains[d].level != level || !f.may(d, within) || f.room(d) < int64(want) {
				continue
			}
			is := f.shares(d, int64(want))
			if len(f.kept) > 0 {
				is = f.sharesBeside(d, int64(want))
			}
			better := len(is) < len(best)
			if near.wide {
				better = len(is) > len(best)
			}
			if is != nil && (best == nil || better || len(is) == len(best) && f.tighter(d, at)) {
				best, at = is, d
			}
		}
		if best != nil && f.fillPortions(best) && f.holds() {
			return true
		}
		f.spots = f.spots[:0]
	}
	return false
}

// shares cuts pods into equal shares for domains of the balanced level in another one, as few as do or, if they are
// spread, as many, those with the least room that suffices; nil if no number of domains from two does.
func (f *finder) shares(top int32, want int64) []portion {
	t, level := f.near.tree, f.near.balanced
	var all []int32
	for i := range t.domains {
		if d := int32(i); t.domains[d].level == level && f.room(d) > 0 {
			if at, in := t.above(d, t.domains[top].level); in && at == top {
				all = append(all, d)
			}
		}
	}
	slices.SortFunc(
		all,
		func(a, b int32) int { return cmp.Or(cmp.Compare(f.room(a), f.room(b)), t.compare(a, b)) },
	)
	most := min(int64(len(all)), want/f.near.unit(level))
	for i := range max(0, most-1) {
		k := 2 + i
		if f.near.wide {
			k = most - i
		}
		if out := f.sharesOf(all, k, want); out != nil {
			return out
		}
	}
	return nil
}

// sharesBeside is shares where some pods of the set stay: with them the shares are equal, and all domains that have such pods
// have one.
func (f *finder) sharesBeside(top int32, want int64) []portion {
	t, level, unit := f.near.tree, f.near.balanced, f.near.unit(f.near.balanced)
	var all []int32
	held, pods := int64(0), int64(0)
	for i := range t.domains {
		d := int32(i)
		if at, in := t.above(d, t.domains[top].level); t.domains[d].level != level || !in || at != top {
			continue
		}
		has := int64(f.sliced[d])
		if has%unit != 0 {
			return nil
		}
		if has > 0 {
			held, pods = held+1, pods+has
		}
		if has > 0 || f.room(d) > 0 {
			all = append(all, d)
		}
	}
	if pods < int64(f.sliced[root]) {
		return nil // some are in no domain of the level
	}
	slices.SortFunc(all, func(a, b int32) int {
		return cmp.Or(
			cmp.Compare(f.sliced[b], f.sliced[a]), cmp.Compare(f.room(a), f.room(b)), t.compare(a, b),
		)
	})
	most, least := min(int64(len(all)), (want+pods)/unit), max(2, held)
	for i := range max(0, most-least+1) {
		k := least + i
		if f.near.wide {
			k = most - i
		}
		for _, turn := range [][]int{{0, 1}, {1, 0}} {
			if out := f.sharesBesideOf(all, k, want+pods, turn); out != nil {
				return out
			}
		}
	}
	return nil
}

// sharesBesideOf cuts pods, those that stay included, into equal shares for so many of some domains, those first in which
// pods stay; nil if these have no room. Where either of the two sizes will do, that which comes first in turn is taken.
func (f *finder) sharesBesideOf(
	all []int32,
	k, pods int64,
	turn []int,
) []portion {
	unit := f.near.unit(f.near.balanced)
	sizes := []int64{pods / unit / k * unit, pods/unit/k*unit + unit}
	left := []int64{k - pods/unit%k, pods / unit % k} // shares of each size
	var out []portion
	for _, d := range all {
		has, given := int64(f.sliced[d]), false
		for _, i := range turn {
			if !given && left[i] > 0 && has <= sizes[i] && f.room(d) >= sizes[i]-has {
				left[i]--
				given = true
				out = append(out, portion{d, sizes[i] - has})
			}
		}
		if !given && has > 0 {
			return nil
		}
	}
	if left[0]+left[1] > 0 {
		return nil
	}
	return out
}

// sharesOf cuts pods into equal shares for so many of some domains, which are listed by room; nil if these have no room.
// Where the number does not divide, some have one slice more.
func (f *finder) sharesOf(all []int32, k, want int64) []portion {
	unit := f.near.unit(f.near.balanced)
	small := want / unit / k * unit
	larger := want / unit % k // of the shares are one slice larger
	var out []portion
	for _, d := range all {
		switch room := f.room(d); {
		case int64(len(out)) < k-larger && room >= small:
			out = append(out, portion{d, small})
		case int64(len(out)) >= k-larger && int64(len(out)) < k && room >= small+unit:
			out = append(out, portion{d, small + unit})
		}
	}
	if int64(len(out)) < k {
		return nil
	}
	return out
}
