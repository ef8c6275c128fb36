// Package workload keeps Workloads in order where no job of theirs does: it
// lets deleted ones go when their pods are gone, evicts deactivated ones and
// brings them back, gives back the quota of evicted ones that no job owns, and
// follows changes of priority classes.
package workload

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/apply"
	"github.com/mlbatch/mlbatch/internal/kube/controllers/job"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// Options are what the reconciler works with.
type Options struct {
	Client   client.Client
	Clock    clock.PassiveClock
	Recorder events.EventRecorder
}

type reconciler struct{ Options }

// SetupWithManager starts the reconciler. The cache must have job.PodIndex.
func SetupWithManager(mgr ctrl.Manager, opts Options) error {
	r := &reconciler{opts}
	return ctrl.NewControllerManagedBy(mgr).
		Named("workload").
		For(&kueue.Workload{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(workloadOfPod), job.PodsEnding()).
		Watches(&kueue.WorkloadPriorityClass{}, handler.EnqueueRequestsFromMapFunc(r.ofClass)).
		Complete(r)
}

// situation is everything that the next step of one Workload depends on.
type situation struct {
	workload *kueue.Workload
	// orphan is true if the job it was made for is gone, owned if there is one.
	orphan, owned bool
	// class is the value of the WorkloadPriorityClass it refers to, if any.
	class    *int32
	livePods int
	now      time.Time
}

// step is the one write that comes next; the zero value is none.
type step struct {
	unpin    bool
	priority *int32
	status   *kueue.WorkloadStatus
	reason   string // of the event told with it
}

// decide returns the next step of one Workload. The first case that matches
// wins.
func decide(s situation) step {
	w := s.workload
	active := ptr.Deref(w.Spec.Active, true)
	evicted := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadEvicted)
	requeued := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadRequeued)
	switch {
	case w.DeletionTimestamp != nil:
		// While its job exists, the job's reconciler knows when all has stopped.
		return step{unpin: (!s.owned || convert.Finished(w)) && s.livePods == 0}
	case convert.Finished(w):
		return step{}
	case s.orphan && s.livePods == 0:
		return step{status: apply.Ended(w, kueue.ReasonOwnerNotFound, "The job that this workload was made for is gone", s.now)}
	case s.class != nil && *s.class != ptr.Deref(w.Spec.Priority, 0):
		return step{priority: s.class}
	case !active && w.Status.Admission != nil && !convert.Evicted(w):
		next := w.Status.DeepCopy()
		next.RequeueState = nil
		apply.NewConditions(w, next, s.now).Set(kueue.WorkloadEvicted, metav1.ConditionTrue, kueue.ReasonDeactivated, "The workload is deactivated: spec.active is false")
		return step{status: next, reason: "EvictedDueToDeactivated"}
	case !s.owned && w.Status.Admission != nil && convert.Evicted(w) && s.livePods == 0:
		return step{status: apply.Released(w, s.now)}
	case active && requeued != nil && requeued.Status == metav1.ConditionFalse && evicted != nil && evicted.Reason == kueue.ReasonDeactivated && w.Status.Admission == nil:
		next := w.Status.DeepCopy()
		apply.NewConditions(w, next, s.now).Set(kueue.WorkloadRequeued, metav1.ConditionTrue, kueue.ReasonReactivated, "The workload was activated again")
		return step{status: next}
	}
	return step{}
}

// Reconcile does the next step for one Workload.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	s, ok, err := r.gather(ctx, req.NamespacedName)
	if err != nil || !ok {
		return reconcile.Result{}, err
	}
	next := decide(s)
	switch {
	case next.unpin:
		err = apply.Unpin(ctx, r.Client, s.workload)
	case next.priority != nil:
		w := s.workload.DeepCopy()
		w.Spec.Priority = next.priority
		err = r.Client.Update(ctx, w)
	case next.status != nil:
		err = apply.Status(ctx, r.Client, s.workload, *next.status)
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil // the newer object is on its way here
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("workload %s: %w", req.NamespacedName, err)
	}
	if next.reason != "" {
		r.Recorder.Eventf(s.workload, nil, corev1.EventTypeNormal, next.reason, next.reason, "The workload is deactivated")
	}
	return reconcile.Result{}, nil
}

func (r *reconciler) gather(ctx context.Context, name types.NamespacedName) (situation, bool, error) {
	s := situation{workload: &kueue.Workload{}, now: r.Clock.Now()}
	if err := r.Client.Get(ctx, name, s.workload); err != nil {
		return s, false, client.IgnoreNotFound(err)
	}
	w := s.workload
	owner := metav1.GetControllerOf(w)
	if owner != nil {
		// Deleting a job deletes its Workload through the garbage collector, so a
		// Workload that is being deleted may have lost its job.
		exists, err := r.exists(ctx, w, owner)
		if err != nil {
			return s, false, err
		}
		s.owned = exists
	}
	s.orphan = owner == nil && w.Labels[kueue.JobUIDLabel] != ""
	if ref := w.Spec.PriorityClassRef; ref != nil && ref.Kind == kueue.WorkloadPriorityClassKind {
		var c kueue.WorkloadPriorityClass
		err := r.Client.Get(ctx, types.NamespacedName{Name: ref.Name}, &c)
		if client.IgnoreNotFound(err) != nil {
			return s, false, fmt.Errorf("read WorkloadPriorityClass %s: %w", ref.Name, err)
		}
		if err == nil {
			s.class = &c.Value
		}
	}
	pods, err := job.PodsOf(ctx, r.Client, w.Namespace, w.Name)
	s.livePods = pods.Live
	return s, err == nil, err
}

// exists asks the cache for the object that owns a Workload, when it matters.
func (r *reconciler) exists(ctx context.Context, w *kueue.Workload, owner *metav1.OwnerReference) (bool, error) {
	if w.DeletionTimestamp == nil {
		return true, nil
	}
	made, err := r.Client.Scheme().New(schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind))
	o, known := made.(client.Object)
	if err != nil || !known {
		return false, nil //nolint:nilerr // a kind that is not handled here cannot keep it running
	}
	err = r.Client.Get(ctx, types.NamespacedName{Namespace: w.Namespace, Name: owner.Name}, o)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s %s that owns workload %s/%s: %w", owner.Kind, owner.Name, w.Namespace, w.Name, err)
	}
	return o.GetUID() == owner.UID && o.GetDeletionTimestamp() == nil, nil
}

func workloadOfPod(_ context.Context, o client.Object) []reconcile.Request {
	name := o.GetAnnotations()[kueue.WorkloadAnnotation]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
}

// ofClass leads from a priority class to the unfinished Workloads that use it.
func (r *reconciler) ofClass(ctx context.Context, o client.Object) []reconcile.Request {
	var all kueue.WorkloadList
	if err := r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range all.Items {
		w := &all.Items[i]
		if ref := w.Spec.PriorityClassRef; ref != nil && ref.Kind == kueue.WorkloadPriorityClassKind && ref.Name == o.GetName() && !convert.Finished(w) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w)})
		}
	}
	return out
}
