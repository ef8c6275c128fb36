package queues

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// cohorts keeps the share in the status of cohorts.
type cohorts struct {
	client  client.Client
	numbers Numbers
	gauges  Gauges
	pace    *pace
}

func newCohorts(c client.Client, o Options) *cohorts {
	return &cohorts{client: c, numbers: o.Numbers, gauges: o.Gauges, pace: newPace(o.Clock, o.Interval)}
}

func (r *cohorts) setup(mgr manager.Manager, f *feeder) error {
	return builder.ControllerManagedBy(mgr).Named("cohort").
		For(&kueue.Cohort{}).
		WatchesRawSource(source.Channel(f.cohorts, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{RateLimiter: statusRetries()}).
		Complete(r)
}

// Reconcile keeps the status of one Cohort. Without fair sharing it has none.
func (r *cohorts) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	c := &kueue.Cohort{}
	err := r.client.Get(ctx, req.NamespacedName, c)
	if apierrors.IsNotFound(err) {
		r.pace.forget(req.NamespacedName)
		r.gauges.ForgetCohort(req.Name)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("read Cohort %s: %w", req.Name, err)
	}
	share, known := r.numbers.CohortShare(c.Name)
	if !known {
		return reconcile.Result{}, nil
	}
	r.gauges.SetCohortShare(c.Name, share.Exact)
	next := &kueue.FairSharingStatus{WeightedShare: share.Rounded}
	if equality.Semantic.DeepEqual(c.Status.FairSharing, next) {
		return reconcile.Result{}, nil
	}
	if wait := r.pace.wait(req.NamespacedName); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	before := c.DeepCopy()
	c.Status.FairSharing = next
	if err := r.client.Status().Patch(
		ctx,
		c,
		client.MergeFrom(before),
		owner,
	); client.IgnoreNotFound(
		err,
	) != nil {
		return reconcile.Result{}, fmt.Errorf("write status of Cohort %s: %w", c.Name, err)
	}
	return reconcile.Result{}, nil
}
