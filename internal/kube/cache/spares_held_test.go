package cache_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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

// step tells of changes and decides.
func (h *holding) step(changes ...cache.ObjectUpdate) core.Plan {
	h.now = h.now.Add(time.Minute)
	for _, ev := range h.world.Translate(changes) {
		if n, is := ev.(core.NodeSet); is {
			h.kept[n.Node.Name] = n.Node.Labels[core.SpareLabel] != ""
		}
		h.engine.Apply(ev)
	}
	p := h.engine.Decide(h.now)
	h.world.Decided(p)
	h.world.Holds(h.engine.View().Held())
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
	pod := corev1.PodSpec{Containers: []corev1.Container{{
		Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{gpus: resource.MustParse("8")}},
	}}}
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
	if h.step(); !h.kept["n1"] {
		t.Errorf("%v are kept, want n1, which nobody has", h.kept)
	}
}
