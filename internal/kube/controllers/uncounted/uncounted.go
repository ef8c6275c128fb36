// Package uncounted stops pods that run in namespaces of teams and count with no Workload: the one
// that they name is gone, has ended or has no quota. Nobody else would: they are not evicted, since
// they have nothing, and what made them may have been taken away from its job. It is the last of
// several rules, and has nothing to do while the others hold.
package uncounted

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/fairqueue"
	"github.com/mlbatch/mlbatch/internal/kube/memo"
)

// Stopped is the reason of the event on a pod that ran without quota.
const Stopped = "RunsWithoutQuota"

// patience is how long pods may be without a Workload: the cache shows pods and Workloads apart, and who
// stops a job deletes its pods first.
const patience = 30 * time.Second

// Options are what the controller works with.
type Options struct {
	Client client.Client
	// Live reads from the API server what there is before a pod is stopped.
	Live     client.Reader
	Clock    clock.PassiveClock
	Recorder events.EventRecorder
	// PodIndex is the name of the cache index from a Workload's name to its pods.
	PodIndex string
}

type reconciler struct {
	Options
	// since is when pods were first seen to count with no Workload, by its name.
	since memo.Table[time.Time]
}

// SetupWithManager starts the controller. The cache must have PodIndex.
func SetupWithManager(mgr ctrl.Manager, opts Options) error {
	r := newReconciler(opts)
	return ctrl.NewControllerManagedBy(mgr).
		Named("uncounted").
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.ofPod), builder.WithPredicates(starts())).
		Watches(&kueue.Workload{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(ends())).
		WithOptions(fairqueue.Options()).
		Complete(r)
}

func newReconciler(opts Options) *reconciler {
	return &reconciler{Options: opts}
}

// runs reports whether a pod says that it counts with a Workload, and has a node.
func runs(o client.Object) bool {
	p, is := o.(*corev1.Pod)
	return is && p.Annotations[kueue.WorkloadAnnotation] != "" && p.DeletionTimestamp == nil &&
		convert.PodState(p).HoldsPlace()
}

// starts lets through pods that have a node from now on.
func starts() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return runs(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return runs(e.ObjectNew) && !runs(e.ObjectOld) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// ends lets through Workloads that count no pods from now on.
func ends() predicate.Predicate {
	counts := func(o client.Object) bool {
		w, is := o.(*kueue.Workload)
		return is && without(w) == ""
	}
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(e event.UpdateEvent) bool { return counts(e.ObjectOld) && !counts(e.ObjectNew) },
		DeleteFunc:  func(event.DeleteEvent) bool { return true },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// ofPod leads to the Workload of a pod, if that does not count it.
func (r *reconciler) ofPod(ctx context.Context, o client.Object) []reconcile.Request {
	name := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetAnnotations()[kueue.WorkloadAnnotation]}
	if why, err := r.why(ctx, r.Client, name); err == nil && why == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: name}}
}

// without says why a Workload counts no pods; "" if it does.
func without(w *kueue.Workload) string {
	switch {
	case convert.Finished(w):
		return "has ended"
	case w.Status.Admission == nil:
		return "has no quota"
	}
	return ""
}

// why says why the pods of a Workload run without quota; "" if they do not.
func (r *reconciler) why(ctx context.Context, c client.Reader, name types.NamespacedName) (string, error) {
	var w kueue.Workload
	err := c.Get(ctx, name, &w, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return "is gone", nil
	}
	if err != nil {
		return "", fmt.Errorf("read workload %s: %w", name, err)
	}
	return without(&w), nil
}

// Reconcile stops the pods that name a Workload which does not count them, once that has been so for a
// while.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pods, err := r.running(ctx, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	why, err := r.why(ctx, r.Client, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(pods) == 0 || why == "" {
		r.waited(req.NamespacedName, false)
		return reconcile.Result{}, nil
	}
	if left := patience - r.waited(req.NamespacedName, true); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	if why, err = r.why(ctx, r.Live, req.NamespacedName); err != nil || why == "" {
		return reconcile.Result{}, err
	}
	for i := range pods {
		if err := r.stop(ctx, &pods[i], why); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{RequeueAfter: patience}, nil
}

// waited is for how long the pods of a Workload have been without quota, if they are.
func (r *reconciler) waited( //nolint:revive // a fact about the pods
	name types.NamespacedName,
	without bool,
) time.Duration {
	if !without {
		r.since.Forget(name)
		return 0
	}
	at := r.since.Get(name)
	if at.IsZero() {
		at = r.Clock.Now()
		r.since.Set(name, at)
	}
	return r.Clock.Since(at)
}

// running are the pods of a team that name a Workload and have nodes.
func (r *reconciler) running(ctx context.Context, name types.NamespacedName) ([]corev1.Pod, error) {
	var ns corev1.Namespace
	if err := r.Client.Get(
		ctx,
		types.NamespacedName{Name: name.Namespace},
		&ns,
		client.UnsafeDisableDeepCopy,
	); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if ns.Labels[kueue.TeamNamespaceLabel] != "true" {
		return nil, nil // who may create pods there may create them without a queue
	}
	var pods corev1.PodList
	if err := r.Client.List(
		ctx,
		&pods,
		client.InNamespace(name.Namespace),
		client.MatchingFields{r.PodIndex: name.Name},
	); err != nil {
		return nil, fmt.Errorf("list pods of workload %s: %w", name, err)
	}
	var out []corev1.Pod
	for i := range pods.Items {
		if runs(&pods.Items[i]) {
			out = append(out, pods.Items[i])
		}
	}
	return out, nil
}

// stop deletes a pod, and says why.
func (r *reconciler) stop(ctx context.Context, p *corev1.Pod, why string) error {
	err := r.Client.Delete(ctx, p, client.Preconditions{UID: &p.UID})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stop pod %s/%s, which runs without quota: %w", p.Namespace, p.Name, err)
	}
	r.Recorder.Eventf(
		p,
		nil,
		corev1.EventTypeWarning,
		Stopped,
		Stopped,
		"Stopped, because it ran without quota: Workload %s, which it counts with, %s. Delete what made it, and submit the job again",
		p.Annotations[kueue.WorkloadAnnotation],
		why,
	)
	return nil
}
