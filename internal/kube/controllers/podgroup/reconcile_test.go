package podgroup

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/composite"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/pod"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// bench is the reconciler over objects in memory.
type bench struct {
	*reconciler
	t    *testing.T
	told *events.FakeRecorder
	time *clocktesting.FakePassiveClock
}

func newBench(t *testing.T, objects ...client.Object) *bench {
	t.Helper()
	objects = append(
		objects,
		&corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}},
		},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "lab"}},
		&kueue.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: "gpus"}, Spec: kueue.ResourceFlavorSpec{
			NodeLabels: map[string]string{
				"pool": "gpus",
			},
			Tolerations: []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}},
		}},
	)
	c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(objects...).
		WithStatusSubresource(&kueue.Workload{}, &corev1.Pod{}, ofKAI(t, "", "{}")).
		WithIndex(&corev1.Pod{}, UnitIndex, IndexUnit).
		WithIndex(&corev1.Pod{}, admission.PodIndex, admission.IndexPod).
		WithIndex(&schedulingv1beta1.PodGroup{}, composite.ParentIndex, composite.IndexParent).
		WithIndex(&schedulingv1alpha3.CompositePodGroup{}, composite.ParentIndex, composite.IndexParent).
		WithRESTMapper(mapper()).
		Build()
	told, clock := events.NewFakeRecorder(1000), clocktesting.NewFakePassiveClock(now)
	return &bench{&reconciler{Options: Options{
		Client: c, Live: c, Recorder: told, Clock: clock,
		Ended: func(*kueue.Workload) {}, Told: func(*kueue.Workload, workloadlifecycle.Event) {},
	}}, t, told, clock}
}

func managed(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "blue", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(now),
			Labels:      map[string]string{kueue.ManagedLabel: "true", kueue.QueueNameLabel: "q"},
			Annotations: map[string]string{kueue.RoleHashAnnotation: "role"},
			Finalizers:  []string{kueue.PodFinalizer},
		},
		Spec: corev1.PodSpec{
			SchedulingGates: []corev1.PodSchedulingGate{{Name: kueue.AdmissionGate}},
			Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
			}}},
		},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func inGroup(total string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels[kueue.PodGroupNameLabel], p.Annotations[kueue.PodGroupTotalCountAnnotation] = "g", total
	}
}

func group(total int, names ...string) []client.Object {
	out := make([]client.Object, len(names))
	for i, n := range names {
		out[i] = managed(n, inGroup(fmt.Sprint(total)))
	}
	return out
}

// settle reconciles a unit until nothing is written any more.
func (b *bench) settle(unit string) {
	b.t.Helper()
	last := ""
	for range 30 {
		if _, err := b.Reconcile(
			b.t.Context(),
			reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "blue", Name: unit}},
		); err != nil {
			b.t.Fatal(err)
		}
		b.record()
		is := b.versions()
		if is == last {
			return
		}
		last = is
	}
	b.t.Fatal("it never comes to rest")
}

// record does what package history does with Workloads that are being deleted.
func (b *bench) record() {
	b.t.Helper()
	var ws kueue.WorkloadList
	if err := b.Client.List(b.t.Context(), &ws); err != nil {
		b.t.Fatal(err)
	}
	for i := range ws.Items {
		w := &ws.Items[i]
		if is := w.DeepCopy(); w.DeletionTimestamp != nil && controllerutil.RemoveFinalizer(is, history.Finalizer) {
			if err := b.Client.Patch(b.t.Context(), is, client.MergeFrom(w)); err != nil {
				b.t.Fatal(err)
			}
		}
	}
}

func (b *bench) versions() string {
	out := ""
	for _, p := range b.pods() {
		out += p.Name + p.ResourceVersion + " "
	}
	var ws kueue.WorkloadList
	if err := b.Client.List(b.t.Context(), &ws); err != nil {
		b.t.Fatal(err)
	}
	for _, w := range ws.Items {
		out += w.Name + w.ResourceVersion + " "
	}
	return out
}

func (b *bench) pods() []corev1.Pod {
	b.t.Helper()
	var all corev1.PodList
	if err := b.Client.List(b.t.Context(), &all); err != nil {
		b.t.Fatal(err)
	}
	return all.Items
}

