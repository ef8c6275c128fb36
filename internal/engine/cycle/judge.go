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

func newJudge(m *model) *judge {
	j := &judge{model: m, headReservers: map[*quota.Node][]*queue{}, relocating: map[*quota.Node][]*queue{}}
	j.search.Ledger, j.search.Fair = m.books, m.opt.FairSharing
	j.oracle.judge = j
	return j
}

// obstacles are all that stood in the way with at least one combination of flavors, the
// combinations included whose reason is not reported.
type obstacles struct {
	// lacksNodes says that nodes did.
	lacksNodes bool
	// skipped is which candidates for eviction were passed over because their time has not come.
	skipped preempt.Skipped
	// blockedPairs are what other queues have reserved for their heads.
	blockedPairs []blockedPair
	// chosen are the flavors of the combination that the reason is about (see keepWorst).
	chosen []int
}

type verdictKind uint8

const (
	refuse verdictKind = iota
	reserve
	admit
)

// verdict finds out what can be done for a workload under the current usage. When
// the flavors that look best fail after all, on nodes or for want of victims, it
// tries the others.
func (j *judge) verdict(w *workload) *verdict {
	p := j.compile(w.group)
	j.met = obstacles{blockedPairs: j.met.blockedPairs[:0], chosen: j.met.chosen[:0]}
	j.found = j.try(w, p)
	if j.found.kind == refuse {
		j.found = j.reduce(w, j.found)
	}
	j.found.plan, j.found.met = j.oracle.plan, &j.met
	return &j.found
}

// try does the same for so many pods as the plan is for. Of what stands in the way
// with one combination of flavors the gravest is told, of the combinations the one
// that looked best, unless that can never be had and another can.
func (j *judge) try(w *workload, p *compiled) verdict {
	j.oracle.about(w, p)
	if p.refusal != nil {
		return verdict{assigned: &j.assigned, why: p.refusal}
	}
	if len(p.joint) > 0 {
		return j.tryJointly(w, p)
	}
	j.forest.Assign(&p.CompiledRequests, nil, &j.oracle, &j.assigned)
	refused := verdict{assigned: &j.assigned}
	j.tried = slices.Grow(j.tried[:0], len(p.Requests))[:len(p.Requests)]
	clear(j.tried)
	for range maxCombinations {
		v := j.resolve(w, p)
		if v.kind != refuse {
			return v
		}
		j.keepWorst(&refused, &v)
		j.met.lacksNodes = j.met.lacksNodes || v.why.Code == core.TopologyPlacementFailed
		if !j.assigned.Advance(&p.CompiledRequests, j.tried) {
			break
		}
		j.forest.Assign(&p.CompiledRequests, j.tried, &j.oracle, &j.assigned)
	}
	return refused
}

// keepWorst lets a refusal stand for all combinations of flavors if it is the first, or the
// first that is not for good.
func (j *judge) keepWorst(of, v *verdict) {
	if of.why == nil || (quota.Permanent(*of.why) && !quota.Permanent(*v.why)) {
		of.why, of.ahead = v.why, v.ahead
		j.met.chosen = append(j.met.chosen[:0], j.assigned.Chosen...)
	}
}

// maxCombinations bounds how many combinations of flavors are tried for one
// workload.
const maxCombinations = 32

// resolve carries one assignment through nodes and preemption.
func (j *judge) resolve(w *workload, p *compiled) verdict {
	a := &j.assigned
	if a.Mode == quota.NoFit {
		return verdict{why: j.refusal(w, j.gravest(w.group, p, a.Why))}
	}
	j.sets = j.podSets(j.sets[:0], w.group, p, a.Chosen)
	sets := j.sets
	why := a.Why
	if a.Mode == quota.Fit || j.fitsTogether(w.group, p, a) {
		if why, ahead := j.blockedByReservation(w.group, a.Uses); ahead != nil {
			return verdict{why: j.refusal(w, j.gravest(w.group, p, why)), ahead: ahead}
		}
		spots, short, ok := j.nodes.Place(place.Request{View: place.Free, Sets: sets})
		if ok {
			return verdict{kind: admit, assigned: a, sets: sets, spots: spots}
		}
		why = j.nodesWhy(w.group, sets, short, a.Chosen)
	}
	if short, ok := j.placeable(p, sets, a.Chosen); !ok {
		return verdict{why: j.refusal(w, j.nodesWhy(w.group, sets, short, a.Chosen))}
	}
	v, ok := j.reservable(w, sets, nil, &why)
	if ok {
		return v
	}
	ahead := v.ahead
	req := j.request(w, a.Uses, a.Short, sets)
	victims := j.victims(&req)
	if victims != nil {
		v, ok := j.reservable(w, sets, slices.Clone(victims), &why)
		if ok {
			return j.gated(w, v, why)
		}
		ahead = cmp.Or(v.ahead, ahead)
	}
	if ahead == nil && j.hasQuota(w.group, a.Uses) {
		if v, ok := j.relocate(w, sets, why); ok {
			return j.gated(w, v, why)
		}
	}
	if why.Code == core.WaitingForQuota && len(sets) > 0 {
		req.Sets = nil
		if victims := j.find(&req); victims != nil {
			v, _ := j.reservable(w, sets, slices.Clone(victims), &why) // quota could be had, nodes could not
			ahead = cmp.Or(v.ahead, ahead)
		}
	}
	return verdict{why: j.refusal(w, why), ahead: ahead}
}

