package cycle

import (
	"cmp"
	"slices"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/ledger"
	"github.com/mlbatch/mlbatch/internal/engine/place"
	"github.com/mlbatch/mlbatch/internal/engine/preempt"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// verdict is what was found out about one workload. It changes nothing yet, and holds
// until the next judgement.
type verdict struct {
	kind verdictKind
	// plan is what was tried last: of an admission or a reservation, what is given.
	plan *compiled
	// assigned are the flavors of the plan, sets the pods that need nodes with them, spots
	// the nodes of each.
	assigned *quota.Assignment
	sets     []place.Set
	spots    [][]place.Spot
	// victims must go first; empty if others that already leave suffice.
	victims []preempt.Victim
	// why is the reason of a refusal, or to wait for victims; ahead the workload for which
	// that is reserved which the reason says is short.
	why   *core.Reason
	ahead *workload
	met   obstacles
}

// obstacles are what stood in the way with some combination of flavors at least, also
// with those that are not told.
type obstacles struct {
	// lacksNodes says that nodes did.
	lacksNodes bool
	// unseen says that the admission of a candidate for eviction was not seen yet.
	unseen bool
	// blockedPairs are what other queues have reserved for their heads.
	blockedPairs []blockedPair
	// chosen are the flavors that the reason is about: those that looked best, not those
	// that were tried after them.
	chosen []int
}

type verdictKind uint8

const (
	refuse verdictKind = iota
	reserve
	admit
)

// judge finds out what can be done for a workload under the current usage. When
// the flavors that look best fail after all, on nodes or for want of victims, it
// tries the others.
func (e *Engine) judge(w *workload) verdict {
	p := e.compile(w.group)
	e.met = obstacles{blockedPairs: e.met.blockedPairs[:0], chosen: e.met.chosen[:0]}
	v := e.try(w, p)
	if v.kind == refuse {
		v = e.reduce(w, v)
	}
	v.plan, v.met = e.scene.plan, e.met
	return v
}

// try does the same for so many pods as the plan is for. Of what stands in the way
// with one combination of flavors the gravest is told, of the combinations the one
// that looked best, unless that can never be had and another can.
func (e *Engine) try(w *workload, p *compiled) verdict {
	e.scene.workload, e.scene.group, e.scene.plan = w, w.group, p
	if p.refusal != nil {
		return verdict{assigned: &e.assigned, why: p.refusal}
	}
	if len(p.joint) > 0 {
		return e.tryJointly(w, p)
	}
	e.forest.Assign(&p.Plan, nil, &e.scene, &e.assigned)
	refused := verdict{assigned: &e.assigned}
	e.tried = slices.Grow(e.tried[:0], len(p.Requests))[:len(p.Requests)]
	clear(e.tried)
	for range maxCombinations {
		v := e.resolve(w, p)
		if v.kind != refuse {
			return v
		}
		e.grave(&refused, v)
		e.met.lacksNodes = e.met.lacksNodes || v.why.Code == core.TopologyPlacementFailed
		if !e.assigned.Advance(&p.Plan, e.tried) {
			break
		}
		e.forest.Assign(&p.Plan, e.tried, &e.scene, &e.assigned)
	}
	return refused
}

// grave lets a refusal stand for all combinations of flavors if it is the first, or the
// first that is not for good.
func (e *Engine) grave(of *verdict, v verdict) {
	if of.why == nil || (quota.Permanent(*of.why) && !quota.Permanent(*v.why)) {
		of.why, of.ahead = v.why, v.ahead
		e.met.chosen = append(e.met.chosen[:0], e.assigned.Chosen...)
	}
}

// maxCombinations bounds how many combinations of flavors are tried for one
// workload.
const maxCombinations = 32

// resolve carries one assignment through nodes and preemption.
func (e *Engine) resolve(w *workload, p *compiled) verdict {
	a := &e.assigned
	if a.Mode == quota.NoFit {
		return verdict{why: e.refusal(w, e.gravest(w.group, p, a.Why))}
	}
	e.sets = e.podSets(e.sets[:0], w.group, p, a.Chosen)
	sets := e.sets
	why := a.Why
	if a.Mode == quota.Fit || e.fitsTogether(w.group, p, a) {
		if why, ahead := e.blockedByReservation(w.group, a.Uses); ahead != nil {
			return verdict{why: e.refusal(w, e.gravest(w.group, p, why)), ahead: ahead}
		}
		spots, short, ok := e.nodes.Place(place.Request{View: place.Free, Sets: sets})
		if ok {
			return verdict{kind: admit, assigned: a, sets: sets, spots: spots}
		}
		why = e.nodesWhy(w.group, sets, short, a.Chosen)
	}
	if short, ok := e.placeable(p, sets, a.Chosen); !ok {
		return verdict{why: e.refusal(w, e.nodesWhy(w.group, sets, short, a.Chosen))}
	}
	v, ok := e.reservable(w, sets, nil, &why)
	if ok {
		return v
	}
	ahead := v.ahead
	req := e.request(w, a.Uses, a.Short, sets)
	victims := e.victims(&req)
	if victims != nil {
		v, ok := e.reservable(w, sets, slices.Clone(victims), &why)
		if ok {
			if gate := w.equivalence.gate; gate != "" {
				e.met.lacksNodes = e.met.lacksNodes || why.LacksNodes()
				why.Code, why.Cause, why.Detail = core.AdmissionGated, core.PreemptionGated, gate
				why.Victims = int32(len(v.victims)) //nolint:gosec // few
				return verdict{why: e.refusal(w, why)}
			}
			return v
		}
		ahead = cmp.Or(v.ahead, ahead)
	}
	if why.Code == core.WaitingForQuota && len(sets) > 0 {
		req.Sets = nil
		if victims := e.find(&req); victims != nil {
			v, _ := e.reservable(w, sets, slices.Clone(victims), &why) // quota could be had, nodes could not
			ahead = cmp.Or(v.ahead, ahead)
		}
	}
	return verdict{why: e.refusal(w, why), ahead: ahead}
}

// fitsTogether reports whether nodes are worth a try although those of one
// flavor, looked at alone, do not do: a pod set with several flavors goes where
// all of them are, or, if nodes of one are made on demand, wherever the scheduler likes.
func (e *Engine) fitsTogether(g *group, p *compiled, a *quota.Assignment) bool {
	if !slices.ContainsFunc(p.asks, func(asks []int) bool { return len(asks) > 1 }) {
		return false
	}
	return !slices.ContainsFunc(a.Uses, func(u quota.Use) bool {
		return u.Amount > min(g.queue.node.Room(core.Current, u.Pair), g.queue.node.Room(core.Projected, u.Pair))
	})
}

// victims searches workloads that use what is short of quota. Where nodes are
// short too, or alone, whoever uses any of the same quota may hold them.
func (e *Engine) victims(r *preempt.Request) []preempt.Victim {
	if len(r.Short) > 0 {
		if v := e.find(r); v != nil || len(r.Sets) == 0 {
			return v
		}
	}
	all := make([]quota.FlavorResource, 0, len(r.Uses))
	for _, u := range r.Uses {
		all = append(all, u.Pair)
	}
	if len(all) == len(r.Short) {
		return nil
	}
	r.Short = all
	return e.find(r)
}

// find searches victims, and notes whether somebody was passed over.
func (e *Engine) find(r *preempt.Request) []preempt.Victim {
	victims, unseen := e.search.Find(*r)
	e.met.unseen = e.met.unseen || unseen
	return victims
}

// reservable tests whether a workload fits once its victims, and all others that
// leave already, are gone. Where quota would do and nodes would not, it says so
// in why.
func (e *Engine) reservable(w *workload, sets []place.Set, victims []preempt.Victim, why *core.Reason) (verdict, bool) {
	a := &e.assigned
	t := e.books.Begin(w.group.queue.node, ledger.Scope{Account: core.Projected})
	defer t.End()
	for _, v := range victims {
		t.Without(&v.Allocation)
	}
	for _, u := range a.Uses {
		if u.Amount > w.group.queue.node.Room(core.Projected, u.Pair) {
			return verdict{}, false
		}
	}
	if kept, ahead := e.blockedByReservation(w.group, a.Uses); ahead != nil {
		*why = kept
		return verdict{ahead: ahead}, false
	}
	spots, short, ok := e.nodes.Place(place.Request{View: place.After, Sets: sets})
	if !ok {
		if why.Code == core.WaitingForQuota {
			*why = e.nodesWhy(w.group, sets, short, a.Chosen)
		}
		return verdict{}, false
	}
	waits := *why
	waits.Code = core.WaitingForPreempted
	return verdict{kind: reserve, assigned: a, sets: sets, spots: spots, victims: victims, why: &waits}, true
}

// request describes a workload to the search for victims.
func (e *Engine) request(w *workload, uses []quota.Use, scarce []quota.FlavorResource, sets []place.Set) preempt.Request {
	return preempt.Request{
		Queue: w.group.queue.node, Policy: w.group.queue.spec.Preemption,
		Priority: w.Priority, Time: w.Time,
		Uses: uses, Short: scarce, Sets: sets, Spare: w.spare,
	}
}

// podSets adds to a list the pods that need nodes with the chosen flavors.
func (e *Engine) podSets(list []place.Set, g *group, p *compiled, chosen []int) []place.Set {
	for i := range g.equivalence.podSets {
		if c := e.classFor(g, p, i, chosen); c != nil {
			list = append(list, place.Set{Index: i, Class: c, Count: p.counts[i]})
		}
	}
	return list
}

// emptied is whether nodes hold pod sets with certain flavors, were they empty and
// in service, and what is short if they do not.
type emptied struct {
	chosen []int
	short  place.Shortage
	ok     bool
}

// placeable reports whether pod sets could ever be placed with the chosen flavors,
// each and all at the same time. It is asked when they cannot be now.
func (e *Engine) placeable(p *compiled, sets []place.Set, chosen []int) (place.Shortage, bool) {
	i := slices.IndexFunc(p.emptied, func(x emptied) bool { return slices.Equal(x.chosen, chosen) })
	if i < 0 {
		short, ok := e.onEmptyNodes(p, sets)
		i, p.emptied = len(p.emptied), append(p.emptied, emptied{slices.Clone(chosen), short, ok})
	}
	return p.emptied[i].short, p.emptied[i].ok
}

func (e *Engine) onEmptyNodes(p *compiled, sets []place.Set) (place.Shortage, bool) {
	for i, set := range sets {
		if len(p.asks[set.Index]) == 1 {
			continue // flavor assignment has seen to it
		}
		if short, ok := e.nodes.Possible(set); !ok {
			short.Set = i
			return short, false
		}
	}
	return e.nodes.Together(sets)
}

// gravest is why a workload is refused: that nodes could never hold its pods, where
// that is so and it would be told to wait. Where flavors are left to choose, it is
// left open.
func (e *Engine) gravest(g *group, p *compiled, why core.Reason) core.Reason {
	if quota.Permanent(why) || (len(p.Requests) < 2 && len(p.asks) < 2) {
		return why
	}
	chosen := make([]int, len(p.Requests))
	for i := range p.Requests {
		switch {
		case i < len(e.assigned.Chosen) && e.assigned.Chosen[i] >= 0:
			chosen[i] = e.assigned.Chosen[i]
		case len(p.Requests[i].Options) > 1:
			return why
		}
	}
	sets := e.podSets(nil, g, p, chosen)
	if short, ok := e.placeable(p, sets, chosen); !ok {
		return e.nodesWhy(g, sets, short, chosen)
	}
	return why
}

// classFor is the kind of pod that a pod set becomes with the chosen flavors,
// nil if none are looked for: it has no pods, or one of its flavors has none.
func (e *Engine) classFor(g *group, p *compiled, set int, chosen []int) *place.Class {
	asks := p.asks[set]
	switch {
	case p.counts[set] == 0:
		return nil
	case len(asks) == 0:
		if !e.nodes.Any(nil) {
			return nil
		}
		return e.class(g.equivalence, set, nil)
	case len(asks) == 1:
		return p.classes[asks[0]][chosen[asks[0]]]
	}
	flavors := make([]string, 0, len(asks))
	for _, k := range asks {
		if p.classes[k][chosen[k]] == nil {
			return nil
		}
		flavors = append(flavors, p.Requests[k].Options[chosen[k]].Flavor)
	}
	slices.Sort(flavors)
	return e.class(g.equivalence, set, slices.Compact(flavors))
}

func (e *Engine) nodesWhy(g *group, sets []place.Set, short place.Shortage, chosen []int) core.Reason {
	set := sets[short.Set].Index
	why := nodeReason(g, set, short)
	why.Flavor = e.nodeFlavor(e.scene.plan, set, chosen)
	e.blameFlavor(&why)
	return why
}

// nodeFlavor is the flavor that says which nodes a pod set may use: the only one
// assigned to it, or of several the only one with node labels; else "".
func (e *Engine) nodeFlavor(p *compiled, set int, chosen []int) string {
	name, labeled := "", 0
	for _, k := range p.asks[set] {
		f := p.Requests[k].Options[chosen[k]].Flavor
		if len(p.asks[set]) == 1 {
			return f
		}
		if len(e.flavors[f].spec.NodeLabels) > 0 && f != name {
			name, labeled = f, labeled+1
		}
	}
	if labeled > 1 {
		return ""
	}
	return name
}
