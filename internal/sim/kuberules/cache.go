package kuberules

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/cache"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
	"github.com/mlbatch/mlbatch/internal/sim"
)

// objectCache makes events of what is shown, as a process does: with package cache.
// Nodes and what pods ask for are the simulator's own values; what pods use of
// nodes, and where those of a job are, is found out there.
type objectCache struct {
	world *cache.World
	nodes map[string]core.Node
	jobs  map[core.Key]*sim.Job
	// spares says that nodes are kept for recovery, of these flavors.
	spares  bool
	flavors map[string]bool
}

// NewObjectCache is that of a process which starts now.
func (Rules) NewObjectCache(w *sim.World) sim.ObjectCache {
	p := &objectCache{
		world:  cache.NewWorld(rulesOf(w)),
		nodes:  map[string]core.Node{},
		jobs:   map[core.Key]*sim.Job{},
		spares: len(w.Spares) > 0, flavors: map[string]bool{},
	}
	if !p.spares {
		return p
	}
	for _, ev := range w.Objects {
		p.keepsOf(ev)
	}
	for i := range w.Script {
		p.keepsOf(w.Script[i].Object)
	}
	return p
}

// keepsOf tells of a flavor, as it is first, so that nodes of it are kept. Others do not matter.
func (p *objectCache) keepsOf(ev core.Event) {
	f, is := ev.(core.FlavorSet)
	if !is || p.flavors[f.Flavor.Name] {
		return
	}
	p.flavors[f.Flavor.Name] = true
	p.world.Translate([]cache.ObjectUpdate{{
		Ref: cache.Ref{Kind: cache.Flavor, Name: f.Flavor.Name}, Object: flavorOf(&f.Flavor),
	}})
}

// flavorOf is a flavor as the API has it, as far as it says of which nodes it is.
func flavorOf(f *core.Flavor) *kueue.ResourceFlavor {
	out := &kueue.ResourceFlavor{
		ObjectMeta: metav1.ObjectMeta{Name: f.Name}, Spec: kueue.ResourceFlavorSpec{NodeLabels: f.NodeLabels},
	}
	for _, t := range f.Taints {
		out.Spec.NodeTaints = append(out.Spec.NodeTaints, taintOf(t))
	}
	return out
}

func taintOf(t core.Taint) corev1.Taint {
	return corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)}
}

// nodeOf is a node as the API has it, as far as it matters which are kept for recovery.
func (p *objectCache) nodeOf(n *core.Node) *corev1.Node {
	out := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
	if !p.spares {
		return out
	}
	out.Labels, out.Spec.Unschedulable = n.Labels, n.State != core.NodeReady
	for _, t := range n.Taints {
		out.Spec.Taints = append(out.Spec.Taints, taintOf(t))
	}
	ready := corev1.ConditionTrue
	if n.State == core.NodeLost {
		ready = corev1.ConditionUnknown
	}
	out.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	return out
}

// TakesPlace is the rule of package core.
func (Rules) TakesPlace(p core.PodState) bool { return p.HoldsPlace() }

// TimeToEnd is the rule of the controllers.
func (Rules) TimeToEnd(grace, ago, longest time.Duration) (time.Duration, bool) {
	return workloadlifecycle.TimeToEnd(grace, ago, longest)
}

// Wakes is true for all that is seen of a job itself, and for pods that hold
// quota no longer: nothing else lets the controllers find more to do. Workloads
// are looked at whenever they are written.
func (Rules) Wakes(x *sim.WatchEvent, before *core.PodState) bool {
	switch {
	case x.Maker != nil:
		return true
	case x.Pod != nil && before != nil:
		return before.HoldsQuota() && (x.Pod.Gone || !x.Pod.HoldsQuota())
	}
	return false
}

// Decided takes in a plan before it is written.
func (p *objectCache) Decided(plan core.Plan) { p.world.Decided(plan) }

