// Package cache turns watches into engine events. The Inbox collects changes
// from the informers; the World translates them, one batch at a time, into the
// events of package core. It derives what no single object says: how much of a
// node pods use that the engine did not place, and where the pods of a workload
// have settled. It decides nothing.
package cache

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// World is the picture from which events are made. It is not safe for
// concurrent use: the decision loop owns it.
type World struct {
	rules convert.Rules
	// limits are the LimitRanges by namespace and name, classes what each
	// RuntimeClass adds to a pod.
	limits  map[string]map[string]*corev1.LimitRange
	classes map[string]convert.RuntimeClass
	// volumes are the volumes that not every node reaches, by namespace and claim, and claims says of
	// which claim the PersistentVolume of a name is.
	volumes map[string]map[string][]core.Selector
	claims  map[string]core.Key
	// priorities are the values of the WorkloadPriorityClasses.
	priorities map[string]int32
	// runtimes are the minimum runtimes of those that have one.
	runtimes map[string]time.Duration

	pods      podTable
	nodes     map[string]core.Node // without Foreign
	health    healths
	workloads map[core.Key]known
	// plans are the newest admissions, decided or observed. Pods on planned
	// places are not foreign to a node.
	plans map[core.Key]*core.Admission
	// rejected are the workloads whose admission can never be written, see reject.
	rejected map[core.Key]rejection
	// queues are the ClusterQueues as last seen; what a change of a check means
	// for them is told anew.
	queues map[string]*kueue.ClusterQueue
	// checks are the AdmissionChecks that exist, topologies the Topologies, and
	// flavors what ResourceFlavors say, if anything.
	checks     map[string]admissionCheck
	topologies map[string]core.Topology
	flavors    map[string]resourceFlavor
	refusals   refusals
	// cohorts are the Cohorts as they say themselves. left is what is left of flavors of which quotas are cut, cuts
	// how much of whose.
	cohorts map[string]core.Cohort
	left    lefts
	cuts    map[owner]map[core.FlavorResource]core.Amount
	spares  spares
}

type known struct {
	workload core.Workload
	// object is what workload was translated from, while it waits: the limits
	// around it may change and make it ask for something else. What was admitted
	// keeps what it was admitted with.
	object   *kueue.Workload
	priority convert.Priority
	// done is how many pods of each pod set, of those admitted, are done for good.
	done map[string]int32
	// once is true if no pod follows one that succeeded.
	once bool
	// leaving is true when the object finished or is gone and only its pods
	// keep it in the picture.
	leaving bool
}

// NewWorld returns an empty world in an installation with these rules.
func NewWorld(rules convert.Rules) *World {
	return &World{
		rules:      rules,
		limits:     map[string]map[string]*corev1.LimitRange{},
		classes:    map[string]convert.RuntimeClass{},
		priorities: map[string]int32{},
		runtimes:   map[string]time.Duration{},
		volumes:    map[string]map[string][]core.Selector{},
		claims:     map[string]core.Key{},
		pods:       newPodTable(),
		nodes:      map[string]core.Node{},
		health:     newHealths(),
		workloads:  map[core.Key]known{},
		plans:      map[core.Key]*core.Admission{},
		rejected:   map[core.Key]rejection{},
		queues:     map[string]*kueue.ClusterQueue{},
		checks:     map[string]admissionCheck{},
		topologies: map[string]core.Topology{},
		flavors:    map[string]resourceFlavor{},
		refusals:   newRefusals(),
		cohorts:    map[string]core.Cohort{},
		left:       lefts{},
		spares:     newSpares(rules.Spares),
	}
}

// Translate returns the events that tell the engine of the changes.
func (w *World) Translate(changes []ObjectUpdate) []core.Event {
	b := batch{
		world:      w,
		nodes:      map[string]bool{},
		workloads:  map[core.Key]bool{},
		limits:     map[string]bool{},
		classes:    map[string]bool{},
		claims:     map[core.Key]bool{},
		priorities: map[string]bool{},
		queues:     map[string]bool{},
		cohorts:    map[string]bool{},
		ended:      map[core.Key]*kueue.Workload{},
	}
	for _, c := range changes {
		b.take(c)
	}
	return b.finish()
}

// Decided remembers the places of a plan, so that pods that arrive there before
// the written plan is seen are not counted twice.
func (w *World) Decided(plan core.Plan) {
	for _, d := range plan {
		switch d := d.(type) {
		case core.Admit:
			w.plan(d.Key, &d.Admission)
		case core.Replace:
			w.plan(d.Key, &d.Admission)
		case core.Evict, core.Refuse:
		}
	}
}

