package cycle

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/place"
	"github.com/mlbatch/mlbatch/internal/engine/preempt"
	"github.com/mlbatch/mlbatch/internal/engine/quota"
)

// placeless reports whether a pod set may end up with a flavor that no nodes are looked
// for with, and so go wherever the scheduler likes, whatever its other flavors are.
func (p *compiled) placeless(set int) bool {
	return slices.ContainsFunc(p.asks[set], func(ask int) bool { return slices.Contains(p.classes[ask], nil) })
}

func (j *judge) current(p *compiled) bool {
	return p.revision == j.revision && p.nodes == j.nodes.Version()
}

// compile returns the group's plan, made anew if queues, flavors or the set of
// nodes changed: for a decision in the group's record, for a question beside it.
func (j *judge) compile(g *group) *compiled {
	if g.plan != nil && j.current(g.plan) {
		return g.plan
	}
	if j.asked == nil {
		g.plan = j.compileAnew(g)
		return g.plan
	}
	p := j.asked[g]
	if p == nil || !j.current(p) {
		p = j.compileAnew(g)
		j.asked[g] = p
	}
	return p
}

func (j *judge) compileAnew(g *group) *compiled {
	p := j.compileFor(g, g.equivalence.countsWithout(0))
	if g.queue.reservesForHead() && p.refusal == nil {
		p.headReservation, p.over = j.headReservationOf(p, g)
	}
	return p
}

// ask begins a question; answered ends it, and the plans that were made for it are forgotten.
func (j *judge) ask() { j.asked = map[*group]*compiled{} }

func (j *judge) answered() { j.asked = nil }

// compileFor makes a plan for so many pods per pod set.
func (j *judge) compileFor(g *group, counts []int32) *compiled {
	spec := g.queue.spec
	p := &compiled{revision: j.revision, nodes: j.nodes.Version(), counts: counts}
	p.Queue, p.Fungibility = g.queue.node, spec.Fungibility
	p.Reclaims = preempt.Allows(spec.Preemption.WhileBorrow) ||
		(j.opt.FairSharing != nil && preempt.Allows(spec.Preemption.Reclaim))
	p.asks = make([][]int, len(g.equivalence.podSets))
	for set := range g.equivalence.podSets {
		j.compileSet(p, g, set)
	}
	p.joint = jointAsks(g.equivalence, p)
	pairs := map[quota.FlavorResource]int{}
	p.single = true
	for i, a := range p.Requests {
		p.single = p.single && len(a.Options) == 1
		for _, o := range a.Options {
			for _, u := range o.Uses {
				first, known := pairs[u.Pair]
				if known && first != i {
					p.shared = true
				}
				if !known {
					p.pairs = append(p.pairs, u.Pair)
				}
				pairs[u.Pair] = i
			}
		}
	}
	if p.single {
		for _, a := range p.Requests {
			for _, u := range a.Options[0].Uses {
				p.fixed = addUse(p.fixed, u)
			}
		}
	}
	p.sure = p.single && p.refusal == nil && len(p.asks) == 1 && j.plain(p)
	return p
}

// plain reports whether flavors suit the pods and make one kind of pod of them at most.
func (j *judge) plain(p *compiled) bool {
	placed := 0
	for i, a := range p.Requests {
		if a.Options[0].Bad != "" {
			return false
		}
		if p.classes[i][0] != nil {
			placed++
		}
	}
	return placed == 0 || len(p.Requests) == 1
}