// picture says of each pod what it is like: held, may start, runs, leaving; with a
// plus if the finalizer is on it.
func (b *bench) picture() string {
	var out []string
	for _, p := range b.pods() {
		state := "started"
		switch {
		case p.Status.Phase != "" && p.Status.Phase != corev1.PodPending:
			state = strings.ToLower(string(p.Status.Phase))
		case podmeta.Gated(&p):
			state = "held"
		}
		if p.DeletionTimestamp != nil {
			state += "-leaving"
		}
		if podmeta.Kept(&p) {
			state += "+"
		}
		out = append(out, p.Name+" "+state)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func (b *bench) workload(name string) *kueue.Workload {
	b.t.Helper()
	var w kueue.Workload
	if err := b.Client.Get(b.t.Context(), types.NamespacedName{Namespace: "blue", Name: name}, &w); err != nil {
		return nil
	}
	return &w
}

// change writes the status of an object anew.
func change[T client.Object](b *bench, o T, name string, edit func(T)) {
	b.t.Helper()
	if err := b.Client.Get(b.t.Context(), types.NamespacedName{Namespace: "blue", Name: name}, o); err != nil {
		b.t.Fatal(err)
	}
	edit(o)
	if err := b.Client.Status().Update(b.t.Context(), o); err != nil {
		b.t.Fatal(err)
	}
}

// admit gives a Workload all that it asks for.
func (b *bench) admit(name string) {
	b.t.Helper()
	change(b, &kueue.Workload{}, name, func(w *kueue.Workload) {
		w.Status.Admission = &kueue.Admission{ClusterQueue: "cq"}
		for _, ps := range w.Spec.PodSets {
			w.Status.Admission.PodSetAssignments = append(w.Status.Admission.PodSetAssignments, kueue.PodSetAssignment{
				Name:    ps.Name,
				Count:   new(ps.Count),
				Flavors: map[corev1.ResourceName]kueue.ResourceFlavorReference{"cpu": "gpus"},
			})
		}
		for _, c := range []string{kueue.WorkloadQuotaReserved, kueue.WorkloadAdmitted} {
			apimeta.SetStatusCondition(
				&w.Status.Conditions,
				metav1.Condition{Type: c, Status: metav1.ConditionTrue, Reason: "Admitted"},
			)
		}
	})
}

func (b *bench) evict(name string) {
	b.t.Helper()
	change(b, &kueue.Workload{}, name, func(w *kueue.Workload) {
		apimeta.SetStatusCondition(
			&w.Status.Conditions,
			metav1.Condition{
				Type:    kueue.WorkloadEvicted,
				Status:  metav1.ConditionTrue,
				Reason:  "Preempted",
				Message: "for another",
			},
		)
	})
}

// phase is what a node says of a pod; it was bound before.
func (b *bench) phase(name string, phase corev1.PodPhase) {
	b.t.Helper()
	p := &corev1.Pod{}
	if err := b.Client.Get(b.t.Context(), types.NamespacedName{Namespace: "blue", Name: name}, p); err != nil {
		b.t.Fatal(err)
	}
	if p.Spec.NodeName == "" {
		p.Spec.NodeName = "n1"
		if err := b.Client.Update(b.t.Context(), p); err != nil {
			b.t.Fatal(err)
		}
	}
	change(b, &corev1.Pod{}, name, func(p *corev1.Pod) { p.Status.Phase = phase })
}

func (b *bench) remove(name string) {
	b.t.Helper()
	if err := b.Client.Delete(
		b.t.Context(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: name}},
	); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) expect(what, pods string) {
	b.t.Helper()
	if d := cmp.Diff(pods, b.picture()); d != "" {
		b.t.Fatalf("%s: pods (-want +got):\n%s", what, d)
	}
}

func (b *bench) reasons() []string {
	out := b.said()
	for i := range out {
		out[i] = strings.Fields(out[i])[1]
	}
	return out
}

// said are the events since it was last asked.
func (b *bench) said() []string {
	var out []string
	for {
		select {
		case e := <-b.told.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

// A group waits for its last pod, starts as a whole and ends with it.
func TestGroupFromFirstPodToLast(t *testing.T) {
	b := newBench(t, group(3, "a", "b")...)
	b.settle("g")
	b.expect("a pod is missing", "a held+, b held+")
	if b.workload("g") != nil {
		t.Fatal("a part of a group was queued")
	}
	if got := b.reasons(); !slices.Equal(got, []string{eventIncomplete}) {
		t.Errorf("it says %v", got)
	}
	if err := b.Client.Create(t.Context(), managed("c", inGroup("3"))); err != nil {
		t.Fatal(err)
	}
	b.settle("g")
	w := b.workload("g")
	if w == nil || len(w.Spec.PodSets) != 1 || w.Spec.PodSets[0].Count != 3 || w.Spec.QueueName != "q" ||
		w.Annotations[kueue.IsGroupWorkloadAnnotation] != "true" {
		t.Fatalf("its Workload is %+v", w)
	}
	b.expect("it is not admitted", "a held+, b held+, c held+")
	b.admit("g")
	b.settle("g")
	b.expect("it is admitted", "a started+, b started+, c started+")
	for _, p := range b.pods() {
		if p.Spec.NodeSelector["pool"] != "gpus" || len(p.Spec.Tolerations) != 1 ||
			p.Annotations[kueue.WorkloadAnnotation] != "g" ||
			p.Labels[kueue.PodSetLabel] != "role" {
			t.Errorf("pod %s lacks what the admission gives: %+v", p.Name, p)
		}
	}
	for _, name := range []string{"a", "b"} {
		b.phase(name, corev1.PodSucceeded)
		b.settle("g")
	}
	b.remove("a")
	b.settle("g")
	b.expect("two have succeeded, one of them was deleted", "a succeeded-leaving+, b succeeded+, c started+")
	if got := b.workload("g").Status.ReclaimablePods; len(got) != 1 || got[0].Count != 2 {
		t.Errorf("given back: %v", got)
	}
	b.phase("c", corev1.PodSucceeded)
	b.settle("g")
	if c := apimeta.FindStatusCondition(
		b.workload("g").Status.Conditions,
		kueue.WorkloadFinished,
	); c == nil ||
		c.Reason != kueue.ReasonSucceeded {
		t.Errorf("it ended as %+v", c)
	}
	b.expect("all succeeded", "b succeeded, c succeeded")
	b.remove("b")
	b.remove("c")
	b.settle("g")
	if b.workload("g") != nil {
		t.Error("the Workload outlives the last pod")
	}
}

// TestClassOfARunningGroup: a group whose pods are told another WorkloadPriorityClass has it at once,
// also while it runs, as jobs of all kinds do. None that began without one gets a first one then.
func TestClassOfARunningGroup(t *testing.T) {
	class := func(name string, value int32) client.Object {
		return &kueue.WorkloadPriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
	}
	for name, tc := range map[string]struct {
		from, to, want string
		value          int32
	}{
		"another": {"low", "high", "high", 9},
		"first":   {"", "high", "", 0},
		"unknown": {"low", "none", "low", 1},
	} {
		t.Run(name, func(t *testing.T) {
			objects := append(group(2, "a", "b"), class("low", 1), class("high", 9))
			for _, o := range objects[:2] {
				if tc.from != "" {
					o.GetLabels()[kueue.PriorityClassLabel] = tc.from
				}
			}
			b := newBench(t, objects...)
			b.settle("g")
			b.admit("g")
			b.settle("g")
			for _, p := range b.pods() {
				p.Labels[kueue.PriorityClassLabel] = tc.to
				if err := b.Client.Update(t.Context(), &p); err != nil {
					t.Fatal(err)
				}
				b.settle("g")
			}
			spec, is := b.workload("g").Spec, ""
			if spec.PriorityClassRef != nil {
				is = spec.PriorityClassRef.Name
			}
			if is != tc.want || *spec.Priority != tc.value {
				t.Errorf("its class is %q (%d), want %q (%d)", is, *spec.Priority, tc.want, tc.value)
			}
			b.expect("it goes on", "a started+, b started+")
		})
	}
}

// A pod that stands alone is a job of one.
func TestPodAlone(t *testing.T) {
	p := managed("solo")
	unit := admission.PodWorkloadName(p)
	b := newBench(t, p)
	b.settle(unit)
	w := b.workload(unit)
	if w == nil || w.Spec.PodSets[0].Name != "main" || !metav1.IsControlledBy(w, p) ||
		w.Annotations[kueue.EndsOnceAnnotation] != "true" {
		t.Fatalf("its Workload is %+v", w)
	}
	b.admit(unit)
	b.settle(unit)
	b.expect("it is admitted", "solo started+")
	b.phase("solo", corev1.PodFailed)
	b.settle(unit)
	b.expect("its end is written", "solo failed")
	if c := apimeta.FindStatusCondition(
		b.workload(unit).Status.Conditions,
		kueue.WorkloadFinished,
	); c == nil ||
		c.Reason != kueue.ReasonFailed {
		t.Errorf("it ended as %+v", c)
	}
}

// An evicted group is gone when its pods are, and nothing holds its quota before.
func TestEvictedGroupIsGone(t *testing.T) {
	b := newBench(t, group(2, "a", "b")...)
	b.settle("g")
	b.admit("g")
	b.settle("g")
	b.phase("a", corev1.PodRunning)
	b.phase("b", corev1.PodRunning)
	b.evict("g")
	b.settle("g")
	b.expect("they were told to stop", "a running-leaving+, b running-leaving+")
	for _, p := range b.pods() {
		if !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == pod.TerminationTarget && c.Message == "for another"
		}) {
			t.Errorf("pod %s does not say why it goes", p.Name)
		}
	}
	b.phase("a", corev1.PodFailed)
	b.settle("g")
	b.expect("one has ended", "b running-leaving+")
	if w := b.workload("g"); w == nil || w.Status.Admission == nil {
		t.Error("the quota was given back while a pod runs")
	}
	b.phase("b", corev1.PodFailed)
	b.settle("g")
	b.expect("all have ended", "")
	if b.workload("g") != nil {
		t.Error("the Workload is left")
	}
}

// An evicted group that asks for it runs on for a while, and goes when that is over.
func TestEvictedGroupSavesFirst(t *testing.T) {
	pods := group(2, "a", "b")
	for _, p := range pods {
		p.(*corev1.Pod).Annotations[kueue.StopNoticeAnnotation] = "8h"
	}
	b := newBench(t, pods...)
	b.Lifecycle.MaxStopNotice = time.Minute
	b.settle("g")
	if got := b.workload("g").Annotations[kueue.StopNoticeAnnotation]; got != "1m0s" {
		t.Fatalf("it gets %q, which is not what the installation allows", got)
	}
	b.admit("g")
	b.settle("g")
	b.phase("a", corev1.PodRunning)
	b.phase("b", corev1.PodRunning)
	change(b, &kueue.Workload{}, "g", func(w *kueue.Workload) {
		next := w.Status.DeepCopy()
		workloadlifecycle.Evict(
			w,
			next,
			now,
			workloadlifecycle.Eviction{Reason: "Preempted", Message: "for another"},
		)
		w.Status = *next
	})
	b.settle("g")
	b.expect("they save", "a running+, b running+")
	b.Clock.(*clocktesting.FakePassiveClock).SetTime(now.Add(time.Minute))
	b.settle("g")
	b.expect("they were told to stop", "a running-leaving+, b running-leaving+")
}

// Pods that failed may be replaced; those that are too many go.
func TestReplacementAndExcess(t *testing.T) {
	b := newBench(t, group(2, "a", "b")...)
	b.settle("g")
	b.admit("g")
	b.settle("g")
	b.phase("a", corev1.PodFailed)
	b.phase("b", corev1.PodRunning)
	b.settle("g")
	b.expect("another one may come", "a failed, b running+")
	if !apimeta.IsStatusConditionTrue(
		b.workload("g").Status.Conditions,
		kueue.WorkloadWaitingForReplacementPods,
	) {
		t.Error("nobody is told that it is awaited")
	}
	for _, name := range []string{"c", "d"} {
		if err := b.Client.Create(t.Context(), managed(name, inGroup("2"))); err != nil {
			t.Fatal(err)
		}
		b.settle("g")
	}
	b.expect("one replaced it, the other one is too many", "a failed, b running+, c started+")
	if apimeta.IsStatusConditionTrue(
		b.workload("g").Status.Conditions,
		kueue.WorkloadWaitingForReplacementPods,
	) {
		t.Error("a pod is awaited still")
	}
}

// Pods that are deleted as soon as they have succeeded have succeeded all the same.
func TestDeletedWhenDone(t *testing.T) {
	b := newBench(t, group(1, "a")...)
	b.settle("g")
	b.admit("g")
	b.settle("g")
	var ended []string
	b.Ended = func(w *kueue.Workload) {
		ended = append(ended, apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadFinished).Reason)
	}
	b.phase("a", corev1.PodSucceeded)
	b.remove("a")
	b.settle("g")
	b.expect("it is let go", "")
	if !slices.Equal(ended, []string{kueue.ReasonSucceeded}) {
		t.Errorf("it has ended as %v", ended)
	}
}

// What was started without a Workload is stopped, whoever took its gate.
func TestStartedWithoutAdmission(t *testing.T) {
	ungated := func(p *corev1.Pod) { p.Spec.SchedulingGates = nil }
	b := newBench(t, managed("a", inGroup("2"), ungated), managed("b", inGroup("2")))
	b.settle("g")
	b.expect("it may not run", "b held+")
}

// A group cannot take over a Workload by its name, nor is another job's touched.
func TestWorkloadOfAnother(t *testing.T) {
	theirs := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "g"}}
	b := newBench(t, append(group(1, "a"), theirs)...)
	b.settle("g")
	b.expect("it waits", "a held+")
	if got := b.reasons(); !slices.Contains(got, eventMismatch) {
		t.Errorf("it says %v", got)
	}
	b.remove("a")
	b.settle("g")
	b.expect("it may go", "")
	if b.workload("g") == nil {
		t.Error("the other one's Workload is gone")
	}
}