// Holds takes in which nodes are held.
func (p *objectCache) Holds(nodes []string) { p.world.Holds(nodes) }

// Show takes in an object and returns what the engine is told.
func (p *objectCache) Show(x sim.WatchEvent) []core.Event {
	c := cache.ObjectUpdate{Ref: cache.Ref{Kind: cache.Workload, Namespace: x.Key.Namespace, Name: x.Key.Name}}
	switch ev := x.Event.(type) {
	case core.NodeSet:
		p.nodes[ev.Node.Name] = ev.Node
		c.Ref = cache.Ref{Kind: cache.Node, Name: ev.Node.Name}
		c.Object = p.nodeOf(&ev.Node)
	case core.NodeGone:
		delete(p.nodes, ev.Name)
		c.Ref = cache.Ref{Kind: cache.Node, Name: ev.Name}
	case core.Refused:
		p.world.Undone(ev.Key)
		return []core.Event{ev}
	default:
		switch {
		case x.Pod != nil:
			c.Ref = cache.Ref{Kind: cache.Pod, Namespace: x.Key.Namespace, Name: x.Pod.Name}
			c.Object = podOf(x.Pod)
		case x.IsWorkload:
			p.jobs[x.Key] = x.Spec
			c.Object = snapshotOf(x)
		default:
			return nil // the engine knows no jobs
		}
	}
	events := p.world.Translate([]cache.ObjectUpdate{c})
	for i, ev := range events {
		switch ev := ev.(type) {
		case core.NodeSet:
			n := p.nodes[ev.Node.Name]
			n.Foreign = ev.Node.Foreign
			if p.spares {
				n.Labels = ev.Node.Labels
			}
			events[i] = core.NodeSet{Node: n}
		case core.WorkloadSet:
			asks(p.jobs[ev.Workload.Key], &ev.Workload)
			events[i] = ev
		}
	}
	return events
}

// asks gives a workload the pods of its job, which never were pod templates.
func asks(j *sim.Job, w *core.Workload) {
	for i := range w.PodSets {
		ps := j.PodSets[i]
		ps.Count, ps.MinCount, ps.Filter.Refused = w.PodSets[i].Count, w.PodSets[i].MinCount, w.PodSets[i].Filter.Refused
		w.PodSets[i] = ps
	}
}

func snapshotOf(x sim.WatchEvent) client.Object {
	w, ok := x.Snapshot.(*kueue.Workload)
	if !ok {
		return nil
	}
	w.ResourceVersion = strconv.FormatUint(x.Seq, 10)
	return w
}

// podOf is a pod as the API server has it; nil if it is gone.
func podOf(p *sim.Pod) client.Object {
	if p.Gone {
		return nil
	}
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Job.Namespace, Name: p.Name, UID: types.UID(p.Name),
			Labels:      map[string]string{kueue.PodSetLabel: p.PodSet},
			Annotations: map[string]string{kueue.WorkloadAnnotation: p.Job.Name},
		},
		Spec: corev1.PodSpec{
			NodeName: p.Node,
			Containers: []corev1.Container{
				{Resources: corev1.ResourceRequirements{Requests: convert.ResourceList(p.Requests)}},
			},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	switch {
	case p.Succeeded:
		out.Status.Phase = corev1.PodSucceeded
	case p.Ended:
		out.Status.Phase = corev1.PodFailed
	case p.Bound:
		out.Status.Phase = corev1.PodRunning
	}
	if p.Deleting {
		out.DeletionTimestamp = new(metav1.Time)
	}
	return out
}

// Snapshot is the object as it is now.
func (p *object) Snapshot() any { return p.w.DeepCopy() }

// Gone reports whether the object was let go.
func (p *object) Gone() bool { return p.gone }

// Delete deletes the object, which a finalizer keeps.
func (p *object) Delete(now time.Time) {
	if p.w.DeletionTimestamp == nil {
		p.w.DeletionTimestamp = new(metav1.NewTime(now))
	}
}
