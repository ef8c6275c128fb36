package sim

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// How near to each other the pods of a gang are: an account that counts room anew for each question, by node and by
// the labels of nodes, and shares nothing with the engine's.

// promises notes what workloads were promised before a decision or after it, those that wait for others to go and
// those that go elsewhere: nobody else is given that.
func (a *Auditor) promises(e *cycle.Engine) {
	now := map[core.Key]core.Admission{}
	for key := range a.workloads {
		if promised, some := e.View().Promised(key); some {
			now[key] = promised
		}
	}
	a.promisedBefore, a.promised = a.promised, now
}

// taken are the places on a node that others than a workload have, or were promised. Where it was promised others
// before the decision than after it, both count: at most it is thought that there was less room than there was.
func (a *Auditor) taken(w *audited, node string, count func(*core.PodSet, int32)) {
	add := func(x *audited, adm *core.Admission) {
		for i := range adm.PodSets[:min(len(adm.PodSets), len(x.told.PodSets))] {
			p := &adm.PodSets[i]
			if n := core.PodsOn(p.Places, node) - core.PodsAt(x.told.Ended, p.Name, node); n > 0 {
				count(&x.told.PodSets[i], n)
			}
		}
	}
	for key, x := range a.workloads { // sums, so order does not matter
		if x == w {
			continue
		}
		var all []core.Admission
		if x.held != nil {
			all = append(all, *x.held)
		}
		for _, promised := range []map[core.Key]core.Admission{a.promised, a.promisedBefore} {
			is, some := promised[key]
			if some && !slices.ContainsFunc(all, func(o core.Admission) bool { return reflect.DeepEqual(o, is) }) {
				all = append(all, is)
			}
		}
		for i := range all {
			add(x, &all[i])
		}
	}
}

// slots is for how many pods of a set of a workload a node has room, whatever it has of them now.
func (a *Auditor) slots(w *audited, set int, name string) int64 {
	told := &w.told.PodSets[set]
	n := a.nodes[name]
	if _, kept := n.Labels[core.SpareLabel]; kept || a.suits(told, &w.held.PodSets[set], name) != nil {
		return 0 // those that are kept for recovery may be used by it, and need not be
	}
	used, limits := map[string]core.Amount{core.Pods: n.Foreign.Of(core.Pods)}, map[string]int64{}
	for _, q := range n.Foreign {
		used[q.Resource] = q.Amount
	}
	for _, l := range n.ForeignLimits {
		limits[l.Name] += int64(l.Count)
	}
	a.taken(w, name, func(p *core.PodSet, pods int32) {
		used[core.Pods] = used[core.Pods].Add(core.Amount(pods))
		for _, q := range p.Requests {
			used[q.Resource] = used[q.Resource].Add(q.Amount.Mul(int64(pods)))
		}
		for _, l := range p.Limits {
			limits[l.Name] += int64(l.Count) * int64(pods)
		}
	})
	most := int64(n.Allocatable.Of(core.Pods) - used[core.Pods])
	for _, q := range told.Requests {
		if q.Amount > 0 && q.Resource != core.Pods {
			most = min(most, int64((n.Allocatable.Of(q.Resource)-used[q.Resource])/q.Amount))
		}
	}
	for _, l := range told.Limits {
		if l.PerNode() {
			has := limits[l.Name]
			if l.Own {
				has = 0
			}
			most = min(most, (int64(l.Most)-has)/int64(l.Count))
		}
	}
	for _, refusal := range told.Filter.Refused {
		if refusal.Node == name {
			most = min(most, int64(refusal.Most))
		}
	}
	return max(0, most)
}

// area is nodes and for how many pods each has room.
type area map[string]int64

// holds is how many pods nodes that share a domain of a level may have, the slices of these pods observed: those
// without a label that slices further down are about may have none.
func (a *Auditor) holds(nodes area, levels []string, level int, slicesOf []core.PodSetSlice) int64 {
	sum := int64(0)
	if level == len(levels)-1 {
		for _, n := range nodes {
			sum += n
		}
	} else {
		inside, rest := a.domains(nodes, levels, level+1)
		for _, in := range inside { // sums, so order does not matter
			sum += a.holds(in, levels, level+1, slicesOf)
		}
		narrower := func(s core.PodSetSlice) bool { return slices.Index(levels, s.Level) > level }
		if !slices.ContainsFunc(slicesOf, narrower) {
			for _, n := range rest {
				sum += n
			}
		}
	}
	for _, s := range slicesOf {
		if level >= 0 && s.Level == levels[level] {
			sum -= sum % int64(max(1, s.Size))
		}
	}
	return sum
}

