package cycle_test

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
)

// decide returns what an engine should decide, without refusals.
func (r *reference) decide(now time.Time) []string {
	r.now, r.out, r.refused, r.held = now.Unix(), nil, map[core.Key]bool{}, map[core.Key]bool{}
	r.sample(now)
	r.drain()
	r.move()
	r.admitReserved()
	for {
		w, act := r.next()
		if w == nil {
			return r.out
		}
		act()
	}
}

func (r *reference) drain() {
	for _, w := range slices.Clone(r.reservations) {
		if stop := r.queues[w.queue].Stop; stop == core.Hold || stop == core.HoldAndDrain {
			r.drop(w)
		}
	}
	for _, q := range sortedKeys(r.queues) {
		if r.queues[q].Stop != core.HoldAndDrain {
			continue
		}
		for _, w := range r.sorted() {
			if w.phase == refRunning && w.adm.Queue == q {
				w.phase = refLeaving
				r.say("evict %s", w.Key)
			}
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// next is the best workload for which something can be done: the first such of
// each queue, the lowest borrowing level, then the order of the queue.
func (r *reference) next() (best *refWorkload, act func()) {
	bestLevel := 0
	heads := map[string]*refWorkload{}
	acts := map[string]func(){}
	for name, q := range r.queues {
		if q.Stop == core.Hold || q.Stop == core.HoldAndDrain {
			continue
		}
		for _, w := range r.inQueue(name) {
			if w.queue != name || w.phase == refRunning || w.phase == refLeaving {
				continue
			}
			if w.phase == refReserved || r.refused[w.Key] {
				if q.Strategy == core.StrictFIFO {
					break
				}
				continue
			}
			level, try := r.judge(w)
			if try != nil && r.fit && r.unready() {
				try = nil
			}
			if try == nil {
				r.refused[w.Key] = true
				if q.Strategy == core.StrictFIFO {
					break
				}
				continue
			}
			heads[name], acts[name] = w, try
			if best == nil || cmp.Or(cmp.Compare(level, bestLevel), refOrder(w, best)) < 0 {
				best, bestLevel, act = w, level, try
			}
			break
		}
	}
	if r.fair != nil && best != nil {
		best = r.tournament(heads)
		act = acts[best.queue]
	}
	return best, act
}

// judgeAll finds what can be done for a workload with all its pods; nil if nothing.
func (r *reference) judgeAll(w *refWorkload) (level int, act func()) {
	r.fit = false
	asks, ok := r.asks(w)
	if !ok {
		return 0, nil
	}
	tried := make([]map[int]bool, len(asks))
	a := r.assign(w, asks, tried)
	for range 32 {
		if act := r.resolve(w, asks, a); act != nil {
			r.quotaOnly = true
			ranked := r.assign(w, asks, make([]map[int]bool, len(asks)))
			level, w.counts = ranked.level, ranked.uses
			r.quotaOnly = false
			return level, act
		}
		more := false
		last := len(a.chosen) - 1
		if a.mode == mNoFit {
			last--
		}
		for i := last; i >= 0 && !more; i-- {
			if a.chosen[i] < 0 {
				continue
			}
			if tried[i] == nil {
				tried[i] = map[int]bool{}
			}
			tried[i][a.chosen[i]] = true
			if more = len(tried[i]) < len(asks[i].flavors); more {
				clear(tried[i+1:])
			}
		}
		if !more {
			break
		}
		a = r.assign(w, asks, tried)
	}
	return 0, nil
}

func (r *reference) resolve(w *refWorkload, asks []refAsk, a refAssign) func() {
	if a.mode == mNoFit {
		return nil
	}
	var sets []refSet
	for i := range w.PodSets {
		var flavors []string
		for k, ask := range asks {
			if ask.set == i {
				flavors = append(flavors, ask.flavors[a.chosen[k]])
			}
		}
		if s, ok := r.set(w, i, flavors); ok {
			sets = append(sets, s)
		}
	}
	now := mixed(asks) // nodes of one flavor, looked at alone, say little
	for x, v := range a.uses {
		now = now && v <= r.room(w.queue, x, core.Projected, nil) && v <= r.room(w.queue, x, core.Current, nil)
	}
	if a.mode == mFit || now {
		if r.blockedByReservation(w, a.uses, nil) {
			return nil
		}
		if assigned, ok := r.place(sets, []core.Account{core.Current, core.Projected}, nil); ok {
			r.fit = true
			return func() {
				r.grant(w, asks, a, sets, assigned)
				w.phase, w.reserved, w.unseen, w.accepted, w.moved = refRunning, r.now, true, false, false
				r.charge(w)
				r.headReservationEnds(w)
				r.say("admit %s%s", w.Key, printAdmission(*w.adm))
			}
		}
	}
	if act := r.reservable(w, asks, a, sets, nil); act != nil {
		return act
	}
	var victims []*refWorkload
	if len(a.short) > 0 {
		victims = r.search(w, a.uses, a.short, sets)
	}
	if victims == nil && (len(a.short) == 0 || len(sets) > 0) {
		for x := range a.uses {
			a.short[x] = true
		}
		victims = r.search(w, a.uses, a.short, sets)
	}
	if victims == nil || w.PreemptionGate != "" {
		return nil
	}
	return r.reservable(w, asks, a, sets, victims)
}

// mixed reports whether some pod set takes resources from several groups.
func mixed(asks []refAsk) bool {
	for i := range asks {
		if i > 0 && asks[i].set == asks[i-1].set {
			return true
		}
	}
	return false
}

// reserve books quota and nodes if the workload fits once everybody who
// leaves, victims included, is gone.
func (r *reference) reservable(
	w *refWorkload,
	asks []refAsk,
	a refAssign,
	sets []refSet,
	victims []*refWorkload,
) func() {
	g := gone{}
	for _, v := range victims {
		g[v.Key] = true
	}
	for x, v := range a.uses {
		if v > r.room(w.queue, x, core.Projected, g) {
			return nil
		}
	}
	if r.blockedByReservation(w, a.uses, g) {
		return nil
	}
	assigned, ok := r.place(sets, []core.Account{core.Projected}, g)
	if !ok {
		return nil
	}
	return func() { r.reserve(w, asks, a, sets, assigned, victims, g) }
}

func (r *reference) reserve( //nolint:revive // what a verdict consists of
	w *refWorkload,
	asks []refAsk,
	a refAssign,
	sets []refSet,
	assigned []podsOnNode,
	victims []*refWorkload,
	g gone,
) {
	blocked := r.unready()
	for _, v := range victims {
		v.phase = refLeaving
		if v.spare == nil {
			v.spare = map[core.Key]bool{}
		}
		maps.Copy(v.spare, w.spare)
		v.spare[w.Key] = true
		r.say("evict %s for %s", v.Key, w.Key)
	}
	// What victims leave may do for another refused before; what is reserved may be
	// reclaimed, ends a claim, or was counted on by those who wait for pods.
	clear(r.refused)
	r.grant(w, asks, a, sets, assigned)
	w.phase, w.deps, w.evicts = refReserved, g, len(victims) > 0
	if !r.fitsNow(w, g) {
		for _, x := range r.workloads {
			if x.phase == refLeaving && r.related(w, x) {
				w.deps[x.Key] = true
			}
		}
	}
	r.reservations = append(r.reservations, w)
	if blocked && !r.unready() { // the last whose pods others waited for makes way
		r.admitReserved()
	}
}

func (r *reference) root(queue string) refNode {
	n := refNode{queue, true}
	for {
		p, ok := r.parent(n)
		if !ok {
			return n
		}
		n = p
	}
}

func (r *reference) related(w, x *refWorkload) bool {
	if r.root(w.adm.Queue) == r.root(x.adm.Queue) {
		return true
	}
	nodes := map[string]bool{}
	for _, p := range w.adm.PodSets {
		for _, pl := range p.Places {
			nodes[pl.Node] = true
		}
	}
	for _, p := range x.adm.PodSets {
		for _, pl := range p.Places {
			if nodes[pl.Node] {
				return true
			}
		}
	}
	return false
}

// fitsNow reports whether a reserved workload fits account Current without some.
func (r *reference) fitsNow(w *refWorkload, g gone) bool {
	for x, v := range w.uses() {
		if v > r.room(w.adm.Queue, x, core.Current, g) {
			return false
		}
	}
	return r.holdable(w, core.Current, g)
}

// holdable reports whether the nodes reserved for w have room in an account in
// which w is not booked.
func (r *reference) holdable(w *refWorkload, l core.Account, g gone) bool {
	need := map[string]map[string]core.Amount{}
	for i, p := range w.adm.PodSets {
		for _, pl := range p.Places {
			n, ok := r.nodes[pl.Node]
			s, _ := r.set(w, i, p.FlavorNames())
			if !ok || !n.State.TakesWork() || !s.filter.Admits(&n) {
				return false
			}
			if need[pl.Node] == nil {
				need[pl.Node] = map[string]core.Amount{}
			}
			for _, q := range w.PodSets[i].Requests.With(core.Pods, 1) {
				need[pl.Node][q.Resource] += q.Amount * core.Amount(pl.Count)
			}
		}
	}
	for i, p := range w.adm.PodSets {
		for _, limit := range w.PodSets[i].Limits {
			for _, pl := range p.Places {
				own := core.Amount(0)
				for j, o := range w.adm.PodSets {
					for _, same := range w.PodSets[j].Limits {
						if same.Name == limit.Name {
							own += core.Amount(same.Count) * core.Amount(core.PodsOn(o.Places, pl.Node))
						}
					}
				}
				if !limit.Own && own+r.taken(pl.Node, limit, l, g) > core.Amount(limit.Most) {
					return false
				}
			}
		}
	}
	for node, res := range need {
		for resource, v := range res {
			if v > 0 && v > r.free(node, resource, l, g) {
				return false
			}
		}
	}
	return true
}

func (r *reference) admitReserved() {
	for _, w := range slices.Clone(r.reservations) {
		self := gone{w.Key: true}
		ok := r.holdable(w, core.Projected, self)
		for x, v := range w.uses() {
			ok = ok && v <= r.room(w.adm.Queue, x, core.Projected, self)
		}
		for _, p := range w.adm.PodSets { // nodes appeared where quota alone had decided
			ok = ok && (p.Count == 0 || len(p.Places) > 0 || len(p.Flavors) == 0 || len(r.nodes) == 0)
		}
		if !ok {
			r.drop(w)
			continue
		}
		owing := false
		for k := range w.deps {
			x := r.workloads[k]
			owing = owing || x != nil && x.phase == refLeaving
		}
		if owing || !r.fitsNow(w, nil) {
			continue
		}
		if r.unready() {
			if !w.evicts {
				r.drop(w)
			}
			continue
		}
		r.unreserve(w)
		w.phase, w.reserved, w.unseen, w.accepted, w.moved = refRunning, r.now, true, false, false
		r.charge(w)
		r.say("admit %s%s", w.Key, printAdmission(*w.adm))
	}
}

// unready reports whether admission waits for the pods of another.
func (r *reference) unready() bool {
	for _, w := range r.workloads {
		if r.block && w.phase == refRunning && !w.Ready {
			return true
		}
	}
	return false
}

func (r *reference) unreserve(w *refWorkload) {
	r.reservations = slices.DeleteFunc(r.reservations, func(x *refWorkload) bool { return x == w })
	w.deps = nil
}

func (r *reference) drop(w *refWorkload) {
	r.unreserve(w)
	w.phase, w.adm = refWaiting, nil
}

// grant writes the admission that an assignment and assigned amount to.
func (r *reference) grant(w *refWorkload, asks []refAsk, a refAssign, sets []refSet, assigned []podsOnNode) {
	w.adm = &core.Admission{Queue: w.queue}
	for i, p := range w.PodSets {
		out := core.PodSetAdmission{Name: p.Name, Count: p.Count}
		for k, ask := range asks {
			if ask.set != i {
				continue
			}
			for x, v := range ask.need[a.chosen[k]] {
				out.Flavors = append(out.Flavors, core.FlavorChoice{Resource: x.Resource, Flavor: x.Flavor})
				out.Usage = out.Usage.With(x.Resource, v)
			}
		}
		slices.SortFunc(
			out.Flavors,
			func(a, b core.FlavorChoice) int { return cmp.Compare(a.Resource, b.Resource) },
		)
		for _, s := range assigned {
			if sets[s.set].index == i {
				out.Places = append(out.Places, core.Place{Node: s.node, Count: s.count})
			}
		}
		slices.SortFunc(out.Places, func(a, b core.Place) int { return cmp.Compare(a.Node, b.Node) })
		w.adm.PodSets = append(w.adm.PodSets, out)
	}
}

// move finds other nodes for pods planned on nodes that take no work.
func (r *reference) move() {
	for _, w := range r.sorted() {
		if w.phase != refRunning {
			continue
		}
		var sets []refSet
		kept := slices.Clone(w.adm.PodSets)
		for i, p := range w.adm.PodSets {
			moving := int32(0)
			kept[i].Places = nil
			for _, pl := range p.Places {
				stay := pl.Count
				if n, ok := r.nodes[pl.Node]; !ok || !n.State.TakesWork() {
					stay = min(stay, settledAt(w, p.Name, pl.Node))
				}
				moving += pl.Count - stay
				if stay > 0 {
					kept[i].Places = append(kept[i].Places, core.Place{Node: pl.Node, Count: stay})
				}
			}
			if moving > 0 {
				s, _ := r.set(w, i, p.FlavorNames())
				s = refSet{
					index:  i,
					count:  moving,
					pod:    w.PodSets[i].Requests.With(core.Pods, 1),
					filter: s.filter,
					limits: s.limits,
				}
				sets = append(sets, s)
			}
		}
		if len(sets) == 0 {
			continue
		}
		r.moving, r.staying = w, nil
		for i := range kept {
			for _, pl := range kept[i].Places {
				r.staying = append(r.staying, podsOnNode{i, pl.Node, pl.Count})
			}
		}
		assigned, ok := r.place(sets, []core.Account{core.Current, core.Projected}, nil)
		r.moving, r.staying = nil, nil
		if !ok {
			w.phase = refLeaving
			r.say("evict %s", w.Key)
			continue
		}
		slices.SortStableFunc(assigned, func(a, b podsOnNode) int { return cmp.Compare(a.node, b.node) })
		for i, p := range w.adm.PodSets { // who moves takes the position of the place that is left
			var ranks []core.Place
			var found []string
			for _, s := range assigned {
				if sets[s.set].index == i {
					found = append(found, slices.Repeat([]string{s.node}, int(s.count))...)
				}
			}
			for _, pl := range p.Places {
				stay := core.PodsOn(kept[i].Places, pl.Node)
				for k := range pl.Count {
					node := pl.Node
					if k >= stay {
						node, found = found[0], found[1:]
					}
					ranks = append(ranks, core.Place{Node: node, Count: 1})
				}
			}
			kept[i].Places = nil
			for _, pl := range ranks {
				j := slices.IndexFunc(kept[i].Places, func(o core.Place) bool { return o.Node == pl.Node })
				if j < 0 {
					kept[i].Places = append(kept[i].Places, pl)
				} else {
					kept[i].Places[j].Count++
				}
			}
		}
		w.adm, w.moved = &core.Admission{Queue: w.adm.Queue, PodSets: kept}, w.unseen
		r.say("replace %s%s", w.Key, printAdmission(*w.adm))
	}
}

func settledAt(w *refWorkload, set, node string) int32 {
	for _, s := range w.Settled {
		for _, p := range s.Places {
			if s.Name == set && p.Node == node {
				return p.Count
			}
		}
	}
	return 0
}
