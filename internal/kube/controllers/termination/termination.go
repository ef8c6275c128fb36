// Package termination sees to it that pods which are being deleted are gone in time. Whoever
// deletes a pod says how long it may go on, or leaves it to the pod, and it holds its place and
// its quota until then: Kubernetes only ever shortens that time, and does not do so by itself. So a
// pod that is counted with a Workload, or queued by itself, has maxTerminationTime at most, from the
// moment on at which it was deleted, whoever did that and whatever it is a part of. It is one rule
// for all kinds: what stops a job need not name a time, and may leave alone what is being deleted. And
// where the node of a deleted pod is out of reach, nobody would ever say that it has ended.
package termination

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/fairqueue"
	"github.com/mlbatch/mlbatch/internal/kube/workloadlifecycle"
)

// Shortened is the reason of the event on a pod that has less time to end than it was given.
const Shortened = "TerminationShortened"

// Options are what the controller works with.
type Options struct {
	Client   client.Client
	Clock    clock.PassiveClock
	Recorder events.EventRecorder
	// Longest is how long a pod may take to end; 0 is any time.
	Longest time.Duration
	// Tests is the namespace of deep tests, whose pods are forced as well; "" if there are none.
	Tests string
}

type reconciler struct{ Options }

// SetupWithManager starts the controllers.
func SetupWithManager(mgr ctrl.Manager, opts Options) error {
	if err := setupUnreachable(mgr, opts); err != nil || opts.Longest <= 0 {
		return err
	}
	r := &reconciler{opts}
	return ctrl.NewControllerManagedBy(mgr).
		Named("termination").
		Watches(
			&corev1.Pod{},
			&handler.EnqueueRequestForObject{},
			builder.WithPredicates(predicate.NewPredicateFuncs(r.tooLong)),
		).
		WithOptions(fairqueue.Options()).
		Complete(r)
}

// tooLong reports whether a pod that counts is being deleted and may go on for longer than any may.
func (r *reconciler) tooLong(o client.Object) bool {
	p, is := o.(*corev1.Pod)
	if !is || !counts(p) {
		return false
	}
	state := convert.PodState(p)
	if !state.Deleting || !state.HoldsPlace() {
		return false
	}
	_, shorten := r.left(p)
	return shorten
}

// counts reports whether a pod is counted with a Workload, or queued by itself.
func counts(p *corev1.Pod) bool {
	return p.Annotations[kueue.WorkloadAnnotation] != "" || p.Labels[kueue.ManagedLabel] == "true"
}

// left is how much time a pod has left, and whether it has to be told so.
func (r *reconciler) left(p *corev1.Pod) (time.Duration, bool) {
	since := p.DeletionTimestamp.Add(-grace(p)) // the API keeps the end
	return workloadlifecycle.TimeToEnd(grace(p), r.Clock.Since(since), r.Longest)
}

// grace is how long a pod that is being deleted may go on, from that moment on.
func grace(p *corev1.Pod) time.Duration {
	if p.DeletionGracePeriodSeconds == nil {
		return 0
	}
	return time.Duration(*p.DeletionGracePeriodSeconds) * time.Second
}

// Reconcile shortens the time that a pod has.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var p corev1.Pod
	if err := r.Client.Get(ctx, req.NamespacedName, &p); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !r.tooLong(&p) {
		return reconcile.Result{}, nil
	}
	left, _ := r.left(&p)
	err := r.Client.Delete(
		ctx,
		&p,
		client.GracePeriodSeconds(int64(left.Seconds())),
		client.Preconditions{UID: &p.UID},
	)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf(
			"shorten the time that pod %s has to end: %w",
			req.NamespacedName,
			err,
		)
	}
	r.Recorder.Eventf(
		&p,
		nil,
		corev1.EventTypeWarning,
		Shortened,
		Shortened,
		"It ends within %s: it was deleted with %s to do so, and pods may take %s here (tenants.maxTerminationTime of the configuration)",
		left,
		grace(&p),
		r.Longest,
	)
	return reconcile.Result{}, nil
}
