package job

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
	"github.com/mlbatch/mlbatch/test/toy"
)

// A new kind is queued, started and ended by the reconciler of all kinds.
func TestNewKindIsRun(t *testing.T) {
	all := append(kinds.All(), toy.Kind())
	x := &toy.Toy{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "blue",
			Name:      "x",
			UID:       "x",
			Labels:    map[string]string{kueue.QueueNameLabel: "q"},
		},
		Spec: toy.Spec{
			Hold:     true,
			Pods:     2,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}},
		},
	}
	team := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}},
	}
	c := fake.NewClientBuilder().
		WithScheme(scheme.For(all)).
		WithObjects(x, team).
		WithStatusSubresource(&kueue.Workload{}).
		WithIndex(&corev1.Pod{}, admission.PodIndex, admission.IndexPod).
		WithIndex(&kueue.Workload{}, admission.JobIndex, admission.IndexWorkload).
		Build()
	ended := 0
	r := &reconciler{kind: &jobs.Kind{}, adapter: toy.Kind(), opts: Options{
		Client:   c,
		Live:     c,
		Recorder: events.NewFakeRecorder(100),
		Clock:    clocktesting.NewFakePassiveClock(now),
		Parents:  all.Parents(),
		Managed:  func(string, string) bool { return true },
		Ended:    func(*kueue.Workload) { ended++ },
		Told:     func(*kueue.Workload, workloadlifecycle.Event) {},
		Scope:    jobs.Scope{},
	}}
	name := types.NamespacedName{Namespace: "blue", Name: "x"}
	look := func() *kueue.Workload {
		for range 5 {
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: name}); err != nil {
				t.Fatal(err)
			}
		}
		var ws kueue.WorkloadList
		if err := c.List(t.Context(), &ws); err != nil || len(ws.Items) != 1 {
			t.Fatalf("%d workloads: %v", len(ws.Items), err)
		}
		if err := c.Get(t.Context(), name, x); err != nil {
			t.Fatal(err)
		}
		return &ws.Items[0]
	}
	w := look()
	if w.Spec.PodSets[0].Count != 2 || !x.Spec.Hold {
		t.Fatalf("it waits as %+v, held: %v", w.Spec, x.Spec.Hold)
	}
	w.Status.Admission = &kueue.Admission{
		ClusterQueue:      "cq",
		PodSetAssignments: []kueue.PodSetAssignment{{Name: "main", Count: new(int32(2))}},
	}
	for _, kind := range []string{kueue.WorkloadQuotaReserved, kueue.WorkloadAdmitted} {
		apimeta.SetStatusCondition(
			&w.Status.Conditions,
			metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind},
		)
	}
	if err := c.Status().Update(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if w = look(); x.Spec.Hold || x.Spec.Template.Annotations[kueue.WorkloadAnnotation] != w.Name {
		t.Fatalf("it was admitted and is %+v", x.Spec)
	}
	x.Status.Done = true
	if err := c.Update(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	if w = look(); !apimeta.IsStatusConditionTrue(w.Status.Conditions, kueue.WorkloadFinished) || ended != 1 {
		t.Errorf("it is done, and its Workload is %+v", w.Status.Conditions)
	}
}

// ordered has pods that come after others, as long as it is so.
type ordered struct {
	jobs.Adapter
	later []string
}

func (o *ordered) Read(x jobs.Object) (jobs.Facts, error) {
	f, err := o.Adapter.Read(x)
	f.Later = o.later
	return f, err
}

// What comes later is noted, and the note follows the job while it waits.
func TestLaterPodsAreNoted(t *testing.T) {
	x := &toy.Toy{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "blue",
			Name:      "x",
			UID:       "x",
			Labels:    map[string]string{kueue.QueueNameLabel: "q"},
		},
		Spec: toy.Spec{
			Hold:     true,
			Pods:     2,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}},
		},
	}
	team := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}},
	}
	all := append(kinds.All(), toy.Kind())
	c := fake.NewClientBuilder().
		WithScheme(scheme.For(all)).
		WithObjects(x, team).
		WithStatusSubresource(&kueue.Workload{}).
		WithIndex(&corev1.Pod{}, admission.PodIndex, admission.IndexPod).
		WithIndex(&kueue.Workload{}, admission.JobIndex, admission.IndexWorkload).
		Build()
	adapter := &ordered{toy.Kind(), []string{"main"}}
	r := &reconciler{kind: &jobs.Kind{}, adapter: adapter, opts: Options{
		Client:   c,
		Live:     c,
		Recorder: events.NewFakeRecorder(100),
		Clock:    clocktesting.NewFakePassiveClock(now),
		Parents:  all.Parents(),
		Managed:  func(string, string) bool { return true },
		Ended:    func(*kueue.Workload) {},
		Told:     func(*kueue.Workload, workloadlifecycle.Event) {},
		Scope:    jobs.Scope{},
	}}
	for _, want := range []string{"main", "", "main"} {
		adapter.later = nil
		if want != "" {
			adapter.later = []string{want}
		}
		for range 5 {
			if _, err := r.Reconcile(
				t.Context(),
				reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "blue", Name: "x"}},
			); err != nil {
				t.Fatal(err)
			}
		}
		var ws kueue.WorkloadList
		if err := c.List(t.Context(), &ws); err != nil || len(ws.Items) != 1 {
			t.Fatalf("%d workloads: %v", len(ws.Items), err)
		}
		if got := ws.Items[0].Annotations[kueue.LaterPodSetsAnnotation]; got != want {
			t.Errorf("it notes %q, want %q", got, want)
		}
	}
}