// A deleted Workload takes its running pods along; those that wait are queued anew.
func TestWorkloadDeleted(t *testing.T) {
	b := newBench(t, group(2, "a", "b")...)
	b.settle("g")
	first := b.workload("g")
	if err := b.Client.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	b.settle("g")
	b.expect("they waited", "a held+, b held+")
	if w := b.workload("g"); w == nil || w.DeletionTimestamp != nil {
		t.Fatal("they are not queued anew")
	}
	b.admit("g")
	b.settle("g")
	if err := b.Client.Delete(t.Context(), b.workload("g")); err != nil {
		t.Fatal(err)
	}
	b.settle("g")
	b.expect("they had started", "")
	if b.workload("g") != nil {
		t.Error("the Workload is left")
	}
}

// A StatefulSet's pods come one by one: the first brings the quota of all. What it
// makes beyond that is queued by itself, and what it makes no more gives quota back.
func TestStatefulSet(t *testing.T) {
	unit := podmeta.StatefulSetGroup("db")
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "db", UID: "s1"},
		Spec:       appsv1.StatefulSetSpec{Replicas: new(int32(2))},
	}
	of := func(p *corev1.Pod) {
		p.Labels[kueue.PodGroupNameLabel] = unit
		p.Annotations[kueue.PodGroupFastAdmissionAnnotation], p.Annotations[kueue.PodGroupServingAnnotation] = "true", "true"
		p.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "s1", Controller: new(true)},
		}
	}
	b := newBench(t, set, managed("db-0", of))
	b.settle(unit)
	if w := b.workload(
		unit,
	); w == nil || w.Spec.PodSets[0].Count != 2 ||
		w.Annotations[kueue.EndsOnceAnnotation] != "" {
		t.Fatalf("its Workload is %+v", w)
	}
	b.admit(unit)
	b.settle(unit)
	add := func(name string) {
		if err := b.Client.Create(t.Context(), managed(name, of)); err != nil {
			t.Fatal(err)
		}
		b.settle(unit)
	}
	add("db-1")
	b.expect("both have quota", "db-0 started+, db-1 started+")
	scale := func(n int32) {
		if err := b.Client.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
			t.Fatal(err)
		}
		set.Spec.Replicas = &n
		if err := b.Client.Update(t.Context(), set); err != nil {
			t.Fatal(err)
		}
	}
	scale(3)
	add("db-2")
	b.expect("the third has none", "db-0 started+, db-1 started+, db-2 held+")
	var third corev1.Pod
	if err := b.Client.Get(
		t.Context(),
		types.NamespacedName{Namespace: "blue", Name: "db-2"},
		&third,
	); err != nil {
		t.Fatal(err)
	}
	if podmeta.Group(&third) != "" {
		t.Error("the third is not queued by itself")
	}
	b.settle(admission.PodWorkloadName(&third))
	if b.workload(admission.PodWorkloadName(&third)) == nil {
		t.Error("the third has no Workload")
	}
	b.remove("db-2")
	b.settle(admission.PodWorkloadName(&third))
	scale(1)
	b.phase("db-1", corev1.PodRunning)
	b.remove("db-1")
	b.settle(unit)
	if got := b.workload(unit).Status.ReclaimablePods; len(got) > 0 {
		t.Errorf("given back while the pod runs: %v", got)
	}
	b.phase("db-1", corev1.PodFailed)
	b.settle(unit)
	if got := b.workload(unit).Status.ReclaimablePods; len(got) != 1 || got[0].Count != 1 {
		t.Errorf("given back: %v", got)
	}
	scale(0)
	b.remove("db-0")
	b.settle(unit)
	if b.workload(unit) != nil {
		t.Error("a StatefulSet without pods keeps its Workload")
	}
}

