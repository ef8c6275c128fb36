package podgroup

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	api "github.com/mlbatch/mlbatch/api/podgroup/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
)

// mapper knows the PodGroups that there are.
func mapper() meta.RESTMapper {
	native := schedulingv1beta1.SchemeGroupVersion
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{api.GroupVersion, native, kaiPodGroup.GroupVersion()})
	m.Add(api.GroupVersion.WithKind("PodGroup"), meta.RESTScopeNamespace)
	m.Add(native.WithKind("PodGroup"), meta.RESTScopeNamespace)
	m.Add(kaiPodGroup, meta.RESTScopeNamespace)
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

// A PodGroup that was written for other pods says nothing of those that name it besides.
func TestPodGroupsThatWereWrittenAreNoInput(t *testing.T) {
	w := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "g", UID: "uid-g"}}
	g := native(gang(1))
	g.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(w, kueue.GroupVersion.WithKind("Workload")),
	}
	b := newBench(t, g, managed("a", ofPodGroup(podmeta.NativeGroup)))
	b.settle("g")
	if got := b.reasons(); b.workload("g") != nil || !slices.Equal(got, []string{eventMismatch}) {
		t.Errorf("it says %v, and is queued as %v", got, b.workload("g"))
	}
}

// native is PodGroup g of Kubernetes.
func native(change ...func(*schedulingv1beta1.PodGroupSpec)) *schedulingv1beta1.PodGroup {
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "g"}}
	for _, c := range change {
		c(&g.Spec)
	}
	return g
}

func gang(least int32) func(*schedulingv1beta1.PodGroupSpec) {
	return func(s *schedulingv1beta1.PodGroupSpec) {
		s.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: least}
	}
}

func inOne(level string) func(*schedulingv1beta1.PodGroupSpec) {
	return func(s *schedulingv1beta1.PodGroupSpec) {
		s.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{
			Topology: []schedulingv1beta1.TopologyConstraint{{Key: level}},
		}
	}
}

func basic(s *schedulingv1beta1.PodGroupSpec) {
	s.SchedulingPolicy.Basic = &schedulingv1beta1.BasicSchedulingPolicy{}
}

var ofNative = ofPodGroup(podmeta.NativeGroup)

// A native gang is in the domain that its PodGroup asks for, and so are the pods that come on top of those which start
// together. How many these are may change as long as they wait.
func TestNativeGang(t *testing.T) {
	chosen := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"rack": "elsewhere"} }
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"rack": "r1"}}}
	b := newBench(t, native(gang(3), inOne("rack")), managed("a", ofNative), managed("b", ofNative), node)
	b.Native = true
	b.settle("g")
	if got := b.reasons(); b.workload("g") != nil || !slices.Equal(got, []string{eventIncomplete}) {
		t.Fatalf("one is missing, it says %v", got)
	}
	if err := b.Client.Update(t.Context(), withVersion(t, b, native(gang(2), inOne("rack")))); err != nil {
		t.Fatal(err)
	}
	b.settle("g")
	w := b.workload("g")
	if w == nil || w.Spec.PodSets[0].Count != 2 || *w.Spec.PodSets[0].TopologyRequest.Required != "rack" {
		t.Fatalf("two are enough now: %v", w)
	}
	for _, p := range []*corev1.Pod{managed("c", ofNative), managed("d", ofNative, chosen)} {
		if err := b.Client.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	b.admit("g")
	b.settle("g")
	b.expect("it is not known yet where they are", "a started+, b started+, c held+, d held+")
	if c := b.pods()[2]; podmeta.Group(&c) != "g" {
		t.Error("it has left the group, and may start anywhere")
	}
	b.place("g", "n")
	b.settle("g")
	c, d := b.pods()[2], b.pods()[3]
	if podmeta.Group(&c) != "" || c.Spec.NodeSelector["rack"] != "r1" {
		t.Errorf("the third is queued for %v, in group %q", c.Spec.NodeSelector, podmeta.Group(&c))
	}
	if podmeta.Group(&d) != "g" || d.Spec.NodeSelector["rack"] != "elsewhere" ||
		!slices.Contains(b.reasons(), eventMismatch) {
		t.Errorf("the fourth asks for another rack: %v", d.Spec.NodeSelector)
	}
}

// withVersion is an object to be written over the one that is there.
func withVersion(t *testing.T, b *bench, o client.Object) client.Object {
	t.Helper()
	was := &schedulingv1beta1.PodGroup{}
	if err := b.Client.Get(t.Context(), client.ObjectKeyFromObject(o), was); err != nil {
		t.Fatal(err)
	}
	o.SetResourceVersion(was.ResourceVersion)
	return o
}

// place says on which node the pods of an admitted Workload are to be.
func (b *bench) place(name, node string) {
	b.t.Helper()
	w := b.workload(name)
	for i := range w.Status.Admission.PodSetAssignments {
		a := &w.Status.Admission.PodSetAssignments[i]
		a.TopologyAssignment = &kueue.TopologyAssignment{
			Levels: []string{corev1.LabelHostname},
			Slices: []kueue.TopologyAssignmentSlice{{
				DomainCount:    1,
				ValuesPerLevel: []kueue.TopologyAssignmentSliceLevelValues{{Universal: &node}},
				PodCounts:      kueue.TopologyAssignmentSlicePodCounts{Universal: a.Count},
			}},
		}
	}
	if err := b.Client.Status().Update(b.t.Context(), w); err != nil {
		b.t.Fatal(err)
	}
}