// gated is a verdict by which others are stopped, or the refusal of a workload that must not have that done for it.
func (j *judge) gated(w *workload, v verdict, why core.Reason) verdict {
	gate := w.equivalence.gate
	if gate == "" {
		return v
	}
	j.met.lacksNodes = j.met.lacksNodes || why.LacksNodes()
	why.Code, why.Cause, why.Detail = core.AdmissionGated, core.PreemptionGated, gate
	why.Victims = int32(len(v.victims) + len(v.moves)) //nolint:gosec // few
	return verdict{why: j.refusal(w, why)}
}

// fitsTogether reports whether nodes are worth a try although those of one
// flavor, looked at alone, do not do: a pod set with several flavors goes where
// all of them are, or, if nodes of one are made on demand, wherever the scheduler likes.
func (j *judge) fitsTogether(g *group, p *compiled, a *quota.Assignment) bool {
	if !slices.ContainsFunc(p.asks, func(asks []int) bool { return len(asks) > 1 }) {
		return false
	}
	return j.hasQuota(g, a.Uses)
}

// hasQuota reports whether quota is free now.
func (j *judge) hasQuota(g *group, uses []quota.Use) bool {
	return !slices.ContainsFunc(uses, func(u quota.Use) bool {
		return u.Amount > min(g.queue.node.Room(core.Current, u.Pair), g.queue.node.Room(core.Projected, u.Pair))
	})
}