// Undone forgets the places of a plan that could not be carried out.
func (w *World) Undone(k core.Key) {
	w.plan(k, w.workloads[k].workload.Admission)
}

// observed completes a workload with what its pods say.
func (w *World) observed(k core.Key, o known) core.Event {
	o.workload.Settled = w.pods.settled(k, w.answers)
	o.workload.Ended = w.pods.ended(k, o.done, w.plans[k])
	// It has ended, and its own controller is about to say so: its
	// work is not thrown away any more.
	if o.once && o.workload.Admission != nil && w.pods.ending(k, &o.workload) {
		o.workload.Evicting = true
	}
	if r, is := w.rejected[k]; is {
		o.workload.Invalid = r.why
	}
	return core.WorkloadSet{Workload: o.workload}
}

// answers reports whether a node can say what becomes of its pods.
func (w *World) answers(node string) bool {
	n, known := w.nodes[node]
	return known && n.State != core.NodeLost
}

// LivePods counts the pods of a workload that hold quota.
func (w *World) LivePods(k core.Key) int { return w.pods.live(k) }

func (w *World) planned(node string) func(core.Key, string) int32 {
	return func(k core.Key, podSet string) int32 {
		a := w.plans[k]
		if a == nil {
			return 0
		}
		for _, ps := range a.PodSets {
			if ps.Name == podSet {
				return core.PodsOn(ps.Places, node)
			}
		}
		return 0
	}
}

// batch gathers what a set of changes touches.
type batch struct {
	world     *World
	events    []core.Event
	nodes     map[string]bool
	workloads map[core.Key]bool
	// limits are the namespaces whose LimitRanges changed, classes the
	// RuntimeClasses that did.
	limits, classes map[string]bool
	// claims are those whose volumes are reached by other nodes now.
	claims map[core.Key]bool
	// priorities are the WorkloadPriorityClasses that changed.
	priorities map[string]bool
	queues     map[string]bool
	cohorts    map[string]bool
	// recut says that other quotas are cut than before.
	recut bool
	// ended are Workloads that had ended when they were first seen.
	ended map[core.Key]*kueue.Workload
}

func (b *batch) take(c ObjectUpdate) {
	switch c.Kind {
	case AdmissionCheck:
		b.check(c)
	case Queue:
		b.queue(c)
	case Topology:
		b.topology(c)
	case Flavor:
		b.flavor(c)
	case Cohort:
		b.cohort(c)
	case LocalQueue, Namespace:
		b.events = append(b.events, plain(c))
	case LimitRange, RuntimeClass:
		b.surroundings(c)
	case Volume:
		b.volume(c)
	case PriorityClass:
		b.priorityClass(c)
	case NodeHealth:
		b.healths(c)
	case Node:
		b.node(c)
	case Pod:
		b.pod(c)
	case Workload:
		b.workload(c)
	case Rejection:
		b.reject(core.Key{Namespace: c.Namespace, Name: c.Name}, c.Why)
	}
}

// plain translates the kinds that map to one event each.
func plain(c ObjectUpdate) core.Event {
	switch o := c.Object.(type) {
	case *kueue.Cohort:
		return core.CohortSet{Cohort: convert.Cohort(o)}
	case *kueue.LocalQueue:
		return core.LocalQueueSet{LocalQueue: convert.LocalQueue(o)}
	case *corev1.Namespace:
		return core.NamespaceSet{Namespace: core.Namespace{Name: o.Name, Labels: o.Labels}}
	}
	return gone(c.Ref)
}

func gone(r Ref) core.Event {
	switch r.Kind {
	case Flavor:
		return core.FlavorGone{Name: r.Name}
	case Cohort:
		return core.CohortGone{Name: r.Name}
	case Queue:
		return core.QueueGone{Name: r.Name}
	case LocalQueue:
		return core.LocalQueueGone{Namespace: r.Namespace, Name: r.Name}
	case Namespace:
		return core.NamespaceGone{Name: r.Name}
	case Node:
		return core.NodeGone{Name: r.Name}
	case Topology,
		AdmissionCheck,
		LimitRange,
		RuntimeClass,
		Volume,
		PriorityClass,
		NodeHealth,
		Pod,
		Workload,
		Rejection:
	}
	panic("cache: no plain event for this kind")
}

func (b *batch) node(c ObjectUpdate) {
	answered := b.world.answers(c.Name)
	defer func() {
		if b.world.answers(c.Name) != answered {
			b.leaving(c.Name)
		}
	}()
	n, ok := c.Object.(*corev1.Node)
	if !ok {
		delete(b.world.nodes, c.Name)
		delete(b.world.health.signals, c.Name)
		b.nodes[c.Name] = true
		b.events = append(b.events, gone(c.Ref))
		return
	}
	b.world.nodes[c.Name] = b.world.health.node(n)
	b.nodes[c.Name] = true
}

