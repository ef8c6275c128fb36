package nativegroup

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

const rack, block = "example.com/rack", "example.com/block"

// own is mlbatch's scheduler, which binds what names none.
func own() jobs.Schedulers {
	return jobs.Schedulers{Given: jobs.SchedulerName, Ours: []string{jobs.SchedulerName}}
}

// gangOf is Workload g of a job, with pod sets.
func gangOf(sets ...kueue.PodSet) *kueue.Workload {
	w := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{
		Namespace: "blue", Name: "g", UID: "uid-g",
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: "uid-j", Controller: new(true)},
		},
	}}
	w.Spec.PodSets = sets
	return w
}

// set is a pod set of so many pods.
func set(name string, n int32, change ...func(*kueue.PodSet)) kueue.PodSet {
	ps := kueue.PodSet{Name: kueue.PodSetReference(name), Count: n}
	for _, c := range change {
		c(&ps)
	}
	return ps
}

func inOne(level, group string) func(*kueue.PodSet) {
	return func(ps *kueue.PodSet) {
		ps.TopologyRequest = &kueue.PodSetTopologyRequest{Required: &level}
		if group != "" {
			ps.TopologyRequest.PodSetGroupName = &group
		}
	}
}

func inGroups(groups string) func(*kueue.PodSet) {
	return func(ps *kueue.PodSet) {
		ps.Template.Annotations = map[string]string{kueue.TopologyGroupsAnnotation: groups}
	}
}

func ofClass(name string) func(*kueue.PodSet) {
	return func(ps *kueue.PodSet) { ps.Template.Spec.PriorityClassName = name }
}

func boundBy(scheduler string) func(*kueue.PodSet) {
	return func(ps *kueue.PodSet) { ps.Template.Spec.SchedulerName = scheduler }
}

// with changes a Workload.
func with(w *kueue.Workload, change ...func(*kueue.Workload)) *kueue.Workload {
	for _, c := range change {
		c(w)
	}
	return w
}

func given(n int32) func(*kueue.Workload) {
	return func(w *kueue.Workload) {
		w.Status.Admission = &kueue.Admission{
			PodSetAssignments: []kueue.PodSetAssignment{{Name: w.Spec.PodSets[0].Name, Count: &n}},
		}
	}
}

func noted(key, value string) func(*kueue.Workload) {
	return func(w *kueue.Workload) { w.Annotations = map[string]string{key: value} }
}

// A PodGroup says of a Workload what it can, and nothing that is not so.
func TestGroupOf(t *testing.T) {
	type says struct {
		Least        int32 // 0: the pods start one by one
		Level, Class string
	}
	for name, tc := range map[string]struct {
		why  string
		of   *kueue.Workload
		want says
	}{
		"all pods":       {"they start together", gangOf(set("a", 1), set("b", 3)), says{Least: 4}},
		"a smaller size": {"it starts so", with(gangOf(set("a", 4)), given(3)), says{Least: 3}},
		"made smaller": {
			"the others never come", with(gangOf(set("a", 4)), noted(kueue.FewerPodsAnnotation, "a=2"), given(4)), says{Least: 2},
		},
		"pods that come later": {
			"nobody waits for them", with(gangOf(set("a", 1), set("b", 3)), noted(kueue.LaterPodSetsAnnotation, "b")), says{Least: 1},
		},
		"a rack for one set":    {"all pods are in it", gangOf(set("a", 2, inOne(rack, ""))), says{Least: 2, Level: rack}},
		"a rack for two sets":   {"so here", gangOf(set("a", 1, inOne(rack, "x")), set("b", 1, inOne(rack, "x"))), says{Least: 2, Level: rack}},
		"a rack for each set":   {"one for all is more than is asked", gangOf(set("a", 1, inOne(rack, "")), set("b", 1, inOne(rack, ""))), says{Least: 2}},
		"a rack for one of two": {"the other may be anywhere", gangOf(set("a", 1, inOne(rack, "x")), set("b", 1)), says{Least: 2}},
		"racks in a block": {
			"all are in the block",
			gangOf(set("a", 1, inOne(rack, ""), inGroups(block+"=all")), set("b", 1, inOne(rack, ""), inGroups(block+"=all"))),
			says{Least: 2, Level: block},
		},
		"two blocks": {
			"there is none for all", gangOf(set("a", 1, inGroups(block+"=x")), set("b", 1, inGroups(block+"=y"))), says{Least: 2},
		},
		"a class":     {"it is that of the pods", gangOf(set("a", 2, ofClass("high"))), says{Least: 2, Class: "high"}},
		"two classes": {"a PodGroup has one", gangOf(set("a", 1, ofClass("high")), set("b", 1, ofClass("low"))), says{Least: 2}},
		"another scheduler": {
			"it would wait for pods that come later, and for its own choice of a rack",
			gangOf(set("a", 2, inOne(rack, ""), boundBy("other"))),
			says{},
		},
	} {
		schedulers := own()
		schedulers.Given = ""
		if name != "another scheduler" {
			schedulers = own()
		}
		g := groupOf(tc.of, schedulers)
		got := says{Level: levelOf(g), Class: g.Spec.PriorityClassName}
		if g.Spec.SchedulingPolicy.Gang != nil {
			got.Least = g.Spec.SchedulingPolicy.Gang.MinCount
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (%s) (-want +got):\n%s", name, tc.why, diff)
		}
		if g.Spec.DisruptionMode.All == nil || !metav1.IsControlledBy(g, tc.of) || g.Name != tc.of.Name {
			t.Errorf("%s: it is %+v", name, g)
		}
	}
}