// isReady sets a pod's condition.
func (b *bench) isReady(name string) {
	b.t.Helper()
	change(b, &corev1.Pod{}, name, func(p *corev1.Pod) {
		p.Status.Conditions = append(
			p.Status.Conditions,
			corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue},
		)
	})
}

// readiness is what a Workload says of its pods.
func (b *bench) readiness(name string) string {
	b.t.Helper()
	c := apimeta.FindStatusCondition(b.workload(name).Status.Conditions, kueue.WorkloadPodsReady)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

// A group that was admitted with its first pod is not ready before all of them are: quota
// that is held for pods that never come falls under the limit for readiness, and when it
// is evicted nothing is left that holds any.
func TestGroupWhosePodsNeverCome(t *testing.T) {
	first := managed(
		"g-0",
		inGroup("3"),
		func(p *corev1.Pod) { p.Annotations[kueue.PodGroupFastAdmissionAnnotation] = "true" },
	)
	b := newBench(t, first)
	b.Lifecycle = workloadlifecycle.Config{PodsReady: &workloadlifecycle.PodsReady{Timeout: time.Minute}}
	b.settle("g")
	b.admit("g")
	b.settle("g")
	b.phase("g-0", corev1.PodRunning)
	b.isReady("g-0")
	b.settle("g")
	b.time.SetTime(now.Add(time.Second))
	b.settle("g")
	if got := b.readiness("g"); got != "False WaitForStart" {
		t.Fatalf("one of three pods is there, and it is %q", got)
	}
	b.evict("g")
	b.settle("g")
	b.phase("g-0", corev1.PodFailed) // on the signal
	b.settle("g")
	if w := b.workload("g"); w != nil && w.Status.Admission != nil {
		t.Error("it holds quota without a pod")
	}
}

// A StatefulSet makes its pods one after the other: each has its own time to become
// ready, and one that is not due is not awaited.
func TestStatefulSetInTurn(t *testing.T) {
	unit := podmeta.StatefulSetGroup("db")
	for policy, want := range map[appsv1.PodManagementPolicyType][2]string{
		appsv1.OrderedReadyPodManagement: {"True Started", "False WaitForRecovery"},
		appsv1.ParallelPodManagement:     {"False WaitForStart", "False WaitForStart"},
	} {
		set := &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "db", UID: "s1"},
			Spec:       appsv1.StatefulSetSpec{Replicas: new(int32(2)), PodManagementPolicy: policy},
		}
		of := func(p *corev1.Pod) {
			p.Labels[kueue.PodGroupNameLabel] = unit
			p.Annotations[kueue.PodGroupFastAdmissionAnnotation], p.Annotations[kueue.PodGroupServingAnnotation] = "true", "true"
			p.OwnerReferences = []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "s1", Controller: new(true)},
			}
		}
		b := newBench(t, set, managed("db-0", of))
		b.Lifecycle = workloadlifecycle.Config{PodsReady: &workloadlifecycle.PodsReady{Timeout: time.Minute}}
		b.settle(unit)
		b.admit(unit)
		b.settle(unit)
		if got := b.readiness(unit); got != "False WaitForStart" {
			t.Fatalf("%s: its first pod does not run yet, and it is %q", policy, got)
		}
		b.phase("db-0", corev1.PodRunning)
		b.isReady("db-0")
		b.settle(unit)
		if got := b.readiness(unit); got != "False WaitForStart" {
			t.Errorf("%s: its first pod has just become ready, and it is %q", policy, got)
		}
		b.time.SetTime(now.Add(time.Second))
		b.settle(unit)
		if got := b.readiness(unit); got != want[0] {
			t.Errorf("%s: the second is not made yet, and it is %q", policy, got)
		}
		if err := b.Client.Create(t.Context(), managed("db-1", of)); err != nil {
			t.Fatal(err)
		}
		b.settle(unit)
		if got := b.readiness(unit); got != want[1] {
			t.Errorf("%s: the second is not ready yet, and it is %q", policy, got)
		}
	}
}

