package cache_test

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/cache"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// holding is a world and an engine that work as the decision loop has them work.
type holding struct {
	*testing.T
	world  *cache.World
	engine *cycle.Engine
	now    time.Time
	seq    int
	kept   map[string]bool
}

// step tells of changes and decides, and does so again where another node may be kept than before.
func (h *holding) step(changes ...cache.ObjectUpdate) core.Plan {
	h.now = h.now.Add(time.Minute)
	p := h.decide(changes)
	for h.world.Holds(h.engine.View().Held()) {
		p = append(p, h.decide(nil)...)
	}
	return p
}

func (h *holding) decide(changes []cache.ObjectUpdate) core.Plan {
	for _, ev := range h.world.Translate(changes) {
		if n, is := ev.(core.NodeSet); is {
			h.kept[n.Node.Name] = n.Node.Labels[core.SpareLabel] != ""
		}
		h.engine.Apply(ev)
	}
	p := h.engine.Decide(h.now)
	h.world.Decided(p)
	return p
}

func readyNode(name string) cache.ObjectUpdate {
	have := corev1.ResourceList{gpus: resource.MustParse("8"), corev1.ResourcePods: resource.MustParse("100")}
	return cache.ObjectUpdate{Ref: cache.Ref{Kind: cache.Node, Name: name}, Object: &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": "a100"}},
		Status: corev1.NodeStatus{
			Capacity: have, Allocatable: have,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}}
}

// places is an admission of one pod on a node.
func places(node string) *core.Admission {
	return &core.Admission{Queue: "q", PodSets: []core.PodSetAdmission{{
		Name: "main", Count: 1, Flavors: []core.FlavorChoice{{Resource: core.GPU, Flavor: "a100"}},
		Usage:  core.MakeResources(map[string]core.Amount{core.GPU: 8}),
		Places: []core.Place{{Node: node, Count: 1}},
	}}}
}

// job is one pod that needs a node, and runs where an admission says.
func (h *holding) job(name string, priority int32, a, next *core.Admission) cache.ObjectUpdate {
	h.seq++
	at := metav1.NewTime(h.now)
	pod := corev1.PodSpec{Containers: []corev1.Container{
		{
			Name:      "c",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{gpus: resource.MustParse("8")}},
		},
	}}
	o := &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID(name), CreationTimestamp: at,
			ResourceVersion: strconv.Itoa(h.seq),
		},
		Spec: kueue.WorkloadSpec{QueueName: "lq", Priority: &priority, PodSets: []kueue.PodSet{
			{Name: "main", Count: 1, Template: corev1.PodTemplateSpec{Spec: pod}},
		}},
	}
	if a != nil {
		o.Status.Admission = convert.StatusAdmission(*a)
		for _, c := range []string{kueue.WorkloadQuotaReserved, kueue.WorkloadAdmitted} {
			o.Status.Conditions = append(o.Status.Conditions, metav1.Condition{
				Type: c, Status: metav1.ConditionTrue, LastTransitionTime: at,
			})
		}
	}
	if next != nil {
		o.Status.NextAdmission = convert.StatusNext(next, o)
	}
	return cache.ObjectUpdate{Ref: cache.Ref{Kind: cache.Workload, Namespace: "ns", Name: name}, Object: o}
}

// newHolding is a queue of two nodes, one of which is kept for recovery while one is free.
func newHolding(t *testing.T) (*holding, []cache.ObjectUpdate) {
	t.Helper()
	rules := convert.Rules{Spares: map[string]nodehealth.Spares{"a100": {Nodes: 1}}}
	h := &holding{
		T: t, world: cache.NewWorld(rules), engine: cycle.New(cycle.Options{}), kept: map[string]bool{},
		now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	}
	q := &kueue.ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: kueue.ClusterQueueSpec{
		ResourceGroups: has("100"), NamespaceSelector: &metav1.LabelSelector{},
		Preemption: &kueue.ClusterQueuePreemption{WithinClusterQueue: kueue.PreemptionPolicyLowerPriority},
	}}
	return h, []cache.ObjectUpdate{
		{Ref: cache.Ref{Kind: cache.Flavor, Name: "a100"}, Object: &kueue.ResourceFlavor{
			ObjectMeta: metav1.ObjectMeta{Name: "a100"},
			Spec:       kueue.ResourceFlavorSpec{NodeLabels: map[string]string{"pool": "a100"}},
		}},
		{Ref: cache.Ref{Kind: cache.Namespace, Name: "ns"}, Object: &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "ns"},
		}},
		{Ref: cache.Ref{Kind: cache.Queue, Name: "q"}, Object: q},
		{Ref: cache.Ref{Kind: cache.LocalQueue, Namespace: "ns", Name: "lq"}, Object: &kueue.LocalQueue{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "lq"},
			Spec:       kueue.LocalQueueSpec{ClusterQueue: "q"},
		}},
		readyNode("n1"), readyNode("n2"),
	}
}