// domains are nodes by their value of the label of a level; rest has those without one.
func (a *Auditor) domains(nodes area, levels []string, level int) (inside map[string]area, rest area) {
	inside, rest = map[string]area{}, area{}
	for name, slots := range nodes { // each is put where it belongs
		value, has := a.nodes[name].Labels[levels[level]]
		if !has {
			rest[name] = slots
			continue
		}
		if inside[value] == nil {
			inside[value] = area{}
		}
		inside[value][name] = slots
	}
	return inside, rest
}

// within are the domains of a level, by the values of its label and of all wider ones; of -1 it is all nodes.
func (a *Auditor) within(nodes area, levels []string, level int) map[string]area {
	if level < 0 {
		return map[string]area{"": nodes}
	}
	out := map[string]area{}
	for name, around := range a.within(nodes, levels, level-1) {
		inside, _ := a.domains(around, levels, level)
		for value, in := range inside {
			out[name+"/"+value] = in
		}
	}
	return out
}

// alone is the pod set of a workload that has no other and of which only its own request and the room of nodes decide
// where it goes, and what counts of its request with which levels; false if it is none.
func (a *Auditor) alone(w *audited) (request core.TopologyRequest, levels []string, ok bool) {
	if len(w.held.PodSets) != 1 || len(w.held.PodSets[0].Places) == 0 {
		return request, nil, false
	}
	set := &w.told.PodSets[0]
	request, t := set.Topology.In(a.topologyOf(&w.held.PodSets[0]))
	if t.Missing(request) != "" || slices.Contains(request.Levels(), core.HostnameLabel) ||
		slices.ContainsFunc(set.Limits, func(l core.Limit) bool { return !l.PerNode() }) {
		return request, nil, false
	}
	if levels = t.Levels; len(levels) == 0 {
		levels = request.Levels()
	}
	if i := slices.Index(levels, core.HostnameLabel); i >= 0 {
		levels = levels[:i]
	}
	divides := func(s core.PodSetSlice) bool { return w.held.PodSets[0].Count%max(1, s.Size) == 0 }
	for _, s := range request.Slices {
		if !divides(s) {
			return request, nil, false
		}
	}
	return request, levels, len(levels) > 0
}

// nearest checks that the pods of a set that just got places are in one domain as narrow as there was one with room
// for all, and have equal shares of domains where they should and these had room (P2).
func (a *Auditor) nearest(w *audited) error {
	request, levels, ok := a.alone(w)
	if !ok {
		return nil
	}
	p := &w.held.PodSets[0]
	nodes := area{}
	for name := range a.nodes { // each is counted
		if n := a.slots(w, 0, name); n > 0 {
			nodes[name] = n
		}
	}
	if avoided := w.told.PodSets[0].Filter.Avoided; len(avoided) > 0 && !onAny(p.Places, avoided) {
		for _, name := range avoided { // there are places elsewhere
			delete(nodes, name)
		}
	}
	t := core.Topology{Levels: levels}
	span := len(levels) - 1
	for ; span >= 0; span-- {
		if in := a.byDomain(&t, levels[span], p.Places); len(in) == 1 && in[""] == 0 {
			break
		}
	}
	required, even := slices.Index(levels, request.Required), slices.Index(levels, request.Balanced)
	for _, level := range request.Parents {
		required = max(required, slices.Index(levels, level))
	}
	wide := even < 0 && request.Spread != ""
	if wide {
		even = slices.Index(levels, request.Spread)
		wide = even > required
	}
	if !wide {
		for level := len(levels) - 1; level > max(span, even-1); level-- {
			in := a.within(nodes, levels, level)
			for _, name := range slices.Sorted(maps.Keys(in)) {
				if room := a.holds(in[name], levels, level, request.Slices); room >= int64(p.Count) {
					return fmt.Errorf(
						"P2: the %d pods of %s are in no one %s (%v), and %s had room for %d",
						p.Count, p.Name, levels[level], p.Places, name, room,
					)
				}
			}
		}
	}
	if even < 0 || even <= required || !wide && span >= even || len(request.Slices) > 0 {
		return nil
	}
	narrowest := even - 1
	if wide {
		narrowest = required
		if i := slices.Index(levels, request.Preferred); i < even {
			narrowest = max(required, i)
		}
	}
	for level := narrowest; level >= required; level-- {
		best := 0
		for _, around := range a.within(nodes, levels, level) { // the least or the most of all
			k := a.equalShares(around, levels, level, even, int64(p.Count), wide)
			if k > 0 && (best == 0 || wide && k > best || !wide && k < best) {
				best = k
			}
		}
		if best == 0 {
			continue
		}
		in := a.byDomain(&t, levels[even], p.Places)
		counts := slices.Sorted(maps.Values(in))
		if in[""] > 0 || len(in) != best || counts[len(counts)-1]-counts[0] > 1 {
			return fmt.Errorf(
				"P2: the %d pods of %s are in %v, and could have equal shares of %d times %s",
				p.Count, p.Name, in, best, levels[even],
			)
		}
		return nil
	}
	return nil
}

