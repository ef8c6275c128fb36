package queues

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/view"
)

type localQueues struct {
	client  client.Client
	numbers Numbers
	gauges  Gauges
	clock   clock.PassiveClock
	pace    *pace
}

// Reconcile keeps the status of one LocalQueue.
func (r *localQueues) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	q := &kueue.LocalQueue{}
	err := r.client.Get(ctx, req.NamespacedName, q)
	if apierrors.IsNotFound(err) {
		r.pace.forget(req.NamespacedName)
		r.gauges.ForgetLocalQueue(req.Namespace, req.Name)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("read LocalQueue %s: %w", req.NamespacedName, err)
	}
	behind, condition, err := r.behind(ctx, q)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("look behind LocalQueue %s: %w", req.NamespacedName, err)
	}
	var load *core.Load
	active := localQueueActive(q, condition)
	if t, ok := r.numbers.LocalQueue(q.Namespace, q.Name); ok {
		load = &t
		r.gauges.SetLocalQueue(view.LocalQueueOf(q, behind, active, t))
	}
	next := localQueueStatus(q, behind, active, load, r.clock.Now())
	if equality.Semantic.DeepEqual(q.Status, next) {
		return reconcile.Result{}, nil
	}
	if wait := r.pace.wait(req.NamespacedName); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	before := q.DeepCopy()
	q.Status = next
	if err := r.client.Status().Patch(
		ctx,
		q,
		client.MergeFrom(before),
		owner,
	); client.IgnoreNotFound(
		err,
	) != nil {
		return reconcile.Result{}, fmt.Errorf("write status of LocalQueue %s: %w", req.NamespacedName, err)
	}
	return reconcile.Result{}, nil
}

// behind returns the ClusterQueue of a LocalQueue and whether it can admit;
// nil and nil if there is none.
func (r *localQueues) behind(
	ctx context.Context,
	q *kueue.LocalQueue,
) (*kueue.ClusterQueue, *metav1.Condition, error) {
	behind := &kueue.ClusterQueue{}
	err := r.client.Get(ctx, client.ObjectKey{Name: string(q.Spec.ClusterQueue)}, behind)
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read ClusterQueue %s: %w", q.Spec.ClusterQueue, err)
	}
	around, err := surroundingsOf(ctx, r.client, behind)
	if err != nil {
		return nil, nil, err
	}
	active := queueActive(behind, around)
	return behind, &active, nil
}

// leadingTo names the LocalQueues in front of a ClusterQueue.
func (r *localQueues) leadingTo(ctx context.Context, o client.Object) []reconcile.Request {
	list := &kueue.LocalQueueList{}
	if err := r.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "List LocalQueues")
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		if string(list.Items[i].Spec.ClusterQueue) == o.GetName() {
			out = append(out, request(&list.Items[i]))
		}
	}
	return out
}

// activityChanged lets through changes of a ClusterQueue's spec and of its
// Active condition, which also follows flavors and cohorts.
func activityChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok1 := e.ObjectOld.(*kueue.ClusterQueue)
		after, ok2 := e.ObjectNew.(*kueue.ClusterQueue)
		if !ok1 || !ok2 {
			return false
		}
		was := apimeta.IsStatusConditionTrue(before.Status.Conditions, kueue.ClusterQueueActive)
		is := apimeta.IsStatusConditionTrue(after.Status.Conditions, kueue.ClusterQueueActive)
		return before.Generation != after.Generation || was != is ||
			before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero()
	}}
}
