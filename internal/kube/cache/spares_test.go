package cache_test

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/cache"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// The nodes that are kept are the last by name of those that take any work and have none. Another one is kept when one
// gets work or fails, and as many as there are when there are too few. A label of that name says nothing.
func TestNodesKeptForRecovery(t *testing.T) {
	w := cache.NewWorld(convert.Rules{Spares: map[string]nodehealth.Spares{"a100": {Nodes: 2}}})
	node := func(name, pool string, change func(*corev1.Node)) cache.ObjectUpdate {
		n := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": pool}},
			Status: corev1.NodeStatus{
				Capacity:    corev1.ResourceList{gpus: resource.MustParse("8")},
				Allocatable: corev1.ResourceList{gpus: resource.MustParse("8")},
				Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			},
		}
		if change != nil {
			change(n)
		}
		return cache.ObjectUpdate{Ref: cache.Ref{Kind: cache.Node, Name: name}, Object: n}
	}
	flavorOf := func(pool string, onDemand bool) cache.ObjectUpdate {
		f := &kueue.ResourceFlavor{
			ObjectMeta: metav1.ObjectMeta{Name: "a100"},
			Spec:       kueue.ResourceFlavorSpec{NodeLabels: map[string]string{"pool": pool}},
		}
		if onDemand {
			f.Annotations = map[string]string{kueue.NodesOnDemandAnnotation: "true"}
		}
		return cache.ObjectUpdate{Ref: cache.Ref{Kind: cache.Flavor, Name: "a100"}, Object: f}
	}
	flavor := flavorOf("a100", false)
	check := cache.ObjectUpdate{
		Ref: cache.Ref{Kind: cache.AdmissionCheck, Name: "nodes"},
		Object: &kueue.AdmissionCheck{
			ObjectMeta: metav1.ObjectMeta{Name: "nodes"},
			Spec:       kueue.AdmissionCheckSpec{ControllerName: kueue.ProvisioningRequestControllerName},
		},
	}
	queue := cache.ObjectUpdate{Ref: cache.Ref{Kind: cache.Queue, Name: "q"}, Object: &kueue.ClusterQueue{
		ObjectMeta: metav1.ObjectMeta{Name: "q"},
		Spec: kueue.ClusterQueueSpec{
			ResourceGroups: has("8"),
			AdmissionChecksStrategy: &kueue.AdmissionChecksStrategy{
				AdmissionChecks: []kueue.AdmissionCheckStrategyRule{{Name: "nodes"}},
			},
		},
	}}
	key := core.Key{Namespace: "blue", Name: "w"}
	kept := map[string]bool{}
	for _, step := range []struct {
		why     string
		plan    core.Plan
		changes []cache.ObjectUpdate
		want    map[string]bool
	}{
		{
			"the last two of its pool",
			nil,
			[]cache.ObjectUpdate{
				flavor, node("n1", "a100", nil), node("n2", "a100", nil), node("n3", "a100", nil), node("n4", "a100", nil),
				node("n9", "other", func(n *corev1.Node) { n.Labels[core.SpareLabel] = "true" }),
			},
			map[string]bool{"n3": true, "n4": true},
		},
		{
			"one is cordoned",
			nil,
			[]cache.ObjectUpdate{node("n4", "a100", func(n *corev1.Node) { n.Spec.Unschedulable = true })},
			map[string]bool{"n2": true, "n3": true},
		},
		{
			"one has work",
			core.Plan{core.Admit{Key: key, Admission: core.Admission{PodSets: []core.PodSetAdmission{
				{Name: "main", Places: []core.Place{{Node: "n3", Count: 1}}},
			}}}},
			[]cache.ObjectUpdate{flavor},
			map[string]bool{"n1": true, "n2": true},
		},
		{
			"a pod that nobody planned has GPUs of one",
			nil,
			[]cache.ObjectUpdate{{Ref: cache.Ref{Kind: cache.Pod, Namespace: "x", Name: "p"}, Object: &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "p"},
				Spec: corev1.PodSpec{NodeName: "n2", Containers: []corev1.Container{{
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{gpus: resource.MustParse("1")}},
				}}},
			}}},
			map[string]bool{"n1": true},
		},
		{
			"one is back",
			nil,
			[]cache.ObjectUpdate{node("n4", "a100", nil)},
			map[string]bool{"n1": true, "n4": true},
		},
		{
			"a pod that nobody planned has another device of one",
			nil,
			[]cache.ObjectUpdate{{Ref: cache.Ref{Kind: cache.Pod, Namespace: "x", Name: "q"}, Object: &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "q"},
				Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{
					Resources: corev1.ResourceRequirements{
						Requests: corev1.ResourceList{"example.com/tpu": resource.MustParse("1")},
					},
				}}},
			}}},
			map[string]bool{"n4": true},
		},
		{
			"its label says that one is of another pool",
			nil,
			[]cache.ObjectUpdate{node("n4", "other", nil), node("n5", "a100", nil)},
			map[string]bool{"n5": true},
		},
		{
			"the flavor is of that pool now",
			nil,
			[]cache.ObjectUpdate{flavorOf("other", false)},
			map[string]bool{"n4": true, "n9": true},
		},
		{"a check makes its nodes", nil, []cache.ObjectUpdate{check, queue}, map[string]bool{}},
		{
			"the queue with that check is gone",
			nil,
			[]cache.ObjectUpdate{{Ref: queue.Ref}},
			map[string]bool{"n4": true, "n9": true},
		},
		{"the queue is there again", nil, []cache.ObjectUpdate{queue}, map[string]bool{}},
		{
			"the check is gone",
			nil,
			[]cache.ObjectUpdate{{Ref: check.Ref}},
			map[string]bool{"n4": true, "n9": true},
		},
		{
			"its nodes are made on demand",
			nil,
			[]cache.ObjectUpdate{flavorOf("other", true)},
			map[string]bool{},
		},
	} {
		w.Decided(step.plan)
		for _, ev := range w.Translate(step.changes) {
			switch ev := ev.(type) {
			case core.NodeSet:
				delete(kept, ev.Node.Name)
				if _, is := ev.Node.Labels[core.SpareLabel]; is {
					kept[ev.Node.Name] = true
				}
			case core.FlavorSet:
				if ev.Flavor.KeepsSpares == (len(step.want) == 0) {
					t.Errorf("%s: the flavor says that nodes of it are kept: %t", step.why, ev.Flavor.KeepsSpares)
				}
			}
		}
		if d := cmp.Diff(step.want, kept); d != "" {
			t.Errorf("%s (-want +got):\n%s", step.why, d)
		}
		if d := cmp.Diff(step.want, w.Spares(), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s, as deep tests are told (-want +got):\n%s", step.why, d)
		}
	}
}