// avoided checks that a set is on nodes that it avoids only where it has no place without them (P2).
func (a *Auditor) avoided(w *audited) error {
	if len(w.held.PodSets) != 1 || len(w.held.PodSets[0].Places) == 0 {
		return nil
	}
	p, set := &w.held.PodSets[0], &w.told.PodSets[0]
	request, levels, alone := a.alone(w)
	if !onAny(p.Places, set.Filter.Avoided) || !alone && !set.Topology.Empty() ||
		slices.ContainsFunc(set.Limits, func(l core.Limit) bool { return !l.PerNode() }) {
		return nil
	}
	nodes := area{}
	for name := range a.nodes { // each is counted
		if n := a.slots(w, 0, name); n > 0 && !slices.Contains(set.Filter.Avoided, name) {
			nodes[name] = n
		}
	}
	required := slices.Index(levels, request.Required)
	for _, level := range request.Parents {
		required = max(required, slices.Index(levels, level))
	}
	for _, in := range a.within(nodes, levels, required) { // any will do
		if room := a.holds(in, levels, required, request.Slices); room >= int64(p.Count) {
			return fmt.Errorf(
				"P2: pods of %s are on %v, of which it avoids %v, and others had room for %d",
				p.Name, p.Places, set.Filter.Avoided, room,
			)
		}
	}
	return nil
}

// avoidanceKeepsNone checks that a workload that waits would do so without the nodes that it avoids, too: they are
// avoided where that is possible (P9).
func (a *Auditor) avoidanceKeepsNone(key core.Key, now time.Time) error {
	w := a.workloads[key]
	if !slices.ContainsFunc(w.told.PodSets, func(p core.PodSet) bool { return len(p.Filter.Avoided) > 0 }) {
		return nil
	}
	b := a.copyFor(key, now)
	if _, starts := b.try(); starts {
		return nil // it waits because of others
	}
	told := &b.workloads[key].told
	told.PodSets = slices.Clone(told.PodSets)
	for i := range told.PodSets {
		told.PodSets[i].Filter.Avoided = nil
	}
	if _, starts := b.try(); starts {
		return fmt.Errorf("P9: %s waits only because it avoids nodes", key)
	}
	return nil
}

// equalShares is of how many domains of a level in another, two at least, pods can have equal shares: the fewest or,
// if wide, the most; 0 if of none.
func (a *Auditor) equalShares( //nolint:revive // a fact
	around area,
	levels []string,
	level, even int,
	pods int64,
	wide bool,
) (best int) {
	var rooms []int64
	for _, in := range a.belowIn(around, levels, level, even) {
		if room := a.holds(in, levels, even, nil); room > 0 {
			rooms = append(rooms, room)
		}
	}
	slices.Sort(rooms)
	slices.Reverse(rooms)
	for k := 2; k <= min(len(rooms), int(pods)); k++ {
		small, larger := pods/int64(k), int(pods%int64(k))
		if rooms[k-1] < small || larger > 0 && rooms[larger-1] < small+1 {
			continue
		}
		if best = k; !wide {
			break
		}
	}
	return best
}

// belowIn are the domains of a level in nodes that share one of a wider level.
func (a *Auditor) belowIn(nodes area, levels []string, level, even int) []area {
	if level == even {
		return []area{nodes}
	}
	var out []area
	inside, _ := a.domains(nodes, levels, level+1)
	for _, in := range inside { // in any order
		out = append(out, a.belowIn(in, levels, level+1, even)...)
	}
	return out
}

func onAny(places []core.Place, nodes []string) bool {
	return slices.ContainsFunc(places, func(pl core.Place) bool { return slices.Contains(nodes, pl.Node) })
}

