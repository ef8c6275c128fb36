package podgroup

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
)

// compositeOf is a CompositePodGroup of blue, a gang of so many groups, within another one if that is named.
func compositeOf(name, parent string, groups int32, level string) *schedulingv1alpha3.CompositePodGroup {
	g := &schedulingv1alpha3.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: name}}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: groups}
	if parent != "" {
		g.Spec.ParentCompositePodGroupName = &parent
	}
	if level != "" {
		g.Spec.SchedulingConstraints = &schedulingv1alpha3.CompositePodGroupSchedulingConstraints{
			Topology: []schedulingv1alpha3.TopologyConstraint{{Key: level}},
		}
	}
	return g
}

// groupOf is a PodGroup of blue within a CompositePodGroup.
func groupOf(
	name, parent string,
	change ...func(*schedulingv1beta1.PodGroupSpec),
) *schedulingv1beta1.PodGroup {
	g := native(change...)
	g.Name, g.Spec.ParentCompositePodGroupName = name, &parent
	return g
}

// naming has a pod name a PodGroup of Kubernetes, as it was when nothing was known but its name.
func naming(group string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels[kueue.PodGroupNameLabel], p.Annotations[podmeta.PodGroupKindAnnotation] = group, podmeta.NativeGroup
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	}
}

// withComposites is a bench where CompositePodGroups are served.
func withComposites(t *testing.T, objects ...client.Object) *bench {
	t.Helper()
	b := newBench(t, objects...)
	b.Native, b.Composites = true, true
	return b
}

func (b *bench) create(objects ...client.Object) {
	b.t.Helper()
	for _, o := range objects {
		if err := b.Client.Create(b.t.Context(), o); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *bench) delete(o client.Object) {
	b.t.Helper()
	if err := b.Client.Delete(b.t.Context(), o); err != nil {
		b.t.Fatal(err)
	}
}

// groups are the groups of all pods, by their names.
func (b *bench) groups() string {
	var out []string
	for _, p := range b.pods() {
		out = append(out, p.Name+" in "+podmeta.Group(&p))
	}
	return strings.Join(out, ", ")
}

// Pods of several PodGroups within one CompositePodGroup are one gang, whichever object comes first: what is not there is
// named, and what comes leads to those who wait for it. What is made anew elsewhere takes its pods along.
func TestCompositesInAnyOrder(t *testing.T) {
	b := withComposites(t, managed("a1", naming("a")), managed("b1", naming("b")), managed("b2", naming("b")))
	settle := func(units ...string) string {
		for _, u := range units {
			b.settle(u)
		}
		return strings.Join(b.messages(), "; ")
	}
	if got := settle("a", "b"); !strings.Contains(got, "there is no PodGroup a") {
		t.Fatalf("it says %q", got)
	}
	groupB := groupOf("b", "train", gang(2))
	b.create(groupOf("a", "train", gang(1), inOne("rack")), groupB)
	if got := settle("a", "b"); !strings.Contains(got, "PodGroup b: spec.parentCompositePodGroupName is train") {
		t.Fatalf("it says %q", got)
	}
	train := compositeOf("train", "", 2, "block")
	b.create(train)
	for _, name := range []string{"a", "b", "train"} {
		request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "blue", Name: name}}
		if got := b.ofComposite(t.Context(), train); !slices.Contains(got, request) {
			t.Errorf("it does not lead to the pods of %s, but to %v", name, got)
		}
	}
	if got := b.ofNativeGroup(t.Context(), groupB); len(got) != 2 || got[1].Name != "train" {
		t.Errorf("PodGroup b leads to %v", got)
	}
	settle("a", "b", "train")
	if got := b.groups(); got != "a1 in train, b1 in train, b2 in train" {
		t.Fatal(got)
	}
	w := b.workload("train")
	if w == nil || len(w.Spec.PodSets) != 2 || b.workload("a") != nil || b.workload("b") != nil {
		t.Fatalf("its Workload is %v", w)
	}
	for _, ps := range w.Spec.PodSets {
		groups := ps.Template.Annotations[kueue.TopologyGroupsAnnotation]
		switch name := podmeta.NativeName(&ps.Template.Spec); {
		case name == "a" && ps.Count == 1 && *ps.TopologyRequest.Required == "rack" && groups == "block=all":
		case name == "b" && ps.Count == 2 && *ps.TopologyRequest.Required == "block" && groups == "":
		default:
			t.Errorf(
				"pod set %s of %s, of %d, asks for %v within %q",
				ps.Name,
				name,
				ps.Count,
				ps.TopologyRequest,
				groups,
			)
		}
	}
	b.messages()
	b.delete(groupB)
	if got := settle("train"); !strings.Contains(got, "there is no PodGroup b") || b.workload("train") != nil {
		t.Fatalf("half of it is queued as %v; it says %q", b.workload("train"), got)
	}
	b.create(groupOf("b", "other", gang(2)), compositeOf("other", "", 1, ""))
	got := settle("train", "other", "train")
	if b.groups() != "a1 in train, b1 in other, b2 in other" || b.workload("other") == nil {
		t.Fatalf("%s, other is queued as %v", b.groups(), b.workload("other"))
	}
	if !strings.Contains(got, "CompositePodGroup train: spec.schedulingPolicy.gang.minGroupCount") {
		t.Errorf("what is left of train says %q", got)
	}
}

