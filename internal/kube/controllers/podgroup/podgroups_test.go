package podgroup

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	api "github.com/mlbatch/mlbatch/api/podgroup/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
)

// mapper knows the PodGroups that there are.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{api.GroupVersion})
	m.Add(api.GroupVersion.WithKind("PodGroup"), meta.RESTScopeNamespace)
	return m
}

// ofPodGroup makes a pod one of those that name PodGroup g.
func ofPodGroup(group string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels[kueue.PodGroupNameLabel], p.Annotations[podmeta.PodGroupKindAnnotation] = "g", group
	}
}

// Pods that name a PodGroup start together as many as it says; those on top of that wait
// by themselves.
func TestPodsOfAPodGroup(t *testing.T) {
	ours := ofPodGroup(api.GroupVersion.Group)
	b := newBench(t, managed("a", ours), managed("b", ours))
	b.settle("g")
	b.expect("nothing says how many they are", "a held+, b held+")
	if got := b.reasons(); b.workload("g") != nil || !slices.Equal(got, []string{eventMismatch}) {
		t.Fatalf("it says %v", got)
	}
	if err := b.Client.Create(
		t.Context(),
		&api.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "g"},
			Spec:       api.PodGroupSpec{MinMember: 3},
		},
	); err != nil {
		t.Fatal(err)
	}
	b.settle("g")
	if got := b.reasons(); b.workload("g") != nil || !slices.Equal(got, []string{eventIncomplete}) {
		t.Fatalf("one is missing, it says %v, its Workload is %v", got, b.workload("g"))
	}
	for _, name := range []string{"c", "d"} {
		if err := b.Client.Create(t.Context(), managed(name, ours)); err != nil {
			t.Fatal(err)
		}
	}
	b.settle("g")
	if w := b.workload("g"); w == nil || w.Spec.PodSets[0].Count != 3 {
		t.Fatalf("its Workload is %v", w)
	}
	b.expect("none starts before the others", "a held+, b held+, c held+, d held+")
	b.admit("g")
	b.settle("g")
	b.expect("three start, and not the fourth", "a started+, b started+, c started+, d held+")
	d := b.pods()[3]
	alone := admission.WorkloadName(podmeta.GVK(), &d)
	b.settle(alone)
	if w := b.workload(alone); w == nil || w.Spec.PodSets[0].Count != 1 || d.Name != "d" {
		t.Fatalf("the fourth is queued as %v", w)
	}
	if err := b.Client.Create(t.Context(), managed("e", ours)); err != nil {
		t.Fatal(err)
	}
	b.settle("g")
	b.expect("one that comes later is not deleted", "a started+, b started+, c started+, d held+, e held+")
	if e := b.pods()[4]; podmeta.Group(&e) != "" {
		t.Error("it is one of the group still")
	}
	b.phase("a", corev1.PodFailed)
	b.settle("g")
	if err := b.Client.Create(t.Context(), managed("f", ours)); err != nil {
		t.Fatal(err)
	}
	b.settle("g")
	b.expect(
		"one that takes the place of a failed one starts",
		"a failed, b started+, c started+, d held+, e held+, f started+",
	)
	for _, name := range []string{"b", "c", "f"} {
		b.phase(name, corev1.PodSucceeded)
	}
	b.settle("g")
	if w := b.workload("g"); !convert.Finished(w) {
		t.Errorf("it has not ended: %v", w.Status.Conditions)
	}
}

// What says how many pods start together cannot be read: the author is told.
func TestPodGroupsThatSayNothing(t *testing.T) {
	for group, why := range map[string]string{"scheduling.volcano.sh": "the cluster does not have them", "example.com": "nobody knows them"} {
		b := newBench(t, managed("a", ofPodGroup(group)))
		b.settle("g")
		if got := b.reasons(); b.workload("g") != nil || !slices.Equal(got, []string{eventMismatch}) {
			t.Errorf("%s: it says %v", why, got)
		}
	}
}