// beside checks that pods that were moved are as near to those that stay, and as far from them, as they must be: what
// holds for those that stay holds for all (P2). Labels of nodes may have changed since those were placed.
func (a *Auditor) beside(w *audited, before *core.Admission) error {
	after := w.held
	defer func() { w.held = after }()
	stay, whole := *after, *after
	stay.PodSets, whole.PodSets = slices.Clone(after.PodSets), slices.Clone(after.PodSets)
	known := func(places []core.Place) []core.Place {
		return slices.DeleteFunc(
			slices.Clone(places), func(pl core.Place) bool { return a.nodes[pl.Node].Name == "" || pl.Count == 0 },
		)
	}
	for i := range after.PodSets {
		was, is := before.PodSets[i].Places, slices.Clone(after.PodSets[i].Places)
		for k := range is {
			is[k].Count = min(is[k].Count, max(0, core.PodsOn(was, is[k].Node)-core.PodsOn(is[:k], is[k].Node)))
		}
		stay.PodSets[i].Places, whole.PodSets[i].Places = known(is), known(after.PodSets[i].Places)
	}
	if err := a.evenBeside(w, before); err != nil {
		return err
	}
	rules := []func() error{func() error { return a.together(w) }}
	for i := range after.PodSets {
		p := &after.PodSets[i]
		rules = append(
			rules,
			func() error { return a.required(&w.told.PodSets[i], &w.held.PodSets[i]) },
			func() error { return a.spread(w, i) },
		)
		if err := a.slicesBeside(&w.told.PodSets[i], &before.PodSets[i], p); err != nil {
			return err
		}
	}
	for _, rule := range rules {
		if w.held = &stay; rule() != nil {
			continue // it does not hold without those that were moved
		}
		if w.held = &whole; rule() != nil {
			return fmt.Errorf("beside pods that stay: %w", rule())
		}
	}
	return nil
}

// required checks that the pods of a set are in one domain of the level that it requires (P2).
func (a *Auditor) required(set *core.PodSet, p *core.PodSetAdmission) error {
	request, t := set.Topology.In(a.topologyOf(p))
	if t.Missing(request) != "" || len(p.Places) == 0 || request.Required == "" {
		return nil
	}
	if len(t.Levels) == 0 {
		t.Levels = request.Levels()
	}
	if in := a.byDomain(&t, request.Required, p.Places); len(in) > 1 || in[""] > 0 {
		return fmt.Errorf("P2: the pods of %s must be in one %s and are in %v", set.Name, request.Required, in)
	}
	return nil
}

// evenBeside checks that pods had equal shares of domains where they should, and still have where each of these
// domains has room for what it had (P2).
func (a *Auditor) evenBeside(w *audited, before *core.Admission) error {
	request, levels, ok := a.alone(w)
	even := max(slices.Index(levels, request.Balanced), slices.Index(levels, request.Spread))
	if !ok || even < 0 || len(request.Slices) > 0 {
		return nil
	}
	t := core.Topology{Levels: levels}
	was := a.byDomain(&t, levels[even], before.PodSets[0].Places)
	is := a.byDomain(&t, levels[even], w.held.PodSets[0].Places)
	uneven := func(in map[string]int32) bool {
		counts := slices.Sorted(maps.Values(in))
		return in[""] > 0 || len(counts) < 2 || counts[len(counts)-1]-counts[0] > 1
	}
	if uneven(was) || !uneven(is) {
		return nil
	}
	room := map[string]int64{}
	for name := range a.nodes { // sums, so order does not matter
		for in := range a.byDomain(&t, levels[even], []core.Place{{Node: name, Count: 1}}) { // one
			room[in] += a.slots(w, 0, name)
		}
	}
	for in, n := range was { // all
		if room[in] < int64(n) {
			return nil
		}
	}
	return fmt.Errorf(
		"P2: the pods of %s had equal shares of %v, which have room for them still, and are in %v",
		w.held.PodSets[0].Name, was, is,
	)
}

// slicesBeside checks that pods that were moved are in the domains of the others of their slices (P2).
func (a *Auditor) slicesBeside(set *core.PodSet, before, after *core.PodSetAdmission) error {
	request, t := set.Topology.For(set.Count).In(a.topologyOf(after))
	if t.Missing(request) != "" || len(request.Slices) == 0 {
		return nil
	}
	if len(t.Levels) == 0 {
		t.Levels = request.Levels()
	}
	was, is := byRank(before.Places), byRank(after.Places)
	if len(was) != len(is) {
		return nil // they were admitted without places
	}
	for _, slice := range request.Slices {
		size := int(max(1, slice.Size))
		for from := 0; from+size <= len(is); from += size {
			var stay, moved []core.Place
			for rank := from; rank < from+size; rank++ {
				switch pl := (core.Place{Node: is[rank], Count: 1}); {
				case is[rank] != was[rank]:
					moved = append(moved, pl)
				case a.nodes[is[rank]].Name != "":
					stay = append(stay, pl)
				}
			}
			in := a.byDomain(&t, slice.Level, stay)
			if len(moved) == 0 || len(in) > 1 || in[""] > 0 {
				continue
			}
			if in = a.byDomain(&t, slice.Level, slices.Concat(stay, moved)); len(in) > 1 || in[""] > 0 {
				return fmt.Errorf(
					"P2: pods of %s were moved to others than the %s of their slice: it is in %v",
					set.Name, slice.Level, in,
				)
			}
		}
	}
	return nil
}

// byRank lists the node of each pod.
func byRank(places []core.Place) (out []string) {
	for _, pl := range places {
		out = append(out, slices.Repeat([]string{pl.Node}, int(pl.Count))...)
	}
	return out
}
