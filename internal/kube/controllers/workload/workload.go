// Package workload carries out the rules of package workloadlifecycle for Workloads: it
// gathers the facts of one, asks for the next step, and does it. The write comes
// back as a watch event and the next step follows; nothing is kept in memory, so
// that a restart at any point goes on where it was.
package workload

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/apply"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/fairqueue"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/workloadstatus"
	"github.com/mlbatch/mlbatch/internal/view"
)

// Options are what the reconciler works with.
type Options struct {
	Client   client.Client
	Clock    clock.PassiveClock
	Recorder events.EventRecorder
	// Config are the settings of the rules.
	Config workloadlifecycle.Config
	// Adapters are those of the kinds of jobs that are managed.
	Adapters []jobs.Adapter
	// Told is called for every change of state, once, after it was written; w is
	// as it was before.
	Told func(w *kueue.Workload, e workloadlifecycle.Event)
}

type reconciler struct {
	Options
	// began is since when it watches; nil is always.
	began func() time.Time
}

// SetupWithManager starts the reconciler. The cache must have admission.PodIndex and
// admission.JobIndex.
func SetupWithManager(mgr ctrl.Manager, opts Options) error {
	r := &reconciler{opts, sync.OnceValue(opts.Clock.Now)} // it reconciles once it leads
	b := ctrl.NewControllerManagedBy(mgr)
	for _, a := range opts.Adapters {
		b = b.Watches(a.New(), handler.EnqueueRequestsFromMapFunc(r.ofJob), jobsLeaving())
	}
	return b.
		Named("workload").
		For(&kueue.Workload{}).
		Watches(&kueue.Workload{}, handler.Funcs{UpdateFunc: r.tellAnswers}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(workloadOfPod), admission.PodsEnding()).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(workloadOfPod), tellings()).
		Watches(&kueue.WorkloadPriorityClass{}, handler.EnqueueRequestsFromMapFunc(r.ofClass)).
		Watches(&kueue.ClusterQueue{}, handler.EnqueueRequestsFromMapFunc(r.ofClusterQueue), rulesChanged()).
		Watches(&kueue.LocalQueue{}, handler.EnqueueRequestsFromMapFunc(r.ofLocalQueue), rulesChanged()).
		WithOptions(fairqueue.Options()).
		Complete(r)
}

// Reconcile does the next step for one Workload.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	f, pods, ok, err := r.gather(ctx, req.NamespacedName)
	if err != nil || !ok {
		return reconcile.Result{}, err
	}
	next := workloadlifecycle.Next(f)
	before := f.Workload.DeepCopy()
	err = r.do(ctx, f.Workload, pods, next)
	if workloadstatus.Overtaken(err) {
		return reconcile.Result{}, nil // the newer object is on its way here
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("workload %s: %w", req.NamespacedName, err)
	}
	for _, e := range next.Events {
		kind := corev1.EventTypeNormal
		if e.Warning {
			kind = corev1.EventTypeWarning
		}
		r.Recorder.Eventf(before, nil, kind, e.Reason, e.Reason, "%s", e.Message)
		r.Told(before, e)
	}
	if next.Again.IsZero() {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: max(next.Again.Sub(f.Now), time.Millisecond)}, nil
}

// onlyChanges writes what differs from w, and so leaves its pods as their author
// spelled them: those of a Workload with quota may not change.
func onlyChanges(w *kueue.Workload) client.Patch {
	return client.MergeFromWithOptions(w, client.MergeFromWithOptimisticLock{})
}