// What is done about the PodGroup of a Workload.
func TestNext(t *testing.T) {
	plain := func() *kueue.Workload { return gangOf(set("a", 2, inOne(rack, ""))) }
	is := func(w *kueue.Workload, change ...func(*schedulingv1beta1.PodGroup)) *schedulingv1beta1.PodGroup {
		g := groupOf(w, own())
		for _, c := range change {
			c(g)
		}
		return g
	}
	scheduled := func(g *schedulingv1beta1.PodGroup) {
		g.Status.Conditions = []metav1.Condition{
			{Type: schedulingv1beta1.PodGroupInitiallyScheduled, Status: metav1.ConditionTrue},
		}
	}
	elsewhere := func(g *schedulingv1beta1.PodGroup) { g.Spec.SchedulingConstraints.Topology[0].Key = block }
	group := with(gangOf(set("a", 2)), func(w *kueue.Workload) {
		w.OwnerReferences, w.Annotations = nil, map[string]string{kueue.IsGroupWorkloadAnnotation: "true"}
	})
	const create, remove, least, nothing = "create", "remove", "least", ""
	for name, tc := range map[string]struct {
		why  string
		s    written
		want string
	}{
		"a job":          {"others find its pods by it", written{workload: plain()}, create},
		"one pod":        {"that is no gang", written{workload: gangOf(set("a", 1))}, nothing},
		"nobody's":       {"there is no job", written{workload: with(plain(), func(w *kueue.Workload) { w.OwnerReferences = nil })}, nothing},
		"a group":        {"its pods name it", written{workload: group}, create},
		"it has another": {"a pod is in one", written{workload: plain(), other: true}, nothing},
		"it got another": {"pods name that", written{workload: plain(), group: is(plain()), other: true}, remove},
		"it got another, and pods name ours": {
			"it would not go", written{workload: plain(), group: is(plain()), other: true, used: true}, nothing,
		},
		"it runs without":  {"it would say that it waits", written{workload: plain(), unnamed: true}, nothing},
		"it started early": {"the same", written{workload: plain(), group: is(plain()), unnamed: true}, remove},
		"as it is":         {"it says the same", written{workload: plain(), group: is(plain())}, nothing},
		"another size":     {"that can be changed", written{workload: gangOf(set("a", 3, inOne(rack, ""))), group: is(plain())}, least},
		"another domain":   {"that cannot", written{workload: plain(), group: is(plain(), elsewhere)}, remove},
		"no topologies":    {"the API server drops them", written{workload: plain(), group: is(gangOf(set("a", 2)))}, nothing},
		"it waits anew":    {"else it says that it does not", written{workload: plain(), group: is(plain(), scheduled)}, remove},
		"its pods end":     {"they are waited for", written{workload: plain(), group: is(plain(), scheduled), used: true}, nothing},
		"it is admitted":   {"its pods are about to name it", written{workload: with(plain(), given(2)), group: is(plain(), elsewhere)}, nothing},
		"a user's":         {"it is not taken over", written{workload: gangOf(set("a", 3)), group: is(plain(), func(g *schedulingv1beta1.PodGroup) { g.OwnerReferences = nil })}, nothing},
		"an earlier one":   {"it goes with its Workload", written{workload: gangOf(set("a", 3)), group: is(with(plain(), func(w *kueue.Workload) { w.UID = "earlier" }))}, nothing},
		"it is finished":   {"nothing comes of it", written{workload: with(plain(), finished)}, nothing},
		"it goes already":  {"it is made anew then", written{workload: plain(), group: is(plain(), elsewhere, func(g *schedulingv1beta1.PodGroup) { g.DeletionTimestamp = new(metav1.NewTime(now)) })}, nothing},
	} {
		todo, got := next(tc.s, own()), nothing
		switch {
		case todo.create != nil:
			got = create
		case todo.remove:
			got = remove
		case todo.least > 0:
			got = least
		}
		if got != tc.want {
			t.Errorf("%s (%s): %q, want %q", name, tc.why, got, tc.want)
		}
	}
	others := own()
	others.Ours = nil
	if got := next(written{workload: group}, others); got.create != nil {
		t.Error("pods of a group that another scheduler binds name no PodGroup, and there is one")
	}
}

