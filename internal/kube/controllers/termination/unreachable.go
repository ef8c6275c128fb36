package termination

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/fairqueue"
)

// A pod that was deleted is gone once its node says that its containers are. The node of some never says anything
// again, and until somebody deletes that node, what follows the pod waits: a rank with a fixed name cannot be made
// anew, and the quota of one pod is not given to two. So such a pod is deleted by force, when the time is over that it
// had to end and its node has been out of reach for a while, as Kueue does by its gate FailureRecoveryPolicy for pods
// that ask for it. Pods of a StatefulSet are promised that there is never another one of the same name: they have to
// ask for it. All others may refuse.

// ForceDeleted is the reason of the event on a pod that was deleted by force.
const ForceDeleted = "ForceDeleted"

// patience is how long a node must have been out of reach, and a deleted pod beyond its time, as in Kueue.
const patience = 60 * time.Second

type unreachable struct{ Options }

// setupUnreachable starts the controller of pods whose nodes are out of reach.
func setupUnreachable(mgr ctrl.Manager, opts Options) error {
	r := &unreachable{opts}
	return ctrl.NewControllerManagedBy(mgr).
		Named("unreachable").
		Watches(
			&corev1.Pod{},
			&handler.EnqueueRequestForObject{},
			builder.WithPredicates(predicate.NewPredicateFuncs(r.overdue)),
		).
		WithOptions(fairqueue.Options()).
		Complete(r)
}

// overdue reports whether a pod is being deleted and may come to be deleted by force. Those of deep tests count with no
// Workload where their node is out of service, and tolerate any taint of it.
func (r *unreachable) overdue(o client.Object) bool {
	p, is := o.(*corev1.Pod)
	return is && (counts(p) || r.tests(p)) && p.DeletionTimestamp != nil && p.Spec.NodeName != "" &&
		mayBeForced(p)
}

// tests reports whether a pod is one of a deep test.
func (r *unreachable) tests(p *corev1.Pod) bool {
	return r.Tests != "" && p.Namespace == r.Tests && p.Labels[convert.DeepTestLabel] != ""
}

// mayBeForced reports whether another pod may follow one of which nobody knows whether it has ended.
func mayBeForced(p *corev1.Pod) bool {
	switch p.Annotations[kueue.SafeToForcefullyDeleteAnnotation] {
	case "true":
		return true
	case "false":
		return false
	}
	owner := metav1.GetControllerOf(p)
	return owner == nil || owner.Kind != "StatefulSet"
}

// Reconcile deletes a pod by force when it is time, or looks again then.
func (r *unreachable) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var p corev1.Pod
	if err := r.Client.Get(ctx, req.NamespacedName, &p); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !r.overdue(&p) || convert.PodState(&p).Ended && grace(&p) == 0 { // all was done, and a finalizer keeps it
		return reconcile.Result{}, nil
	}
	var n corev1.Node
	if err := r.Client.Get(ctx, client.ObjectKey{Name: p.Spec.NodeName}, &n); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err) // Kubernetes removes the pods of nodes that are gone
	}
	from := p.DeletionTimestamp.Time // the API keeps the end of its time
	since, silent := silentSince(&n)
	if silent && since.After(from) {
		from = since
	}
	wait := patience - r.Clock.Since(from)
	if wait <= 0 && !silent {
		wait = patience // its node is busy, or is lost in a while
	}
	if wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	err := r.fail(ctx, &p)
	if err == nil {
		err = r.Client.Delete(ctx, &p, client.GracePeriodSeconds(0), client.Preconditions{UID: &p.UID})
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf(
			"delete pod %s of node %s, which is out of reach: %w",
			req.NamespacedName,
			n.Name,
			err,
		)
	}
	r.Recorder.Eventf(
		&p,
		nil,
		corev1.EventTypeWarning,
		ForceDeleted,
		ForceDeleted,
		"Deleted by force, so that another pod can follow: it had to end until %s, and node %s has been out of reach since %s (annotation %s: \"false\" forbids it)",
		p.DeletionTimestamp.UTC().Format(time.TimeOnly),
		n.Name,
		since.UTC().Format(time.TimeOnly),
		kueue.SafeToForcefullyDeleteAnnotation,
	)
	return reconcile.Result{}, nil
}

// fail writes that a pod has failed, because its node did: a Job waits for that with the next one, and does not count
// it among those that failed by themselves. Kubernetes says it of the pods of nodes that are gone in the same way.
func (r *unreachable) fail(ctx context.Context, p *corev1.Pod) error {
	if convert.PodState(p).Ended {
		return nil
	}
	out := p.DeepCopy()
	out.Status.Phase = corev1.PodFailed
	out.Status.Conditions = slices.DeleteFunc(
		out.Status.Conditions,
		func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget },
	)
	out.Status.Conditions = append(out.Status.Conditions, corev1.PodCondition{
		Type:               corev1.DisruptionTarget,
		Status:             corev1.ConditionTrue,
		Reason:             "NodeUnreachable",
		Message:            fmt.Sprintf("its node %s is out of reach", p.Spec.NodeName),
		LastTransitionTime: metav1.NewTime(r.Clock.Now()),
	})
	return r.Client.Status().Patch(ctx, out, client.StrategicMergeFrom(p, client.MergeFromWithOptimisticLock{}))
}

// silentSince is since when Kubernetes has not heard of a node; false if it has.
func silentSince(n *corev1.Node) (time.Time, bool) {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.LastTransitionTime.Time, c.Status == corev1.ConditionUnknown
		}
	}
	return time.Time{}, false
}