// leaving has the workloads told anew that have deleted pods on a node.
func (b *batch) leaving(node string) {
	for r := range b.world.pods.byNode[node] {
		if p := b.world.pods.pods[r]; p.leaving && p.workload != (core.Key{}) {
			b.workloads[p.workload] = true
		}
	}
}

func (b *batch) pod(c ObjectUpdate) {
	p, _ := c.Object.(*corev1.Pod)
	was, is := b.world.pods.set(c.Ref, p)
	if was.node == is.node && was.workload == is.workload && was.settled == is.settled && was.live == is.live &&
		was.leaving == is.leaving {
		return
	}
	for _, r := range []podRecord{was, is} {
		if r.node != "" {
			b.nodes[r.node] = true
		}
		if r.workload != (core.Key{}) {
			b.workloads[r.workload] = true
		}
	}
}

func (b *batch) workload(c ObjectUpdate) {
	k := core.Key{Namespace: c.Namespace, Name: c.Name}
	b.workloads[k] = true
	o, ok := c.Object.(*kueue.Workload)
	if r, is := b.world.rejected[k]; is && (!ok || r.uid != o.UID || r.generation != o.Generation) {
		delete(b.world.rejected, k)
	}
	if ok && !convert.Finished(o) {
		w := b.world.translate(o)
		b.plan(k, w.Admission)
		b.world.spares.inherit(k, w.Next)
		entry := known{
			workload: w,
			priority: b.world.rules.PriorityOf(o),
			done:     b.world.rules.Done(o),
			once:     convert.EndsOnce(o),
		}
		if w.Admission == nil {
			entry.object = o
		}
		b.world.workloads[k] = entry
		return
	}
	old, seen := b.world.workloads[k]
	switch {
	case seen:
		old.leaving = true
		b.world.workloads[k] = old
	case ok && o.Status.Admission != nil:
		b.ended[k] = o
	}
}

// count takes in Workloads that had ended before they were first seen, of which pods run all the
// same: they hold their quota, whatever the conditions say.
func (b *batch) count() {
	for k, o := range b.ended {
		if b.world.pods.live(k) == 0 {
			continue
		}
		w := b.world.translate(o)
		b.plan(k, w.Admission)
		b.world.workloads[k] = known{
			workload: w,
			done:     b.world.rules.Done(o),
			once:     convert.EndsOnce(o),
			leaving:  true,
		}
	}
}

// plan records an observed admission. One that is not observed yet stays as
// decided: the object seen may be older than the decision.
func (b *batch) plan(k core.Key, a *core.Admission) {
	old := b.world.workloads[k].workload.Admission
	switch {
	case a != nil:
		b.world.plan(k, a)
	case old != nil:
		b.world.plan(k, nil) // released
	default:
		return
	}
	b.touch(old)
	b.touch(a)
}

func (b *batch) touch(a *core.Admission) {
	if a == nil {
		return
	}
	for _, ps := range a.PodSets {
		for _, p := range ps.Places {
			b.nodes[p.Node] = true
		}
	}
}

// finish adds the events of the touched nodes and workloads.
func (b *batch) finish() []core.Event {
	w := b.world
	b.count()
	b.retranslate()
	b.reprioritize()
	b.askAgain()
	keys := make([]core.Key, 0, len(b.workloads))
	for k := range b.workloads {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, core.Key.Compare)
	var released []core.Event
	for _, k := range keys {
		o, ok := w.workloads[k]
		switch {
		case !ok:
		case !o.leaving:
			released = append(released, w.observed(k, o))
		case w.pods.live(k) == 0 || o.workload.Admission == nil:
			b.touch(w.plans[k])
			w.plan(k, nil)
			w.spares.inherit(k, nil)
			delete(w.workloads, k)
			w.forgetRefusals(k)
			released = append(released, core.WorkloadGone{Key: k})
		default: // quota is released only when the pods are gone
			o.workload.Evicting = true
			released = append(released, w.observed(k, o))
		}
	}
	b.keep()
	names := make([]string, 0, len(b.nodes))
	for n := range b.nodes {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, name := range names {
		if n, ok := w.nodes[name]; ok {
			n.Foreign, n.ForeignLimits = w.pods.foreign(name, w.planned(name))
			b.events = append(b.events, core.NodeSet{Node: w.withSpare(n)})
		}
	}
	b.retell()
	return slices.Concat(b.events, b.changedCohorts(), b.changedQueues(), released)
}