// victims searches workloads that use what is short of quota. Where nodes are
// short too, or alone, what uses any of the same quota may hold them.
func (j *judge) victims(r *preempt.Request) []preempt.Victim {
	if len(r.Short) > 0 {
		if v := j.find(r); v != nil || len(r.Sets) == 0 {
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
	return j.find(r)
}

// find searches victims, and notes which workloads were passed over.
func (j *judge) find(r *preempt.Request) []preempt.Victim {
	victims, skipped := j.search.Find(*r)
	j.met.skipped = j.met.skipped.And(skipped)
	return victims
}

// reservable tests whether a workload fits once its victims, and all others that
// leave already, are gone. Where quota would do and nodes would not, it says so
// in why.
func (j *judge) reservable(
	w *workload,
	sets []place.Set,
	victims []preempt.Victim,
	why *core.Reason,
) (verdict, bool) {
	a := &j.assigned
	t := j.books.Begin(w.group.queue.node, ledger.Scope{Account: core.Projected})
	defer t.End()
	for _, v := range victims {
		t.Without(&v.Allocation)
	}
	for _, u := range a.Uses {
		if u.Amount > w.group.queue.node.Room(core.Projected, u.Pair) {
			return verdict{}, false
		}
	}
	if kept, ahead := j.blockedByReservation(w.group, a.Uses); ahead != nil {
		*why = kept
		return verdict{ahead: ahead}, false
	}
	spots, short, ok := j.nodes.Place(place.Request{View: place.After, Sets: sets})
	if !ok {
		if why.Code == core.WaitingForQuota {
			*why = j.nodesWhy(w.group, sets, short, a.Chosen)
		}
		return verdict{}, false
	}
	waits := *why
	waits.Code = core.WaitingForPreempted
	return verdict{kind: reserve, assigned: a, sets: sets, spots: spots, victims: victims, why: &waits}, true
}

// request describes a workload to the search for victims.
func (j *judge) request(
	w *workload,
	uses []quota.Use,
	scarce []quota.FlavorResource,
	sets []place.Set,
) preempt.Request {
	return preempt.Request{
		Queue: w.group.queue.node, Policy: w.group.queue.spec.Preemption,
		Priority: w.Priority, Time: w.Time,
		Uses: uses, Short: scarce, Sets: sets, Spare: w.spare, Now: j.now.Unix(),
	}
}

// podSets adds to a list the pods that need nodes with the chosen flavors.
func (j *judge) podSets(list []place.Set, g *group, p *compiled, chosen []int) []place.Set {
	for i := range g.equivalence.podSets {
		if c := j.classFor(g, p, i, chosen); c != nil {
			list = append(list, place.Set{
				Index: i, Class: c, Count: p.counts[i],
				Group: g.equivalence.podSets[i].Group, Parents: g.equivalence.podSets[i].Parents,
			})
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
func (j *judge) placeable(p *compiled, sets []place.Set, chosen []int) (place.Shortage, bool) {
	i := slices.IndexFunc(p.emptied, func(x emptied) bool { return slices.Equal(x.chosen, chosen) })
	if i < 0 {
		short, ok := j.onEmptyNodes(p, sets)
		i, p.emptied = len(p.emptied), append(p.emptied, emptied{slices.Clone(chosen), short, ok})
	}
	return p.emptied[i].short, p.emptied[i].ok
}

func (j *judge) onEmptyNodes(p *compiled, sets []place.Set) (place.Shortage, bool) {
	for i, set := range sets {
		if len(p.asks[set.Index]) == 1 {
			continue // flavor assignment has seen to it
		}
		if short, ok := j.nodes.Possible(set); !ok {
			short.Set = i
			return short, false
		}
	}
	return j.nodes.Together(sets)
}

// gravest is why a workload is refused: that nodes could never hold its pods, where
// that is so and it would be told to wait. Where flavors are left to choose, it is
// left open.
func (j *judge) gravest(g *group, p *compiled, why core.Reason) core.Reason {
	if quota.Permanent(why) || (len(p.Requests) < 2 && len(p.asks) < 2) {
		return why
	}
	chosen := make([]int, len(p.Requests))
	for i := range p.Requests {
		switch {
		case i < len(j.assigned.Chosen) && j.assigned.Chosen[i] >= 0:
			chosen[i] = j.assigned.Chosen[i]
		case len(p.Requests[i].Options) > 1:
			return why
		}
	}
	sets := j.podSets(nil, g, p, chosen)
	if short, ok := j.placeable(p, sets, chosen); !ok {
		return j.nodesWhy(g, sets, short, chosen)
	}
	return why
}

// classFor is the kind of pod that a pod set becomes with the chosen flavors,
// nil if none are looked for: it has no pods, or one of its flavors has none.
func (j *judge) classFor(g *group, p *compiled, set int, chosen []int) *place.Class {
	asks := p.asks[set]
	switch {
	case p.counts[set] == 0:
		return nil
	case len(asks) == 0:
		if !j.nodes.Any(nil) {
			return nil
		}
		return j.class(g.equivalence, set, nil)
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
	return j.class(g.equivalence, set, slices.Compact(flavors))
}

func (j *judge) nodesWhy(g *group, sets []place.Set, short place.Shortage, chosen []int) core.Reason {
	set := sets[short.Set].Index
	why := nodeReason(g, set, short)
	why.Flavor = j.nodeFlavor(j.oracle.plan, set, chosen)
	j.blameFlavor(&why)
	j.countKept(&why)
	return why
}

// nodeFlavor is the flavor that says which nodes a pod set may use: the only one
// assigned to it, or of several the only one with node labels; else "".
func (j *judge) nodeFlavor(p *compiled, set int, chosen []int) string {
	name, labeled := "", 0
	for _, k := range p.asks[set] {
		f := p.Requests[k].Options[chosen[k]].Flavor
		if len(p.asks[set]) == 1 {
			return f
		}
		if len(j.flavors[f].spec.NodeLabels) > 0 && f != name {
			name, labeled = f, labeled+1
		}
	}
	if labeled > 1 {
		return ""
	}
	return name
}

// refusal completes a reason with the queue it concerns.
func (j *judge) refusal(w *workload, why core.Reason) *core.Reason {
	if why.Queue == "" {
		why.Queue, why.Tree = w.group.queue.name, w.group.queue.node.CohortName()
	}
	return &why
}