// incomplete is a kind of which nothing is known yet.
type incomplete struct{ jobs.Adapter }

func (incomplete) Read(jobs.Object) (jobs.Facts, error) {
	return jobs.Facts{}, fmt.Errorf("toy: %w", jobs.ErrIncomplete)
}

// A job of which it is not known yet what it consists of is not queued, and that is no mistake of
// its author's.
func TestIncompleteJobWaits(t *testing.T) {
	x := &toy.Toy{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "blue",
			Name:      "x",
			UID:       "x",
			Labels:    map[string]string{kueue.QueueNameLabel: "q"},
		},
		Spec: toy.Spec{Hold: true},
	}
	team := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}},
	}
	c := fake.NewClientBuilder().WithScheme(scheme.For(append(kinds.All(), toy.Kind()))).WithObjects(x, team).
		WithIndex(&kueue.Workload{}, admission.JobIndex, admission.IndexWorkload).Build()
	told := events.NewFakeRecorder(10)
	r := &reconciler{kind: &jobs.Kind{}, adapter: incomplete{toy.Kind().Adapter}, opts: Options{
		Client:   c,
		Live:     c,
		Recorder: told,
		Clock:    clocktesting.NewFakePassiveClock(now),
		Managed:  func(string, string) bool { return true },
	}}
	if _, err := r.Reconcile(
		t.Context(),
		reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "blue", Name: "x"}},
	); err != nil {
		t.Fatal(err)
	}
	var ws kueue.WorkloadList
	if err := c.List(t.Context(), &ws); err != nil || len(ws.Items) > 0 || len(told.Events) > 0 {
		t.Errorf("%d Workloads, %d events, %v", len(ws.Items), len(told.Events), err)
	}
}

// unreadable cannot be understood, as a job that was written before a rule was.
type unreadable struct {
	jobs.Adapter
	wrong bool
}

func (u *unreadable) Read(x jobs.Object) (jobs.Facts, error) {
	if u.wrong {
		return jobs.Facts{}, errors.New("nobody understands it")
	}
	return u.Adapter.Read(x)
}

// A job that runs and cannot be understood any more goes on until it has to be stopped, and then
// it is: its quota is not its own for ever.
func TestUnreadableJobIsStopped(t *testing.T) {
	x := &toy.Toy{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "blue",
			Name:      "x",
			UID:       "x",
			Labels:    map[string]string{kueue.QueueNameLabel: "q"},
		},
		Spec: toy.Spec{
			Hold:     true,
			Pods:     2,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}},
		},
	}
	team := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{kueue.TeamNamespaceLabel: "true"}},
	}
	all := append(kinds.All(), toy.Kind())
	c := fake.NewClientBuilder().
		WithScheme(scheme.For(all)).
		WithObjects(x, team).
		WithStatusSubresource(&kueue.Workload{}).
		WithIndex(&corev1.Pod{}, admission.PodIndex, admission.IndexPod).
		WithIndex(&kueue.Workload{}, admission.JobIndex, admission.IndexWorkload).
		Build()
	adapter := &unreadable{Adapter: toy.Kind()}
	r := &reconciler{kind: &jobs.Kind{}, adapter: adapter, opts: Options{
		Client:   c,
		Live:     c,
		Recorder: events.NewFakeRecorder(100),
		Clock:    clocktesting.NewFakePassiveClock(now),
		Parents:  all.Parents(),
		Managed:  func(string, string) bool { return true },
		Ended:    func(*kueue.Workload) {},
		Told:     func(*kueue.Workload, workloadlifecycle.Event) {},
		Scope:    jobs.Scope{},
	}}
	look := func() *kueue.Workload {
		t.Helper()
		for range 5 {
			if _, err := r.Reconcile(
				t.Context(),
				reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "blue", Name: "x"}},
			); err != nil {
				t.Fatal(err)
			}
		}
		var ws kueue.WorkloadList
		if err := c.List(t.Context(), &ws); err != nil || len(ws.Items) != 1 {
			t.Fatalf("%d workloads: %v", len(ws.Items), err)
		}
		if err := c.Get(t.Context(), types.NamespacedName{Namespace: "blue", Name: "x"}, x); err != nil {
			t.Fatal(err)
		}
		return &ws.Items[0]
	}
	says := func(w *kueue.Workload, condition string) {
		t.Helper()
		apimeta.SetStatusCondition(
			&w.Status.Conditions,
			metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: condition},
		)
		if err := c.Status().Update(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	w := look()
	w.Status.Admission = &kueue.Admission{
		ClusterQueue:      "cq",
		PodSetAssignments: []kueue.PodSetAssignment{{Name: "main", Count: new(int32(2))}},
	}
	says(w, kueue.WorkloadQuotaReserved)
	says(w, kueue.WorkloadAdmitted)
	look()
	adapter.wrong = true
	if w = look(); x.Spec.Hold {
		t.Error("it was admitted, and is stopped because nobody understands it")
	}
	says(w, kueue.WorkloadEvicted)
	if w = look(); !x.Spec.Hold {
		t.Error("it was evicted, and goes on")
	}
	if w.Status.Admission != nil {
		t.Error("it has stopped, and keeps its quota")
	}
	x.Spec.Hold = false
	if err := c.Update(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	if look(); !x.Spec.Hold {
		t.Error("its user set it free, and it goes on")
	}
}