// A StatefulSet that was evicted keeps its Workload, and what was decided about it, in
// the moment in which it has no pods.
func TestEvictedStatefulSetWaits(t *testing.T) {
	unit := podmeta.StatefulSetGroup("db")
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "db", UID: "s1"},
		Spec:       appsv1.StatefulSetSpec{Replicas: new(int32(1))},
	}
	of := func(p *corev1.Pod) {
		p.Labels[kueue.PodGroupNameLabel] = unit
		p.Annotations[kueue.PodGroupFastAdmissionAnnotation], p.Annotations[kueue.PodGroupServingAnnotation] = "true", "true"
		p.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "s1", Controller: new(true)},
		}
	}
	b := newBench(t, set, managed("db-0", of))
	b.settle(unit)
	first := b.workload(unit)
	b.admit(unit)
	b.settle(unit)
	b.phase("db-0", corev1.PodRunning)
	b.evict(unit)
	b.settle(unit)
	b.phase("db-0", corev1.PodSucceeded) // on the signal
	b.settle(unit)
	b.expect("it was stopped", "")
	w := b.workload(unit)
	if w == nil || w.UID != first.UID || w.Status.Admission != nil {
		t.Fatalf("its Workload is %+v", w)
	}
	if err := b.Client.Create(t.Context(), managed("db-0", of)); err != nil {
		t.Fatal(err)
	}
	b.settle(unit)
	b.expect("its new pod waits", "db-0 held+")
	if b.workload(unit) == nil {
		t.Fatal("it is not queued any more")
	}
	if err := b.Client.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	b.remove("db-0")
	b.settle(unit)
	if b.workload(unit) != nil {
		t.Error("the Workload outlives the StatefulSet")
	}
}

