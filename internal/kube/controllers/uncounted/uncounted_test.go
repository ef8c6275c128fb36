package uncounted

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
)

// workload has quota, unless it is changed.
func workload(change func(*kueue.Workload)) *kueue.Workload {
	w := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: "w"}}
	w.Status.Admission = &kueue.Admission{ClusterQueue: "q"}
	if change != nil {
		change(w)
	}
	return w
}

// bound is a pod that names the Workload and runs.
func bound(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   "blue",
			Name:        "p",
			UID:         "p",
			Annotations: map[string]string{kueue.WorkloadAnnotation: "w"},
		},
		Spec:   corev1.PodSpec{NodeName: "node"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if change != nil {
		change(p)
	}
	return p
}

func condition(kind string) func(*kueue.Workload) {
	return func(w *kueue.Workload) {
		w.Status.Conditions = []metav1.Condition{
			{Type: kind, Status: metav1.ConditionTrue, LastTransitionTime: metav1.Now()},
		}
	}
}

func team(is string) *corev1.Namespace {
	return &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{kueue.TeamNamespaceLabel: is}},
	}
}

func TestPodsThatCountWithNoWorkloadAreStopped(t *testing.T) {
	for name, c := range map[string]struct {
		workload *kueue.Workload // nil for none
		pod      *corev1.Pod
		team     string
		says     string // of a pod that is stopped; "" lets it run
	}{
		"Counted":      {workload(nil), bound(nil), "true", ""},
		"Evicted":      {workload(condition(kueue.WorkloadEvicted)), bound(nil), "true", ""},
		"Gone":         {nil, bound(nil), "true", "Workload w, which it counts with, is gone"},
		"Ended":        {workload(condition(kueue.WorkloadFinished)), bound(nil), "true", "has ended"},
		"WithoutQuota": {workload(func(w *kueue.Workload) { w.Status.Admission = nil }), bound(nil), "true", "has no quota"},
		"OfNoTeam":     {nil, bound(nil), "false", ""},
		"WithoutNode":  {nil, bound(func(p *corev1.Pod) { p.Spec.NodeName = "" }), "true", ""},
		"Done":         {nil, bound(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), "true", ""},
		"NamesNone":    {nil, bound(func(p *corev1.Pod) { p.Annotations = nil }), "true", ""},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{team(c.team), c.pod}
			if c.workload != nil {
				objects = append(objects, c.workload)
			}
			cl := fake.NewClientBuilder().
				WithScheme(scheme.New()).
				WithObjects(objects...).
				WithIndex(&corev1.Pod{}, admission.PodIndex, admission.IndexPod).
				Build()
			clock, told := clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), events.NewFakeRecorder(1)
			r := newReconciler(
				Options{Client: cl, Live: cl, Clock: clock, Recorder: told, PodIndex: admission.PodIndex},
			)
			key := client.ObjectKey{Namespace: "blue", Name: "w"}
			look := func() time.Duration {
				t.Helper()
				out, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
				if err != nil {
					t.Fatal(err)
				}
				return out.RequeueAfter
			}
			left := func() bool { return cl.Get(t.Context(), client.ObjectKeyFromObject(c.pod), &corev1.Pod{}) == nil }
			if again := look(); again > 0 != (c.says != "") || !left() {
				t.Fatalf("looks again in %s, and it is left: %v: it has a while", again, left())
			}
			clock.SetTime(clock.Now().Add(patience))
			look()
			if left() != (c.says == "") {
				t.Errorf("it is left: %v", left())
			}
			if c.says == "" {
				return
			}
			if e := <-told.Events; !strings.Contains(e, Stopped) || !strings.Contains(e, c.says) {
				t.Errorf("it is told %q", e)
			}
		})
	}
}

// What the cache does not show yet stops nothing, and who has quota again has all the time anew.
func TestTheAPIServerIsAskedBeforeAPodIsStopped(t *testing.T) {
	build := func(objects ...client.Object) client.WithWatch {
		return fake.NewClientBuilder().
			WithScheme(scheme.New()).
			WithObjects(objects...).
			WithIndex(&corev1.Pod{}, admission.PodIndex, admission.IndexPod).
			Build()
	}
	cached, live := build(team("true"), bound(nil)), build(workload(nil))
	clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	r := newReconciler(
		Options{
			Client:   cached,
			Live:     live,
			Clock:    clock,
			Recorder: events.NewFakeRecorder(1),
			PodIndex: admission.PodIndex,
		},
	)
	for range 2 {
		if _, err := r.Reconcile(
			t.Context(),
			reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "blue", Name: "w"}},
		); err != nil {
			t.Fatal(err)
		}
		clock.SetTime(clock.Now().Add(patience))
	}
	if err := cached.Get(
		t.Context(),
		client.ObjectKey{Namespace: "blue", Name: "p"},
		&corev1.Pod{},
	); err != nil {
		t.Error(err)
	}
}

func TestWhoIsLookedAt(t *testing.T) {
	waits := bound(func(p *corev1.Pod) { p.Spec.NodeName = "" })
	if s := starts(); !s.Create(event.CreateEvent{Object: bound(nil)}) ||
		s.Create(event.CreateEvent{Object: waits}) ||
		!s.Update(event.UpdateEvent{ObjectOld: waits, ObjectNew: bound(nil)}) ||
		s.Update(event.UpdateEvent{ObjectOld: bound(nil), ObjectNew: bound(nil)}) {
		t.Error("pods are looked at when they get a node")
	}
	if e := ends(); e.Create(event.CreateEvent{Object: workload(nil)}) ||
		!e.Delete(event.DeleteEvent{Object: workload(nil)}) ||
		!e.Update(
			event.UpdateEvent{ObjectOld: workload(nil), ObjectNew: workload(condition(kueue.WorkloadFinished))},
		) {
		t.Error("Workloads are looked at when they count no pods any more")
	}
	cl := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(workload(nil)).Build()
	r := newReconciler(Options{Client: cl})
	if got := r.ofPod(t.Context(), bound(nil)); len(got) > 0 {
		t.Errorf("a pod that counts leads to %v", got)
	}
	other := bound(func(p *corev1.Pod) { p.Annotations[kueue.WorkloadAnnotation] = "gone" })
	if got := r.ofPod(t.Context(), other); len(got) != 1 || got[0].Name != "gone" {
		t.Errorf("a pod that counts with none leads to %v", got)
	}
}