func finished(w *kueue.Workload) {
	w.Status.Conditions = []metav1.Condition{{Type: kueue.WorkloadFinished, Status: metav1.ConditionTrue}}
}

// writing is the reconciler where PodGroups are written.
func writing(objects ...client.Object) *reconciler {
	r := over(objects...)
	r.Labels, r.Schedulers, r.Recorder = admission.Labels{PodGroups: true}, own(), events.NewFakeRecorder(9)
	return r
}

func (r *reconciler) again(t *testing.T) reconcile.Result {
	t.Helper()
	out, err := r.Reconcile(
		t.Context(),
		reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "blue", Name: "g"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The PodGroup of a job is there as soon as its Workload is, says why the job waits, and when its pods have their nodes:
// its pods, and not those of a user who names it.
func TestPodGroupsOfJobsSayHowTheyStand(t *testing.T) {
	w := with(gangOf(set("a", 2)), func(w *kueue.Workload) { w.Status = waiting().Status })
	r := writing(w)
	r.again(t)
	if status, why := r.said(t); status != "False" || why != "no rack has room" {
		t.Errorf("it says %s, %s", status, why)
	}
	if got := r.ofWorkload(t.Context(), w); len(got) == 0 || got[len(got)-1] != request("blue", "g") {
		t.Errorf("its Workload leads to %v", got)
	}
	counts := func(p *corev1.Pod) {
		p.Labels, p.Annotations = nil, map[string]string{kueue.WorkloadAnnotation: "g"}
	}
	stranger := func(p *corev1.Pod) { p.Labels[kueue.PodGroupNameLabel] = "another" }
	for _, p := range []*corev1.Pod{queued("x", stranger, onNode), queued("a", counts, onNode), queued("b", counts)} {
		if err := r.Client.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if status, _ := r.said(t); status != "False" {
		t.Errorf("one of two pods has a node, and it says %s", status)
	}
	if err := r.Client.Create(t.Context(), queued("c", counts, onNode)); err != nil {
		t.Fatal(err)
	}
	if status, _ := r.said(t); status != "True" {
		t.Errorf("two pods have nodes, and it says %s", status)
	}
}

// A job whose pods ran before PodGroups were written gets none, which would say for ever that they wait.
func TestJobsThatRanBeforeHaveNoPodGroup(t *testing.T) {
	early := queued("a", onNode, func(p *corev1.Pod) {
		p.Labels, p.Annotations = nil, map[string]string{kueue.WorkloadAnnotation: "g"}
		p.Spec.SchedulingGroup = nil
	})
	r := writing(with(gangOf(set("a", 2)), given(2)), early)
	r.again(t)
	err := r.Client.Get(
		t.Context(),
		types.NamespacedName{Namespace: "blue", Name: "g"},
		&schedulingv1beta1.PodGroup{},
	)
	if !apierrors.IsNotFound(err) {
		t.Errorf("it has one: %v", err)
	}
}

// A PodGroup that the API server refuses is told of, and tried again later.
func TestRefusedPodGroupsAreToldOf(t *testing.T) {
	r := writing(gangOf(set("a", 2)))
	full := apierrors.NewForbidden(schema.GroupResource{Resource: "podgroups"}, "g", nil)
	withWatch, is := r.Client.(client.WithWatch)
	if !is {
		t.Fatal("the client is no fake one")
	}
	r.Client = interceptor.NewClient(withWatch, interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return full },
	})
	if out := r.again(t); out.RequeueAfter != refusedPause {
		t.Errorf("it is tried again after %s", out.RequeueAfter)
	}
	recorder, is := r.Recorder.(*events.FakeRecorder)
	if !is || len(recorder.Events) != 1 {
		t.Error("nobody is told")
	}
}
