package workload

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
	batchjob "github.com/mlbatch/mlbatch/internal/kube/jobs/job"
	"github.com/mlbatch/mlbatch/internal/kube/scheme"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// bench is the reconciler over objects in memory.
type bench struct {
	*reconciler
	t     *testing.T
	clock *clocktesting.FakePassiveClock
}

func newBench(t *testing.T, objects ...client.Object) bench {
	t.Helper()
	c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(objects...).
		WithStatusSubresource(&kueue.Workload{}, &aw.AppWrapper{}).
		WithIndex(&corev1.Pod{}, admission.PodIndex, admission.IndexPod).
		WithIndex(&kueue.Workload{}, admission.JobIndex, admission.IndexWorkload).
		Build()
	clock := clocktesting.NewFakePassiveClock(now)
	return bench{&reconciler{Options: Options{
		Client:   c,
		Clock:    clock,
		Recorder: events.NewFakeRecorder(100),
		Told:     func(*kueue.Workload, workloadlifecycle.Event) {},
		Adapters: []jobs.Adapter{batchjob.Adapter{}, appwrapper.Adapter{}},
	}}, t, clock}
}

// look reconciles the Workload once and returns it, nil if it is gone, and when
// it is looked at again.
func (b bench) look() (*kueue.Workload, time.Duration) {
	b.t.Helper()
	key := client.ObjectKey{Namespace: "blue", Name: "w"}
	res, err := b.Reconcile(b.t.Context(), reconcile.Request{NamespacedName: key})
	if err != nil {
		b.t.Fatal(err)
	}
	var w kueue.Workload
	if err := b.Client.Get(b.t.Context(), key, &w); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, res.RequeueAfter
		}
		b.t.Fatal(err)
	}
	return &w, res.RequeueAfter
}

func (b bench) delete(o client.Object) {
	b.t.Helper()
	if err := b.Client.Delete(b.t.Context(), o); err != nil {
		b.t.Fatal(err)
	}
}

// of is the Workload of a job, with quota.
func of(kind, apiVersion, name string) *kueue.Workload {
	w := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{
		Namespace:  "blue",
		Name:       "w",
		Finalizers: []string{kueue.ResourceInUseFinalizer},
		Labels:     map[string]string{kueue.JobUIDLabel: "u1"},
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: apiVersion, Kind: kind, Name: name, UID: "u1", Controller: new(true)},
		},
	}}
	w.Spec.Active = new(true)
	w.Status.Admission = &kueue.Admission{ClusterQueue: "cq"}
	for _, c := range []string{kueue.WorkloadQuotaReserved, kueue.WorkloadAdmitted} {
		workloadlifecycle.NewConditions(w, &w.Status, now).Set(c, metav1.ConditionTrue, c, "")
	}
	return w
}

func pod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   "blue",
			Name:        "p",
			UID:         "p1",
			Annotations: map[string]string{kueue.WorkloadAnnotation: "w"},
		},
		Spec:   corev1.PodSpec{NodeName: "n"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

// The Workload of an AppWrapper that is deleted in the foreground is looked at
// after its last pod and before its AppWrapper has given back the quota. What
// the AppWrapper does then wakes it.
func TestForegroundDeletion(t *testing.T) {
	wrapper := &aw.AppWrapper{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:  "blue",
			Name:       "wrap",
			UID:        "u1",
			Finalizers: []string{aw.AppWrapperFinalizer},
		},
	}
	wrapper.Status.Phase = aw.AppWrapperRunning
	apimeta.SetStatusCondition(
		&wrapper.Status.Conditions,
		metav1.Condition{Type: aw.QuotaReserved, Status: metav1.ConditionTrue, Reason: "Running"},
	)
	b := newBench(t, wrapper, of(aw.AppWrapperKind, aw.GroupVersion.String(), "wrap"))
	w, _ := b.look()
	b.delete(w)
	if w, _ = b.look(); w == nil {
		t.Fatal("its AppWrapper does not know yet, and it is let go")
	}
	before := wrapper.DeepCopy()
	b.delete(wrapper)
	read := func() *aw.AppWrapper {
		o := &aw.AppWrapper{}
		if err := b.Client.Get(t.Context(), client.ObjectKeyFromObject(wrapper), o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	wakes := func(was, is client.Object) {
		t.Helper()
		if !leaving().Update(event.UpdateEvent{ObjectOld: was, ObjectNew: is}) ||
			len(b.ofJob(t.Context(), is)) != 1 {
			t.Fatal("a change of its AppWrapper does not lead to it")
		}
	}
	marked := read()
	wakes(before, marked)
	if w, _ = b.look(); w == nil {
		t.Fatal("its AppWrapper still has components that may make pods, and it is let go")
	}
	released := marked.DeepCopy()
	released.Status.Phase = aw.AppWrapperTerminating
	apimeta.SetStatusCondition(
		&released.Status.Conditions,
		metav1.Condition{Type: aw.QuotaReserved, Status: metav1.ConditionFalse, Reason: "Terminating"},
	)
	if err := b.Client.Status().Update(t.Context(), released); err != nil {
		t.Fatal(err)
	}
	wakes(marked, read())
	if w, _ = b.look(); w != nil {
		t.Error("nothing of its AppWrapper is left, and it stays for ever")
	}
	if leaving().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: before}) ||
		!leaving().Delete(event.DeleteEvent{Object: released}) {
		t.Error("what becomes of jobs that stay is nothing to Workloads, and that one is gone is")
	}
}