// A node that was emptied for a job is that job's, and not kept for recovery: one victim is enough, and nothing is
// evicted in vain.
func TestEmptiedNodesAreNotKept(t *testing.T) {
	h, world := newHolding(t)
	h.step(append(world, h.job("l1", 0, places("n1"), nil), h.job("l2", 0, places("n2"), nil))...)
	var evicted []string
	p := h.step(h.job("high", 10, nil, nil))
	for range 3 {
		var gone []cache.ObjectUpdate
		for _, d := range p {
			switch d := d.(type) {
			case core.Evict:
				evicted = append(evicted, d.Key.Name)
				gone = append(gone, cache.ObjectUpdate{
					Ref: cache.Ref{Kind: cache.Workload, Namespace: "ns", Name: d.Key.Name},
				})
			case core.Admit:
				if len(evicted) != 1 {
					t.Errorf("%v were evicted, want one", evicted)
				}
				if h.kept["n1"] || h.kept["n2"] {
					t.Errorf("%v are kept, and both are taken", h.kept)
				}
				return
			case core.Refuse, core.Replace:
			}
		}
		p = h.step(gone...)
	}
	t.Errorf("it does not start, and %v were evicted for it", evicted)
}

// What an earlier process held for a workload is not kept for recovery before the engine says what it holds.
func TestNodesHeldBeforeARestartAreNotKept(t *testing.T) {
	h, world := newHolding(t)
	p := h.step(append(world, h.job("moved", 0, nil, places("n2")))...)
	if h.kept["n2"] {
		t.Error("the node that is held for a job is kept for recovery")
	}
	if !slices.ContainsFunc(p, func(d core.Decision) bool {
		a, is := d.(core.Admit)
		return is && a.Admission.PodSets[0].Places[0].Node == "n2"
	}) {
		t.Errorf("it decides %v, want that the job starts where a node was held for it", p)
	}
	if !h.kept["n1"] {
		t.Errorf("%v are kept, want n1, which nobody has", h.kept)
	}
}

// Whatever comes and ends meanwhile, whoever has others evicted starts once those are gone, and has no others evicted:
// no node that it is held is kept for recovery.
func TestNoPlanIsLostToSpares(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		h, world := newHolding(t)
		h.step(append(world, readyNode("n3"), readyNode("n4"), readyNode("n5"))...)
		running, leaving := map[string]int32{}, map[string]string{} // leaving: for whom
		priorities, waiting := map[string]int32{}, map[string]bool{}
		gone := func(name string) cache.ObjectUpdate {
			return cache.ObjectUpdate{Ref: cache.Ref{Kind: cache.Workload, Namespace: "ns", Name: name}}
		}
		take := func(p core.Plan) {
			var seen []cache.ObjectUpdate
			for _, d := range p {
				switch d := d.(type) {
				case core.Admit:
					name := d.Key.Name
					for _, by := range leaving {
						if by == name {
							r.Fatalf("%s starts before those are gone that were evicted for it", name)
						}
					}
					running[name] = priorities[name]
					delete(waiting, name)
					seen = append(seen, h.job(name, priorities[name], &d.Admission, nil))
				case core.Evict:
					if waiting[d.For.Name] {
						r.Fatalf("%s has %s evicted, after another one was for it", d.For.Name, d.Key.Name)
					}
					delete(running, d.Key.Name)
					leaving[d.Key.Name] = d.For.Name
				case core.Refuse, core.Replace:
				}
			}
			for _, by := range leaving {
				waiting[by] = true
			}
			if len(seen) > 0 {
				h.step(seen...)
			}
		}
		for i := range rapid.IntRange(5, 30).Draw(r, "steps") {
			names := slices.Sorted(maps.Keys(leaving))
			switch kind := rapid.IntRange(0, 3).Draw(r, "kind"); {
			case kind == 0 && len(names) > 0:
				name := rapid.SampledFrom(names).Draw(r, "gone")
				by := leaving[name]
				delete(leaving, name)
				p := h.step(gone(name))
				take(p)
				last := !slices.Contains(slices.Collect(maps.Values(leaving)), by)
				if _, runs := running[by]; last && !runs {
					r.Fatalf("%s does not start when all are gone that were evicted for it: %v", by, p)
				}
			case kind == 1 && len(running) > 0:
				name := rapid.SampledFrom(slices.Sorted(maps.Keys(running))).Draw(r, "ends")
				delete(running, name)
				take(h.step(gone(name)))
			default:
				name := "j" + strconv.Itoa(i)
				priorities[name] = int32(rapid.IntRange(0, 3).Draw(r, "priority"))
				take(h.step(h.job(name, priorities[name], nil, nil)))
			}
		}
	})
}
