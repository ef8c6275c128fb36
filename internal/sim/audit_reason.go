package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// maxCures bounds how many reasons in a row a workload may give before it starts.
const maxCures = 60

// trialWorld is a copy of the world with one waiting workload in it, to see whether
// doing what its reason asks for makes it start (P9).
type trialWorld struct {
	Auditor
	now     time.Time
	waiting core.Key
	last    core.Reason
	// promised may have the places that they were given, and wait for the pods of others:
	// nobody else gets those, and they are not in the copy.
	promised map[core.Key]bool
}

// reasonIsTrue takes one waiting workload and does what its reason suggests, and
// what the next reason suggests, until it starts. It is only asked while no
// workload has a reservation or leaves.
func (a *Auditor) reasonIsTrue(e *cycle.Engine, now time.Time, pick int) error {
	var waiting []core.Key
	for _, k := range sortedKeys(a.workloads) {
		w := a.workloads[k]
		if w.leaving || w.code == core.WaitingForPreempted {
			return nil
		}
		if w.held == nil {
			waiting = append(waiting, k)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	key := waiting[pick%len(waiting)]
	if err := a.avoidanceKeepsNone(key, now); err != nil {
		return err
	}
	why := explained(e, key)
	b := a.copyFor(key, now)
	if why.Cause == core.BehindStrict || why.Cause == core.QuotaClaimed {
		if w := a.workloads[why.Ahead]; w == nil || w.held != nil {
			return fmt.Errorf("P9: %s waits behind %s, which does not wait", key, why.Ahead)
		}
		var started bool
		if why, started = b.try(); started { // alone it does
			return nil
		}
	}
	for n := range maxCures {
		said := why
		helped := b.cure(why)
		if !helped && why.Cause.Passes() {
			return fmt.Errorf(
				"P9: %s waits for nodes (%+v), and none is out of service and no workload holds them",
				key,
				why,
			)
		}
		if !helped {
			return nil // nothing in the world would help, or nothing that can be tried here
		}
		var started bool
		if why, started = b.try(); started {
			return nil
		}
		if n > 0 && why.Equal(said) && b.last.Equal(said) {
			return fmt.Errorf("P9: %s waits because of %+v; that was seen to, and it gives the same reason", key, said)
		}
		b.last = said
	}
	return fmt.Errorf(
		"P9: %s does not start although %d reasons were seen to; the last is %+v",
		key,
		maxCures,
		why,
	)
}

// explained is why a workload waits, with the workloads that hold what it waits for.
func explained(e *cycle.Engine, key core.Key) core.Reason {
	x, _ := e.View().Facts(key)
	return x.Reason
}

// copyFor copies the world with all workloads that hold quota and one that waits.
func (a *Auditor) copyFor(key core.Key, now time.Time) *trialWorld {
	b := &trialWorld{now: now, waiting: key, promised: map[core.Key]bool{}}
	b.restarted()
	b.options = a.options
	maps.Copy(b.flavors, a.flavors)
	maps.Copy(b.cohorts, a.cohorts)
	maps.Copy(b.queues, a.queues)
	maps.Copy(b.localQueues, a.localQueues)
	maps.Copy(b.namespaces, a.namespaces)
	maps.Copy(b.nodes, a.nodes)
	for k, w := range a.workloads {
		if w.held == nil && k != key {
			b.promised[k] = w.code == core.WaitingForPodsReady
			continue
		}
		o := w.told
		o.Admission = w.held
		b.workloads[k] = &audited{told: o, held: w.held}
	}
	return b
}

// try shows the copy to a fresh engine and reports whether the patient starts, or
// is promised a place; else why not.
func (b *trialWorld) try() (core.Reason, bool) {
	e := cycle.New(b.options)
	for _, k := range sortedNames(b.flavors) {
		e.Apply(core.FlavorSet{Flavor: b.flavors[k]})
	}
	for _, k := range sortedNames(b.cohorts) {
		e.Apply(core.CohortSet{Cohort: b.cohorts[k]})
	}
	for _, k := range sortedNames(b.queues) {
		e.Apply(core.QueueSet{Queue: b.queues[k]})
	}
	for _, k := range sortedNames(b.localQueues) {
		e.Apply(core.LocalQueueSet{LocalQueue: b.localQueues[k]})
	}
	for _, k := range sortedNames(b.namespaces) {
		e.Apply(core.NamespaceSet{Namespace: b.namespaces[k]})
	}
	for _, k := range sortedNames(b.nodes) {
		e.Apply(core.NodeSet{Node: b.nodes[k]})
	}
	for _, k := range sortedKeys(b.workloads) {
		e.Apply(core.WorkloadSet{Workload: b.workloads[k].told})
	}
	e.Decide(b.now)
	if _, ok := e.Holding(b.waiting); ok {
		return core.Reason{}, true
	}
	why := explained(e, b.waiting)
	return why, why.Code == core.WaitingForPreempted
}

// cure changes the copy as a reason suggests. It is false where the reason names
// nothing that can be changed here.
func (b *trialWorld) cure(why core.Reason) bool {
	w := b.workloads[b.waiting]
	if why.Cause == core.PreemptionGated {
		w.told.PreemptionGate = ""
		return true
	}
	switch why.Code {
	case core.WaitingForQuota:
		if why.Cause == core.BehindStrict || why.Cause == core.QuotaClaimed {
			return b.leaves(why.Ahead)
		}
		return b.grant(why, why.Need.Sub(why.Have))
	case core.ExceedsMaxQuota:
		return b.grant(why, why.Need.Sub(why.Limit))
	case core.TopologyPlacementFailed:
		return b.roomFor(why)
	case core.NoMatchingFlavor:
		return b.suit(why)
	case core.Suspended:
		return b.open(why)
	case core.OnHold:
		w.told.Held, w.told.NotBefore = "", time.Time{}
		return true
	case core.Misconfigured:
		return b.uncover(why)
	case core.PendingEvaluation:
		return true
	case core.AdmissionGated:
		w.told.GatedBy = ""
		return true
	case core.WaitingForPodsReady:
		for _, other := range b.workloads { // each alike, so order does not matter
			other.told.Admitted, other.told.Ready = true, true
		}
		return true
	case core.WaitingForPreempted:
	}
	return false
}

// grant gives the queue as much more of its own as was said to be missing.
func (b *trialWorld) grant(why core.Reason, missing core.Amount) bool {
	q, ok := b.queues[why.Queue]
	if !ok || missing <= 0 {
		return false
	}
	q.Groups = cloneGroups(q.Groups)
	for _, g := range q.Groups {
		for _, f := range g.Flavors {
			for i := range f.Quotas {
				if f.Flavor == why.Flavor && f.Quotas[i].Resource == why.Resource {
					f.Quotas[i].Nominal = f.Quotas[i].Nominal.Add(missing)
					b.queues[why.Queue] = q
					return true
				}
			}
		}
	}
	return false
}

// uncover gives a queue what it has been promised, and has the workload not ask for what its
// queue does not offer.
func (b *trialWorld) uncover(why core.Reason) bool {
	w := b.workloads[b.waiting]
	if why.Cause == core.CohortCycle {
		for name, c := range b.cohorts { // each alike, so order does not matter
			if b.circular(member{name: name}) {
				c.Parent = ""
				b.cohorts[name] = c
			}
		}
		return true
	}
	switch why.Cause {
	case core.NamespaceMismatch:
		q, ok := b.queues[why.Queue]
		q.Namespaces = new(core.Selector)
		b.queues[why.Queue] = q
		return ok
	case core.ResourceUncovered:
	default: // of a flavor that is gone nobody knows what it was
		return false
	}
	sets := append([]core.PodSet(nil), w.told.PodSets...)
	helped := false
	for i := range sets {
		if sets[i].Name == why.PodSet {
			helped = sets[i].Requests.Of(why.Resource) > 0
			sets[i].Requests = sets[i].Requests.With(why.Resource, 0)
		}
	}
	w.told.PodSets = sets
	return helped
}

func cloneGroups(groups []core.ResourceGroup) []core.ResourceGroup {
	out := append([]core.ResourceGroup(nil), groups...)
	for i := range out {
		out[i].Flavors = append([]core.FlavorQuotas(nil), out[i].Flavors...)
		for k := range out[i].Flavors {
			out[i].Flavors[k].Quotas = append([]core.Quota(nil), out[i].Flavors[k].Quotas...)
		}
	}
	return out
}

func (b *trialWorld) leaves(k core.Key) bool {
	_, ok := b.workloads[k]
	delete(b.workloads, k)
	return ok
}

// roomFor makes room on nodes: those that are out of service come back and those
// that hold the places go; where no node could do, new ones are made that can.
func (b *trialWorld) roomFor(why core.Reason) bool {
	if why.Cause.Passes() {
		helped := false
		for _, name := range sortedNames(b.nodes) {
			if n := b.nodes[name]; !n.State.TakesWork() || len(n.Foreign) > 0 {
				n.State, n.Foreign = core.NodeReady, nil
				b.nodes[name] = n
				helped = true
			}
		}
		for _, k := range why.Holders {
			helped = b.leaves(k) || b.promised[k] || helped
			delete(b.promised, k)
		}
		return helped
	}
	if b.unlimit(why.Detail) {
		return true
	}
	set := b.workloads[b.waiting].told.PodSets
	for i := range set {
		switch {
		case why.Cause == core.PodSetsTooLarge: // which of them may need others, of other flavors, in the same domain
			for _, name := range sortedNames(b.flavors) {
				b.addNode(&set[i], set, b.flavors[name])
			}
		case set[i].Name == why.PodSet:
			b.addNode(&set[i], set, b.flavors[why.Flavor])
		}
	}
	return slices.ContainsFunc(set, func(p core.PodSet) bool { return p.Name == why.PodSet })
}

// addNode adds a node of a flavor that a pod set may use, with room for all of a job: other sets may be put there first,
// for want of room elsewhere.
func (b *trialWorld) addNode(p *core.PodSet, all []core.PodSet, f core.Flavor) {
	labels := labelsFor(&p.Filter)
	maps.Copy(labels, f.NodeLabels)
	for _, level := range slices.Concat(f.Topology.Levels, p.Topology.Levels()) {
		labels[level] = "new"
	}
	for _, l := range p.Limits {
		if l.Level != "" {
			labels[l.Level] = "new"
		}
	}
	n := core.Node{Name: fmt.Sprintf("new-%d", len(b.nodes)), Labels: labels, State: core.NodeReady}
	for k := range all {
		n.Allocatable = n.Allocatable.Plus(
			all[k].Requests.Times(int64(all[k].Count)).With(core.Pods, core.Amount(all[k].Count)),
		)
	}
	b.nodes[n.Name] = n
}

// unlimit takes off pod sets the limit of domains that is said to be in the way: of what nodes it needs, nobody knows.
func (b *trialWorld) unlimit(name string) bool {
	w, helped := b.workloads[b.waiting], false
	w.told.PodSets = slices.Clone(w.told.PodSets)
	for i := range w.told.PodSets {
		p := &w.told.PodSets[i]
		p.Limits = slices.DeleteFunc(slices.Clone(p.Limits), func(l core.Limit) bool {
			is := l.Level != "" && l.Name == name
			helped = helped || is
			return is
		})
	}
	return helped
}

// labelsFor are the labels that a filter asks of a node.
func labelsFor(f *core.Filter) map[string]string {
	asked := slices.Concat(f.Terms[:min(1, len(f.Terms))], []core.Selector{f.Must})
	for _, v := range f.Volumes {
		asked = append(asked, v.Terms[0])
	}
	labels := map[string]string{}
	for _, requirements := range asked {
		for _, r := range requirements {
			if r.Operator == core.In {
				labels[r.Key] = r.Values[0]
			}
		}
	}
	return labels
}

// suit takes off a flavor what the workload does not tolerate, or off the workload what it asks
// for and the flavor is not.
func (b *trialWorld) suit(why core.Reason) bool {
	f, ok := b.flavors[why.Flavor]
	if ok && why.Cause == core.AffinityMismatch {
		return b.chooseLess(why.PodSet, f.NodeLabels)
	}
	if ok && (why.Cause == core.LevelMissing || why.Cause == core.LevelsReversed) {
		f.Topology = core.Topology{}
		b.flavors[why.Flavor] = f
		return true
	}
	if !ok || why.Cause != core.UntoleratedTaint {
		return false
	}
	kept := f.Taints[:0:0]
	for _, t := range f.Taints {
		if t.String() != why.Detail {
			kept = append(kept, t)
		}
	}
	helped := len(kept) < len(f.Taints)
	f.Taints = kept
	b.flavors[why.Flavor] = f
	return helped
}

// chooseLess takes off a pod set what contradicts labels.
func (b *trialWorld) chooseLess(set string, labels map[string]string) bool {
	contradicts := func(r core.Requirement) bool {
		_, spoken := labels[r.Key]
		return spoken && !r.Matches(labels)
	}
	w := b.workloads[b.waiting]
	w.told.PodSets = slices.Clone(w.told.PodSets)
	helped := false
	for i := range w.told.PodSets {
		p := &w.told.PodSets[i]
		if p.Name != set {
			continue
		}
		all := len(p.Filter.Must)
		p.Filter.Must = slices.DeleteFunc(slices.Clone(p.Filter.Must), contradicts)
		helped = len(p.Filter.Must) < all
		possible := func(t core.Selector) bool { return !slices.ContainsFunc(t, contradicts) }
		if len(p.Filter.Terms) > 0 && !slices.ContainsFunc(p.Filter.Terms, possible) {
			p.Filter.Terms, helped = nil, true
		}
		volumes := len(p.Filter.Volumes)
		p.Filter.Volumes = slices.DeleteFunc(
			slices.Clone(p.Filter.Volumes),
			func(v core.Volume) bool { return !slices.ContainsFunc(v.Terms, possible) },
		)
		helped = helped || len(p.Filter.Volumes) < volumes
	}
	return helped
}

// open lets a stopped queue or local queue go on.
func (b *trialWorld) open(why core.Reason) bool {
	if why.Cause == core.QueueUnready {
		q, ok := b.queues[why.Queue]
		q.Inactive = ""
		b.queues[why.Queue] = q
		return ok
	}
	if q, ok := b.queues[why.Queue]; ok && why.Detail == "ClusterQueue" {
		q.Stop = core.StopNone
		b.queues[why.Queue] = q
		return true
	}
	k := b.waiting.Namespace + "/" + why.Queue
	d, ok := b.localQueues[k]
	d.Stop = core.StopNone
	b.localQueues[k] = d
	return ok
}
