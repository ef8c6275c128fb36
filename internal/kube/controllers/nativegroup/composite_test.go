package nativegroup

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/composite"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
)

// groups is a CompositePodGroup, a gang of so many groups, of none if they start apart.
func groups(name, parent string, least int32) *schedulingv1alpha3.CompositePodGroup {
	g := &schedulingv1alpha3.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: name}}
	if parent != "" {
		g.Spec.ParentCompositePodGroupName = &parent
	}
	if least > 0 {
		g.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: least}
	}
	return g
}

// part is a PodGroup within a CompositePodGroup that says something of itself, if anything.
func part(name, parent string, says metav1.ConditionStatus, message string) *schedulingv1beta1.PodGroup {
	g := group(1)
	g.Name, g.Spec.ParentCompositePodGroupName = name, &parent
	if says != "" {
		g.Status.Conditions = []metav1.Condition{
			{Type: schedulingv1beta1.PodGroupInitiallyScheduled, Status: says, Message: message},
		}
	}
	return g
}

// partOf is a pod of a PodGroup that waits with those of CompositePodGroup train.
func partOf(group string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels[kueue.PodGroupNameLabel] = "train"
		p.Annotations[podmeta.PodGroupKindAnnotation] = podmeta.CompositeGroup
		p.Spec.SchedulingGroup.PodGroupName = &group
	}
}

// What a CompositePodGroup says of its groups, by what there is.
func TestCompositeCondition(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	parts := func(a, b metav1.ConditionStatus) composite.Parts {
		inner := groups("b", "train", 1)
		if b != "" {
			inner.Status.Conditions = []metav1.Condition{
				{Type: compositeScheduled, Status: b, Message: "b has no room"},
			}
		}
		return composite.Parts{
			Groups:     []schedulingv1beta1.PodGroup{*part("a", "train", a, "a has no room")},
			Composites: []schedulingv1alpha3.CompositePodGroup{*inner},
		}
	}
	gang, apart := groups("train", "", 2), groups("train", "", 0)
	circle := &composite.FaultError{Why: "a circle", Lasting: true}
	for name, tc := range map[string]struct {
		why          string
		is           compositeFacts
		want         metav1.ConditionStatus
		reason, says string
	}{
		"all groups are": {"it is what is meant", compositeFacts{gang, parts(yes, yes), nil, true, reserved(), ""}, yes, "Scheduled", "2"},
		"some groups are": {
			"the others may be refused", compositeFacts{gang, parts(yes, no), nil, true, reserved(), ""}, no, "Unschedulable", "has quota",
		},
		"no room": {
			"the reason is the job's", compositeFacts{gang, parts(no, ""), nil, true, waiting(), ""}, no, "Unschedulable", "no rack has room",
		},
		"not queued": {
			"so it says why", compositeFacts{gang, parts("", ""), nil, true, nil, "one is missing"}, no, "Unschedulable", "one is missing",
		},
		"one of those that start apart is": {
			"there is no more to wait for", compositeFacts{apart, parts(yes, no), nil, true, nil, ""}, yes, "Scheduled", "1",
		},
		"none of those that start apart is": {
			"each waits for itself", compositeFacts{apart, parts("", no), nil, true, nil, ""}, no, "Unschedulable", "CompositePodGroup b: b has no room",
		},
		"a circle": {"it is none", compositeFacts{gang, parts("", ""), circle, true, nil, ""}, no, "Invalid", "a circle"},
		"one around it is not there": {
			"it may come", compositeFacts{gang, parts("", ""), &composite.FaultError{Why: "create it"}, true, nil, ""}, no, "Unschedulable", "create it",
		},
		"soon":           {"there is nothing to be said", compositeFacts{gang, parts("", ""), nil, true, nil, ""}, "", "", ""},
		"pods of others": {"their scheduler says it", compositeFacts{gang, parts(yes, yes), nil, false, nil, ""}, "", "", ""},
	} {
		got := compositeCondition(tc.is)
		switch {
		case got == nil && tc.want == "":
		case got == nil || got.Status != tc.want || got.Reason != tc.reason || !strings.Contains(got.Message, tc.says):
			t.Errorf("%s (%s): %+v", name, tc.why, got)
		}
	}
}