// A lemon of no flavor of which nodes are kept is no reason to choose these anew, whatever else of it changes.
func TestLemonsOfOtherFlavorsChangeNoSpares(t *testing.T) {
	w := cache.NewWorld(convert.Rules{Spares: map[string]nodehealth.Spares{"a100": {Nodes: 1}}})
	lemon := func(gpu string) cache.ObjectUpdate {
		u := readyNode("lemon")
		n, is := u.Object.(*corev1.Node)
		if !is {
			t.Fatalf("a node is a %T", u.Object)
		}
		n.Labels["pool"] = "other"
		n.Status.Allocatable = corev1.ResourceList{gpus: resource.MustParse(gpu)}
		return u
	}
	w.Translate([]cache.ObjectUpdate{
		{
			Ref: cache.Ref{Kind: cache.NodeHealth, Namespace: "mlbatch-system", Name: convert.HealthMemory},
			Object: &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: convert.HealthMemory},
				Data:       map[string]string{"lemon": `{"lemon":2,"faults":["Down 2026-03-01T12:00:00Z 3"]}`},
			},
		},
		{Ref: cache.Ref{Kind: cache.Flavor, Name: "a100"}, Object: &kueue.ResourceFlavor{
			ObjectMeta: metav1.ObjectMeta{Name: "a100"},
			Spec:       kueue.ResourceFlavorSpec{NodeLabels: map[string]string{"pool": "a100"}},
		}},
		readyNode("n"), lemon("8"),
	})
	before := w.Spares()
	if !before["n"] {
		t.Fatalf("%v are kept, want n", before)
	}
	told := false
	for _, ev := range w.Translate([]cache.ObjectUpdate{lemon("7")}) {
		n, is := ev.(core.NodeSet)
		told = told || is && n.Node.Name == "lemon" && n.Node.Faults > 0
	}
	if !told || reflect.ValueOf(w.Spares()).Pointer() != reflect.ValueOf(before).Pointer() {
		t.Errorf("the lemon is told of: %t, and nodes to keep were chosen anew", told)
	}
}