// Once it has quota nothing is read of it again. Pods that come on top go to the domains of their PodGroup, and those of a
// PodGroup that comes then wait and are told.
func TestCompositesAfterQuota(t *testing.T) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"rack": "r1", "block": "b1"}},
	}
	train := compositeOf("train", "", 1, "block")
	b := withComposites(
		t,
		node,
		train,
		groupOf("a", "train", gang(1), inOne("rack")),
		managed("a1", naming("a")),
	)
	b.settle("a")
	b.settle("train")
	b.admit("train")
	b.place("train", "n")
	b.settle("train")
	b.expect("it starts", "a1 started+")
	b.messages()
	b.create(groupOf("late", "train", gang(1)), managed("a2", naming("a")), managed("l1", naming("late")))
	b.settle("a")
	b.settle("late")
	b.settle("train")
	b.expect("the others wait", "a1 started+, a2 held+, l1 held+")
	pods := b.pods()
	if s := pods[1].Spec.NodeSelector; podmeta.Group(&pods[1]) != "" || s["rack"] != "r1" || s["block"] != "b1" {
		t.Errorf("one more of a is in group %q and goes to %v", podmeta.Group(&pods[1]), s)
	}
	if got := strings.Join(b.messages(), "; "); podmeta.Group(&pods[2]) != "train" ||
		!strings.Contains(got, "PodGroup late came when CompositePodGroup train had quota already") {
		t.Errorf("one that comes late is in group %q; it says %q", podmeta.Group(&pods[2]), got)
	}
	b.delete(train)
	alone := native(gang(1))
	alone.Name = "train"
	b.create(alone, managed("t1", naming("train")))
	b.settle("train")
	b.expect("it runs on, and a PodGroup of its name waits", "a1 started+, a2 held+, l1 held+, t1 held+")
	if t1 := b.pods()[3]; podmeta.Group(&t1) != "train" {
		t.Errorf("a pod of a gang is queued by itself: %v", t1.Labels)
	}
}

// Whatever members of a team write, pods wait with what is wrong, and only those that it is written of.
func TestCompositesThatCannotBeMeant(t *testing.T) {
	crowd := []client.Object{compositeOf("train", "", 65, ""), managed("p", naming("g0"))}
	for i := range 65 {
		crowd = append(crowd, groupOf(fmt.Sprintf("g%d", i), "train", gang(1)))
	}
	deep := []client.Object{groupOf("g", "c0", gang(1)), managed("p", naming("g"))}
	for i := range 4 {
		deep = append(deep, compositeOf(fmt.Sprintf("c%d", i), fmt.Sprintf("c%d", i+1), 1, ""))
	}
	elsewhere := compositeOf("train", "", 1, "")
	elsewhere.Namespace = "lab"
	foreign := groupOf("b", "train", gang(1))
	foreign.Spec.WorkloadRef = &schedulingv1beta1.WorkloadReference{WorkloadName: "mine"}
	theirs := compositeOf("train", "", 2, "")
	theirs.Spec.WorkloadRef = &schedulingv1alpha3.WorkloadReference{WorkloadName: "theirs"}
	elseQueue := func(p *corev1.Pod) { p.Labels[kueue.QueueNameLabel] = "elsewhere" }
	for name, tc := range map[string]struct {
		objects []client.Object
		says    string
	}{
		"a circle": {
			[]client.Object{
				groupOf("g", "x", gang(1)), compositeOf("x", "y", 1, ""), compositeOf("y", "x", 1, ""), managed("p", naming("g")),
			}, "round in a circle",
		},
		"a deep chain": {deep, "more than 3 levels"},
		"a crowd":      {crowd, "more than 64 groups"},
		"another namespace's": {
			[]client.Object{groupOf("g", "train", gang(1)), elsewhere, managed("p", naming("g"))}, "there is no such CompositePodGroup",
		},
		"a PodGroup of another job": {
			[]client.Object{groupOf("g", "train", gang(1)), foreign, theirs, managed("p", naming("g"))}, "PodGroup b: spec.workloadRef.workloadName",
		},
		"a pod of another queue": {
			[]client.Object{
				groupOf("g", "train", gang(1)), compositeOf("train", "", 1, ""), managed("p", naming("g")), managed("q", naming("g"), elseQueue),
			}, "pod q names queue",
		},
		"some of the groups": {
			[]client.Object{
				groupOf("g", "train", gang(1)), groupOf("h", "train", gang(1)), compositeOf("train", "", 1, ""), managed("p", naming("g")),
			}, "minGroupCount",
		},
	} {
		b := withComposites(t, tc.objects...)
		for _, u := range []string{"g", "g0", "train"} {
			b.settle(u)
		}
		got := strings.Join(b.messages(), "; ")
		var ws kueue.WorkloadList
		if err := b.Client.List(
			t.Context(),
			&ws,
		); err != nil || len(ws.Items) > 0 ||
			!strings.Contains(got, tc.says) {
			t.Errorf("%s: there are %d Workloads, %v; it says %q", name, len(ws.Items), err, got)
		}
	}
}

// A change of the status of a CompositePodGroup is no news for pods.
func TestNewsOfComposites(t *testing.T) {
	told := compositeOf("train", "", 1, "")
	told.Status.Conditions = []metav1.Condition{{Type: "x"}}
	for name, tc := range map[string]struct {
		is   *schedulingv1alpha3.CompositePodGroup
		want bool
	}{"status": {told, false}, "minGroupCount": {compositeOf("train", "", 2, ""), true}} {
		news := event.UpdateEvent{ObjectOld: compositeOf("train", "", 1, ""), ObjectNew: tc.is}
		if got := respecified().Update(news); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