// Where the domain that is asked for changes with the PodGroup, the pods wait for that one.
func TestNativeGangElsewhere(t *testing.T) {
	b := newBench(t, native(gang(1), inOne("rack")), managed("a", ofNative))
	b.settle("g")
	if err := b.Client.Update(t.Context(), withVersion(t, b, native(gang(1), inOne("block")))); err != nil {
		t.Fatal(err)
	}
	b.settle("g")
	if w := b.workload("g"); w == nil || *w.Spec.PodSets[0].TopologyRequest.Required != "block" {
		t.Errorf("it waits for %v", w.Spec.PodSets[0].TopologyRequest)
	}
}

// Pods of a group with schedulingPolicy.basic wait for none of the others, also if they did before it was made anew.
func TestNativeGroupWithoutGang(t *testing.T) {
	for why, first := range map[string]func(*schedulingv1beta1.PodGroupSpec){"from the start": basic, "later": gang(2)} {
		b := newBench(t, native(first), managed("a", ofNative), managed("b", ofNative))
		b.settle("g")
		if err := b.Client.Update(t.Context(), withVersion(t, b, native(basic))); err != nil {
			t.Fatal(err)
		}
		b.settle("g")
		for _, p := range b.pods() {
			alone := admission.PodWorkloadName(&p)
			b.settle(alone)
			if w := b.workload(alone); alone == "g" || w == nil || w.Spec.PodSets[0].Count != 1 {
				t.Errorf("%s: pod %s is queued as %v", why, p.Name, w)
			}
		}
		if b.workload("g") != nil {
			t.Errorf("%s: they are queued together", why)
		}
	}
}

// What a native PodGroup says and cannot be kept, its pods wait for, and the event names the field.
func TestNativeGroupsThatCannotBeMeant(t *testing.T) {
	for field, g := range map[string]*schedulingv1beta1.PodGroup{
		"spec.schedulingConstraints.topology": native(basic, inOne("rack")),
		"spec.parentCompositePodGroupName": native(gang(1), func(s *schedulingv1beta1.PodGroupSpec) {
			s.ParentCompositePodGroupName = new("all")
		}),
		"spec.resourceClaims": native(gang(1), func(s *schedulingv1beta1.PodGroupSpec) {
			s.ResourceClaims = []schedulingv1beta1.PodGroupResourceClaim{{Name: "nvlink"}}
		}),
	} {
		b := newBench(t, g, managed("a", ofNative))
		b.settle("g")
		if got := b.said(); b.workload("g") != nil || len(got) != 1 || !strings.Contains(got[0], field) {
			t.Errorf("%s: it says %v", field, got)
		}
	}
}

// Pods wait again when nothing tells of their PodGroup: where it is not watched it is read now and then.
func TestNativeGroupsThatAreNotWatched(t *testing.T) {
	for watched, again := range map[bool]bool{true: false, false: true} {
		b := newBench(t, native(gang(2)), managed("a", ofNative))
		b.Native = watched
		key := types.NamespacedName{Namespace: "blue", Name: "g"}
		got, err := b.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
		if err != nil || (got.RequeueAfter > 0) != again {
			t.Errorf("watched %v: looked at again after %v, %v", watched, got.RequeueAfter, err)
		}
	}
}

// A change of a PodGroup's status is no news for its pods.
func TestNewsOfNativeGroups(t *testing.T) {
	told := native(gang(2))
	told.Status.Conditions = []metav1.Condition{{Type: "x"}}
	for name, tc := range map[string]struct {
		is   *schedulingv1beta1.PodGroup
		want bool
	}{"status": {told, false}, "minCount": {native(gang(3)), true}} {
		if got := respecified().Update(event.UpdateEvent{ObjectOld: native(gang(2)), ObjectNew: tc.is}); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	got := (&reconciler{}).ofNativeGroup(t.Context(), told)
	if len(got) != 1 || got[0].Name != "g" || got[0].Namespace != "blue" {
		t.Errorf("it leads to %v", got)
	}
}

// A PodGroup whose pods have no Workload is told what they wait for, as their event says it.
func TestUnqueued(t *testing.T) {
	elsewhere := func(p *corev1.Pod) { p.Labels[kueue.QueueNameLabel] = "elsewhere" }
	detached := func(p *corev1.Pod) { delete(p.Labels, kueue.PodGroupNameLabel) }
	for name, tc := range map[string]struct {
		group *schedulingv1beta1.PodGroup
		pods  []*corev1.Pod
		want  string
	}{
		"pods are missing": {native(gang(2)), []*corev1.Pod{managed("a", ofNative)}, "all of its 2 pods"},
		"all are there":    {native(gang(1)), []*corev1.Pod{managed("a", ofNative)}, ""},
		"a field that cannot be meant": {
			native(basic, inOne("rack")), []*corev1.Pod{managed("a", ofNative)}, "spec.schedulingConstraints.topology",
		},
		"they contradict each other": {
			native(gang(2)), []*corev1.Pod{managed("a", ofNative), managed("b", ofNative, elsewhere)}, "pod b",
		},
		"each is queued by itself": {native(basic), []*corev1.Pod{managed("a", ofNative)}, ""},
		"they have left the group": {native(gang(2)), []*corev1.Pod{managed("a", ofNative, detached)}, ""},
	} {
		objects := []client.Object{tc.group}
		for _, p := range tc.pods {
			objects = append(objects, p)
		}
		got, err := newBench(
			t,
			objects...).Unqueued(t.Context(), types.NamespacedName{Namespace: "blue", Name: "g"})
		if err != nil || (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