func (r *reconciler) do(
	ctx context.Context,
	w *kueue.Workload,
	pods []corev1.Pod,
	next workloadlifecycle.Write,
) error {
	switch {
	case next.Unpin:
		return apply.Unpin(ctx, r.Client, w)
	case next.StopPods:
		return r.stopPods(ctx, pods)
	case next.Tell != nil:
		return r.tellPods(ctx, pods, *next.Tell)
	case !next.Checkpoint.IsZero():
		is := w.DeepCopy()
		if is.Annotations == nil {
			is.Annotations = map[string]string{}
		}
		is.Annotations[history.CheckpointAnnotation] = next.Checkpoint.UTC().Format(time.RFC3339)
		return r.Client.Patch(ctx, is, onlyChanges(w))
	case next.Priority != nil:
		is := w.DeepCopy()
		is.Spec.Priority = next.Priority
		return r.Client.Patch(ctx, is, onlyChanges(w))
	case next.Deactivate:
		is := w.DeepCopy()
		is.Spec.Active = new(false)
		return r.Client.Patch(ctx, is, onlyChanges(w))
	case next.Status != nil:
		return workloadstatus.Write(ctx, r.Client, w, *next.Status)
	case next.Delete == workloadlifecycle.DeleteWorkload:
		return r.Client.Delete(ctx, w, client.Preconditions{UID: &w.UID, ResourceVersion: &w.ResourceVersion})
	case next.Delete == workloadlifecycle.DeleteJob:
		return r.deleteJob(ctx, w)
	}
	return nil
}

// deleteJob deletes the job of a Workload; the garbage collector takes the
// Workload along. A group of pods is its pods.
func (r *reconciler) deleteJob(ctx context.Context, w *kueue.Workload) error {
	owner := metav1.GetControllerOf(w)
	if owner == nil {
		return r.deleteGroup(ctx, w)
	}
	o := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: owner.APIVersion, Kind: owner.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: owner.Name},
	}
	return r.Client.Delete(
		ctx,
		o,
		client.Preconditions{UID: &owner.UID},
		client.PropagationPolicy(metav1.DeletePropagationBackground),
	)
}

func (r *reconciler) deleteGroup(ctx context.Context, w *kueue.Workload) error {
	var pods corev1.PodList
	if err := r.Client.List(
		ctx,
		&pods,
		client.InNamespace(w.Namespace),
		client.MatchingLabels{kueue.ManagedLabel: "true", kueue.PodGroupNameLabel: w.Name},
	); err != nil {
		return fmt.Errorf("list pods of group %s/%s: %w", w.Namespace, w.Name, err)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.DeletionTimestamp != nil {
			continue
		}
		if err := r.Client.Delete(ctx, p, client.Preconditions{UID: &p.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete pod %s of a group that was deactivated: %w", p.Name, err)
		}
	}
	return nil
}

// gather are the facts of a Workload, with its pods; false if there is none.
func (r *reconciler) gather(
	ctx context.Context,
	name types.NamespacedName,
) (workloadlifecycle.Facts, []corev1.Pod, bool, error) {
	f := workloadlifecycle.Facts{Workload: &kueue.Workload{}, Config: r.Config, Now: r.Clock.Now()}
	if r.began != nil {
		f.Watched = r.began()
	}
	if err := r.Client.Get(ctx, name, f.Workload); err != nil {
		return f, nil, false, client.IgnoreNotFound(err)
	}
	w := f.Workload
	owner := metav1.GetControllerOf(w)
	if owner != nil {
		if err := r.job(ctx, &f, owner); err != nil {
			return f, nil, false, err
		}
	}
	if convert.OfGroup(w) {
		f.Owned = true // package podgroup looks after it, to the end
	}
	f.Orphan = owner == nil && w.Labels[kueue.JobUIDLabel] != "" && !convert.OfGroup(w)
	pods, err := admission.ListPods(ctx, r.Client, w.Namespace, w.Name)
	if err != nil {
		return f, nil, false, err
	}
	f.LivePods = admission.CountPods(pods).Live
	if err := r.seeTold(ctx, &f, pods); err != nil {
		return f, nil, false, err
	}
	if w.DeletionTimestamp != nil || convert.Finished(w) {
		return f, pods, true, nil
	}
	if f.Priority, err = r.classValue(ctx, w); err != nil {
		return f, nil, false, err
	}
	if r.Config.AwaitsPods(w) {
		f.Trouble = admission.Trouble(pods)
	}
	return f, pods, true, r.queues(ctx, &f)
}

// classValue is the value of the WorkloadPriorityClass of w, nil without one.
func (r *reconciler) classValue(ctx context.Context, w *kueue.Workload) (*int32, error) {
	ref := w.Spec.PriorityClassRef
	if ref == nil || ref.Kind != kueue.WorkloadPriorityClassKind {
		return nil, nil
	}
	var c kueue.WorkloadPriorityClass
	err := r.Client.Get(ctx, types.NamespacedName{Name: ref.Name}, &c)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read WorkloadPriorityClass %s: %w", ref.Name, err)
	}
	return &c.Value, nil
}