// compileSet turns one pod set into asks, one per resource group it touches.
func (j *judge) compileSet(p *compiled, g *group, set int) {
	spec := g.queue.spec
	podSet := &g.equivalence.podSets[set]
	requests := podSet.Counted().Times(int64(p.counts[set]))
	if groupOf(spec, core.Pods) >= 0 {
		requests = requests.With(core.Pods, core.Amount(p.counts[set]))
	}
	done := make([]bool, len(spec.Groups))
	for _, r := range requests {
		i := groupOf(spec, r.Resource)
		if i < 0 {
			if r.Amount > 0 && p.refusal == nil && !j.opt.IgnoreUndeclared {
				p.refusal = &core.Reason{
					Code:     core.Misconfigured,
					Cause:    core.ResourceUncovered,
					Queue:    g.queue.name,
					PodSet:   podSet.Name,
					Resource: r.Resource,
				}
			}
			continue
		}
		if done[i] {
			continue
		}
		done[i] = true
		ask := quota.Request{Set: set, PodSet: podSet.Name}
		var classes []*place.Class
		for _, f := range spec.Groups[i].Flavors {
			ask.Options = append(ask.Options, j.option(podSet, &spec.Groups[i], f.Flavor, requests))
			var c *place.Class
			if p.counts[set] > 0 && j.looksForNodes(spec, f.Flavor) {
				c = j.class(g.equivalence, set, []string{f.Flavor})
			}
			classes = append(classes, c)
		}
		p.asks[set] = append(p.asks[set], len(p.Requests))
		p.Requests = append(p.Requests, ask)
		p.classes = append(p.classes, classes)
	}
}

func groupOf(q *core.Queue, resource string) int {
	return slices.IndexFunc(
		q.Groups,
		func(g core.ResourceGroup) bool { return slices.Contains(g.Covered, resource) },
	)
}

// option is one flavor as an alternative for a pod set.
func (j *judge) option(
	p *core.PodSet,
	g *core.ResourceGroup,
	name string,
	requests core.Resources,
) quota.Option {
	o := quota.Option{Flavor: name}
	for _, r := range requests {
		if slices.Contains(g.Covered, r.Resource) {
			o.Uses = append(
				o.Uses,
				quota.Use{Pair: j.forest.FlavorResource(name, r.Resource), Amount: max(0, r.Amount)},
			)
		}
	}
	f := j.flavors[name]
	if f == nil {
		o.Bad, o.Detail = core.FlavorMissing, name
		return o
	}
	tolerations := append(slices.Clone(p.Filter.Tolerations), f.spec.Tolerations...)
	if taint, bad := core.Untolerated(f.spec.Taints, tolerations); bad {
		o.Bad, o.Detail = core.UntoleratedTaint, taint.String()
		return o
	}
	is, t := p.Topology.In(f.spec.Topology)
	if level := t.Missing(is); level != "" {
		o.Bad, o.Detail = core.LevelMissing, level
		return o
	}
	if outer, inner := t.Reversed(is); outer != "" {
		o.Bad, o.Detail = core.LevelsReversed, outer+" around one "+inner
		return o
	}
	if !matchesFlavor(p.Filter, f.spec.NodeLabels) {
		o.Bad = core.AffinityMismatch
	}
	return o
}

// matchesFlavor evaluates a pod's node selector, affinity and volumes over the labels of
// a flavor, ignoring labels that the flavor does not speak of.
func matchesFlavor(f core.Filter, labels map[string]string) bool {
	if !over(f.Must, labels).Matches(labels) {
		return false
	}
	possible := func(s core.Selector) bool { return over(s, labels).Matches(labels) }
	if len(f.Terms) > 0 && !slices.ContainsFunc(f.Terms, possible) {
		return false
	}
	return !slices.ContainsFunc(
		f.Volumes,
		func(v core.Volume) bool { return !slices.ContainsFunc(v.Terms, possible) },
	)
}

// over keeps the requirements on the given labels.
func over(s core.Selector, labels map[string]string) core.Selector {
	var out core.Selector
	for _, r := range s {
		if _, ok := labels[r.Key]; ok {
			out = append(out, r)
		}
	}
	return out
}

// oracle answers flavor assignment's questions for the workload being judged.
type oracle struct {
	judge     *judge
	workload  *workload
	group     *group
	plan      *compiled
	quotaOnly bool // to nodes
}

// about has the oracle answer for a workload with a plan.
func (s *oracle) about(w *workload, p *compiled) { s.workload, s.group, s.plan = w, w.group, p }

// Victims implements quota.Oracle.
func (s *oracle) Victims(p quota.FlavorResource, need core.Amount) (quota.Mode, int) {
	j := s.judge
	if j.opt.FairSharing != nil && s.plan.single {
		return quota.Preempt, 0 // there is no other flavor to prefer, and the level is not asked for
	}
	mode, level, skipped := j.search.Grade(
		j.request(s.workload, []quota.Use{{Pair: p, Amount: need}}, []quota.FlavorResource{p}, nil),
	)
	j.met.skipped = j.met.skipped.And(skipped)
	return mode, level
}