// What pods say of nodes that refuse them is noted on the Workload before they are stopped, whatever they are
// stopped for: their StatefulSet's next ones are planned elsewhere.
func TestRefusalsOutliveEvictedPods(t *testing.T) {
	unit := podmeta.StatefulSetGroup("db")
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "db", UID: "s1"},
		Spec:       appsv1.StatefulSetSpec{Replicas: new(int32(1))},
	}
	b := newBench(t, set, managed("db-0", func(p *corev1.Pod) {
		p.Labels[kueue.PodGroupNameLabel] = unit
		p.Annotations[kueue.PodGroupFastAdmissionAnnotation], p.Annotations[kueue.PodGroupServingAnnotation] = "true", "true"
		p.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "s1", Controller: new(true)},
		}
	}))
	b.settle(unit)
	b.admit(unit)
	b.settle(unit)
	b.evict(unit)
	text := convert.RefusalsText(
		[]convert.Refusal{
			{
				PodSet:      string(b.workload(unit).Spec.PodSets[0].Name),
				NodeRefusal: core.NodeRefusal{Node: "n1", Why: "no volume"},
			},
		},
	)
	change(b, &corev1.Pod{}, "db-0", func(p *corev1.Pod) {
		p.Status.Conditions = append(
			p.Status.Conditions,
			corev1.PodCondition{Type: kueue.PodNodesRefused, Status: corev1.ConditionTrue, Message: text},
		)
	})
	b.settle(unit)
	w := b.workload(unit)
	if got := convert.Refusals(w); len(got) != 1 || got[0].Node != "n1" {
		t.Errorf("refused by %v, want n1: %v", got, w.Status.Conditions)
	}
}

// Where pods are not queued any more, nothing of ours keeps them.
func TestNamespaceThatIsNotOurs(t *testing.T) {
	p := managed("a", func(p *corev1.Pod) {
		p.Namespace = "lab"
		delete(p.Labels, kueue.QueueNameLabel)
		p.Spec.SchedulingGates, p.Spec.NodeName, p.Status.Phase = nil, "n1", corev1.PodSucceeded
	})
	b := newBench(t, p)
	if _, err := b.Reconcile(
		t.Context(),
		reconcile.Request{
			NamespacedName: types.NamespacedName{Namespace: "lab", Name: admission.PodWorkloadName(p)},
		},
	); err != nil {
		t.Fatal(err)
	}
	b.expect("it is let go", "a succeeded")
}