// queues adds the LocalQueue of a Workload, and the ClusterQueue that it has a
// reservation in or waits for.
func (r *reconciler) queues(ctx context.Context, f *workloadlifecycle.Facts) error {
	w := f.Workload
	clusterQueue := ""
	if w.Spec.QueueName != "" {
		var q kueue.LocalQueue
		err := r.Client.Get(
			ctx,
			types.NamespacedName{Namespace: w.Namespace, Name: string(w.Spec.QueueName)},
			&q,
			client.UnsafeDisableDeepCopy,
		)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read LocalQueue %s/%s: %w", w.Namespace, w.Spec.QueueName, err)
		}
		if err == nil {
			f.LocalQueue = &q
			clusterQueue = string(q.Spec.ClusterQueue)
		}
	}
	if w.Status.Admission != nil {
		clusterQueue = string(w.Status.Admission.ClusterQueue)
	}
	if clusterQueue == "" {
		return nil
	}
	var q kueue.ClusterQueue
	err := r.Client.Get(ctx, types.NamespacedName{Name: clusterQueue}, &q, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read ClusterQueue %s: %w", clusterQueue, err)
	}
	if err == nil {
		f.ClusterQueue = &q
	}
	return nil
}

// job adds what there is of the job that owns a Workload. Deleting a job deletes
// its Workload through the garbage collector, in any order.
func (r *reconciler) job(
	ctx context.Context,
	f *workloadlifecycle.Facts,
	owner *metav1.OwnerReference,
) error {
	w := f.Workload
	gvk := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
	at := slices.IndexFunc(r.Adapters, func(a jobs.Adapter) bool { return a.GVK() == gvk })
	if at < 0 {
		// A kind that is not handled here cannot keep a deleted one running.
		f.Owned = w.DeletionTimestamp == nil
		return nil
	}
	o := r.Adapters[at].New()
	err := r.Client.Get(
		ctx,
		types.NamespacedName{Namespace: w.Namespace, Name: owner.Name},
		o,
		client.UnsafeDisableDeepCopy,
	)
	switch {
	case apierrors.IsNotFound(err), err == nil && o.GetUID() != owner.UID:
		// Gone, or not seen yet: it came before its Workload.
		f.Owned = w.DeletionTimestamp == nil
	case err != nil:
		return fmt.Errorf(
			"read %s %s that owns workload %s/%s: %w",
			owner.Kind,
			owner.Name,
			w.Namespace,
			w.Name,
			err,
		)
	case o.GetDeletionTimestamp() != nil:
		f.JobDeleted = o.GetDeletionTimestamp().Time
		f.JobMakes = r.Adapters[at].Maker(o).MayMakePods()
	default:
		f.Owned = true
		f.Checkpoint = view.LastCheckpoint(o)
	}
	return nil
}

// stopPods deletes those of the pods of a Workload that hold quota.
func (r *reconciler) stopPods(ctx context.Context, pods []corev1.Pod) error {
	live := notLeaving(pods)
	return admission.InParallel(len(live), func(i int) error {
		p := live[i]
		if err := r.Client.Delete(ctx, p, client.Preconditions{UID: &p.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete pod %s, whose job is gone: %w", p.Name, err)
		}
		return nil
	})
}