// Nodes implements quota.Oracle.
func (s *oracle) Nodes(ask, option int) (quota.Mode, core.Reason) {
	if s.quotaOnly {
		return quota.Fit, core.Reason{}
	}
	mode, short := s.nodes(s.group, s.plan, ask, option)
	switch mode {
	case quota.Fit:
		return mode, core.Reason{}
	case quota.NoFit:
		s.judge.met.lacksNodes = true // other nodes could do
	default:
	}
	a := &s.plan.Requests[ask]
	why := nodeReason(s.group, a.Set, short)
	why.Flavor = a.Options[option].Flavor
	s.judge.blameFlavor(&why)
	s.judge.countKept(&why)
	return mode, why
}

// nodes says whether the nodes of one flavor hold a pod set, taken alone.
func (s *oracle) nodes(g *group, p *compiled, ask, option int) (quota.Mode, place.Shortage) {
	j := s.judge
	c := p.classes[ask][option]
	if c == nil {
		return quota.Fit, place.Shortage{}
	}
	set := place.Set{Class: c, Count: p.counts[p.Requests[ask].Set]}
	if j.nodes.Can(set, place.Free) {
		return quota.Fit, place.Shortage{}
	}
	short := j.nodes.Shortage(set, place.Free)
	switch {
	case !short.Cause.Passes():
		return quota.NoFit, short
	case j.nodes.Can(set, place.After):
		return quota.Await, short
	case preempt.Forbids(g.queue.spec.Preemption):
		return quota.NoCandidates, short
	}
	return quota.Preempt, short
}

// blameFlavor names the flavor's labels as what is in the way where no node has them.
func (j *judge) blameFlavor(why *core.Reason) {
	f := j.flavors[why.Flavor]
	if why.Cause != core.NoSuchNode || f == nil || j.nodes.Any(f.spec.NodeLabels) {
		return
	}
	why.Cause = core.FlavorEmpty
	var labels []string
	for _, k := range slices.Sorted(maps.Keys(f.spec.NodeLabels)) {
		labels = append(labels, k+"="+f.spec.NodeLabels[k])
	}
	why.Detail = strings.Join(labels, ", ")
}

// countKept says how many of the flavor's nodes are kept for recovery.
func (j *judge) countKept(why *core.Reason) {
	if !j.keepsSpares() {
		return
	}
	labels := map[string]string{core.SpareLabel: "true"}
	if f := j.flavors[why.Flavor]; f != nil {
		maps.Copy(labels, f.spec.NodeLabels)
	}
	why.NodesKept = int32(j.nodes.Count(labels)) //nolint:gosec // nodes fit in 31 bits
}

// volumesText says where the volumes of pods are; "" if every node reaches them.
func volumesText(all []core.Volume) string {
	parts := make([]string, len(all))
	for i, v := range all {
		parts[i] = v.String()
	}
	return strings.Join(parts, " and ")
}

// nodeReason is a shortage as a reason.
func nodeReason(g *group, set int, short place.Shortage) core.Reason {
	return core.Reason{
		Code:         core.TopologyPlacementFailed,
		Cause:        short.Cause,
		Queue:        g.queue.name,
		Tree:         g.queue.node.CohortName(),
		PodSet:       g.equivalence.podSets[set].Name,
		PodsFit:      short.Fit,
		PodsWanted:   short.Wanted,
		Nodes:        short.Nodes,
		NodesDown:    short.Down,
		Resource:     short.Resource,
		Need:         short.Need,
		Limit:        short.Largest,
		NodesRefused: short.Refused,
		Level:        short.Level,
		Domain:       short.Domain,
		PodsUsable:   short.Usable,
		PodsFree:     short.Free,
		AroundLevel:  short.AroundLevel,
		Around:       short.Around,
		Detail:       cmp.Or(short.Answer, short.Limit, volumesText(g.equivalence.podSets[set].Filter.Volumes)),
	}
}