// A Job that a finalizer keeps, deleted while its pod runs: the pod may go on, is
// stopped if another needs the place, and the quota goes with it.
func TestDeletedJobIsEvicted(t *testing.T) {
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:  "blue",
			Name:       "train",
			UID:        "u1",
			Finalizers: []string{"example.com/hold"},
		},
	}
	b := newBench(t, j, of("Job", "batch/v1", "train"), pod())
	b.delete(j)
	// The fake client deletes now, and the clock of the reconciler says otherwise.
	var marked batchv1.Job
	if err := b.Client.Get(t.Context(), client.ObjectKeyFromObject(j), &marked); err != nil {
		t.Fatal(err)
	}
	b.clock.SetTime(marked.DeletionTimestamp.Add(time.Hour))
	w, again := b.look()
	if w.Status.Admission == nil || again != 0 {
		t.Fatalf("its pod runs: look again in %s, it has %v", again, w.Status.Admission)
	}
	next := w.Status.DeepCopy()
	workloadlifecycle.Evict(
		w,
		next,
		b.clock.Now(),
		workloadlifecycle.Eviction{Reason: kueue.ReasonPreempted, Message: "for another"},
	)
	w.Status = *next
	if err := b.Client.Status().Update(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if _, again = b.look(); again <= 0 {
		t.Fatal("no reconciler looks again at an evicted workload whose pod runs")
	}
	b.clock.SetTime(b.clock.Now().Add(again))
	b.look()
	if err := b.Client.Get(
		t.Context(),
		client.ObjectKey{Namespace: "blue", Name: "p"},
		&corev1.Pod{},
	); !apierrors.IsNotFound(
		err,
	) {
		t.Fatalf("its pod: %v, want it deleted", err)
	}
	if w, _ = b.look(); w.Status.Admission != nil {
		t.Error("its pod is gone, and it keeps the quota")
	}
}

// A Job that a finalizer keeps after its pods have ended keeps no quota.
func TestDeletedJobEnds(t *testing.T) {
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:  "blue",
			Name:       "train",
			UID:        "u1",
			Finalizers: []string{"example.com/hold"},
		},
	}
	b := newBench(t, j, of("Job", "batch/v1", "train"))
	b.delete(j)
	var marked batchv1.Job
	if err := b.Client.Get(t.Context(), client.ObjectKeyFromObject(j), &marked); err != nil {
		t.Fatal(err)
	}
	b.clock.SetTime(marked.DeletionTimestamp.Time)
	w, again := b.look()
	if w.Status.Admission == nil || again <= 0 {
		t.Fatalf("look again in %s", again)
	}
	b.clock.SetTime(b.clock.Now().Add(again))
	if w, _ = b.look(); !apimeta.IsStatusConditionTrue(w.Status.Conditions, kueue.WorkloadFinished) {
		t.Errorf("conditions %+v", w.Status.Conditions)
	}
}