// tells is what a CompositePodGroup says after it was looked at.
func (r *reconciler) tells(t *testing.T, name string) string {
	t.Helper()
	key := types.NamespacedName{Namespace: "blue", Name: name}
	if _, err := r.tellComposite(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	var g schedulingv1alpha3.CompositePodGroup
	if err := r.Client.Get(t.Context(), key, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Status.Conditions) == 0 {
		return ""
	}
	return string(g.Status.Conditions[0].Status) + ": " + g.Status.Conditions[0].Message
}

// CompositePodGroups say why the Workload of the gang waits that they are, or are in, and that they were scheduled for
// good; a Workload of another job that is called so says nothing. PodGroups in it say the same.
func TestComposites(t *testing.T) {
	w := waiting()
	w.Namespace, w.Name = "blue", "train"
	w.Annotations = map[string]string{kueue.IsGroupWorkloadAnnotation: "true"}
	other := w.DeepCopy()
	p := queued("p", partOf("a"))
	w.Spec.PodSets = []kueue.PodSet{{Template: corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec}}}
	world := func(w *kueue.Workload) []client.Object {
		out := []client.Object{
			groups(
				"train",
				"outer",
				2,
			),
			groups("outer", "", 0),
			groups("in", "train", 1),
			part("a", "in", "", ""),
			part("b", "train", "", ""),
			p,
		}
		if w != nil {
			out = append(out, w)
		}
		return out
	}
	r := over(world(w)...)
	for _, name := range []string{"train", "in"} {
		if got := r.tells(t, name); got != "False: no rack has room" {
			t.Errorf("%s says %q", name, got)
		}
	}
	if got := r.tells(t, "outer"); got != "False: CompositePodGroup train: no rack has room" {
		t.Errorf("the one that has its groups start apart says %q", got)
	}
	if got := over(world(other)...).tells(t, "train"); !strings.Contains(got, "of another job") {
		t.Errorf("beside another job of its name it says %q", got)
	}
	if got := over(world(nil)...).tells(t, "train"); got != "False: one is missing" {
		t.Errorf("before it is queued it says %q", got)
	}
	if got := over(groups("train", "", 1), part("a", "train", "", "")).tells(t, "train"); got != "" {
		t.Errorf("it is none of ours, and says %q", got)
	}
	late := w.DeepCopy()
	late.Status.Admission = &kueue.Admission{}
	r = over(append(world(late), queued("q", partOf("b")))...)
	var b schedulingv1beta1.PodGroup
	key := types.NamespacedName{Namespace: "blue", Name: "b"}
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	if err := r.Client.Get(t.Context(), key, &b); err != nil || len(b.Status.Conditions) != 1 ||
		!strings.Contains(b.Status.Conditions[0].Message, "had quota already") {
		t.Errorf("one that came later says %+v, %v", b.Status.Conditions, err)
	}
	r = over(world(w)...)
	// What changes leads to all that say something of it.
	for name, tc := range map[string]struct {
		got  []reconcile.Request
		want []string
	}{
		"a pod":                      {r.aroundPod(t.Context(), p), []string{"in", "train", "outer"}},
		"a PodGroup":                 {r.around(t.Context(), part("b", "train", "", "")), []string{"train", "outer"}},
		"a CompositePodGroup":        {r.related(t.Context(), groups("train", "outer", 2)), []string{"outer", "in"}},
		"one, to PodGroups":          {r.within(t.Context(), groups("train", "outer", 2)), []string{"b", "a"}},
		"the Workload":               {r.compositesOf(t.Context(), w), []string{"in", "train", "outer"}},
		"the Workload, to PodGroups": {r.ofWorkload(t.Context(), w), []string{"a"}},
	} {
		var names []string
		for _, q := range tc.got {
			names = append(names, q.Name)
		}
		if !slices.Equal(names, tc.want) {
			t.Errorf("%s leads to %v, want %v", name, names, tc.want)
		}
	}
	if admission.IsGang(w) {
		t.Error("a PodGroup is written besides those that the pods name")
	}
	for _, name := range []string{"a", "b"} {
		g := &schedulingv1beta1.PodGroup{}
		if err := r.Client.Get(t.Context(), types.NamespacedName{Namespace: "blue", Name: name}, g); err != nil {
			t.Fatal(err)
		}
		g.Status.Conditions = []metav1.Condition{
			{Type: schedulingv1beta1.PodGroupInitiallyScheduled, Status: "True"},
		}
		if err := r.Client.Status().Update(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"in", "train", "outer"} {
		if got := r.tells(t, name); !strings.HasPrefix(got, "True") {
			t.Errorf("all pods have nodes, and %s says %q", name, got)
		}
	}
}
