package provisioning

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mlbatch/mlbatch/api/autoscaling"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/fairqueue"
)

// Options are what the reconcilers work with.
type Options struct {
	Client   client.Client
	Clock    clock.PassiveClock
	Recorder events.EventRecorder
	// Served says whether the cluster knows ProvisioningRequests; the client's
	// scheme must know them then. Otherwise no check of ours becomes active.
	Served bool
}

// Version returns the version of ProvisioningRequest that a cluster serves, ""
// if it serves none.
func Version(cfg *rest.Config) (string, error) {
	d, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return "", fmt.Errorf("look for ProvisioningRequests: %w", err)
	}
	for _, v := range autoscaling.Versions() {
		list, err := d.ServerResourcesForGroupVersion(autoscaling.Group + "/" + v)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("look for ProvisioningRequests: %w", err)
		}
		for _, r := range list.APIResources {
			if r.Kind == autoscaling.Kind {
				return v, nil
			}
		}
	}
	return "", nil
}

// SetupWithManager starts the reconcilers: one says which checks are active,
// one answers them for workloads.
func SetupWithManager(mgr ctrl.Manager, opts Options) error {
	a := &activity{opts}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("provisioning-check").
		For(&kueue.AdmissionCheck{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&kueue.ProvisioningRequestConfig{}, handler.EnqueueRequestsFromMapFunc(a.using)).
		Complete(a)
	if err != nil {
		return fmt.Errorf("set up the activity of provisioning checks: %w", err)
	}
	if !opts.Served {
		return nil
	}
	r := &reconciler{opts}
	err = ctrl.NewControllerManagedBy(mgr).
		Named("provisioning").
		For(&kueue.Workload{}, builder.WithPredicates(checked())).
		Owns(&autoscaling.ProvisioningRequest{}).
		Watches(
			&kueue.AdmissionCheck{},
			handler.EnqueueRequestsFromMapFunc(r.ofCheck),
			builder.WithPredicates(predicate.GenerationChangedPredicate{}),
		).
		Watches(&kueue.ProvisioningRequestConfig{}, handler.EnqueueRequestsFromMapFunc(r.ofConfig)).
		WithOptions(fairqueue.Options()).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up provisioning: %w", err)
	}
	return nil
}

// checked lets through workloads that have, or had, admission checks.
func checked() predicate.Predicate {
	has := func(o client.Object) bool {
		w, ok := o.(*kueue.Workload)
		return ok && len(w.Status.AdmissionChecks) > 0
	}
	p := predicate.NewPredicateFuncs(has)
	p.UpdateFunc = func(e event.UpdateEvent) bool { return has(e.ObjectOld) || has(e.ObjectNew) }
	return p
}

// conflictPause is how long to wait for the newer object after a conflict.
const conflictPause = 100 * time.Millisecond

// activity says which of our checks are active.
type activity struct{ Options }

// Reconcile writes the Active condition of one check.
func (a *activity) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var c kueue.AdmissionCheck
	if err := a.Client.Get(ctx, req.NamespacedName, &c); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if c.Spec.ControllerName != kueue.ProvisioningRequestControllerName {
		return reconcile.Result{}, nil
	}
	config, err := configuration(ctx, a.Client, &c)
	if err != nil {
		return reconcile.Result{}, err
	}
	next := c.DeepCopy()
	if !apimeta.SetStatusCondition(&next.Status.Conditions, active(&c, config != nil, a.Served)) {
		return reconcile.Result{}, nil
	}
	err = a.Client.Status().Patch(
		ctx,
		next,
		client.MergeFromWithOptions(&c, client.MergeFromWithOptimisticLock{}),
	)
	if apierrors.IsConflict(err) {
		// Changes that leave the spec alone, such as a finalizer, do not come here.
		return reconcile.Result{RequeueAfter: conflictPause}, nil
	}
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// using leads from settings to the checks that refer to them.
func (a *activity) using(ctx context.Context, o client.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, name := range checksUsing(ctx, a.Client, o.GetName()) {
		out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
	return out
}

// configuration returns the settings that a check refers to, nil if there are
// none.
func configuration(
	ctx context.Context,
	c client.Reader,
	check *kueue.AdmissionCheck,
) (*kueue.ProvisioningRequestConfig, error) {
	name := configOf(check)
	if name == "" {
		return nil, nil //nolint:nilnil // no settings is an answer
	}
	var out kueue.ProvisioningRequestConfig
	err := c.Get(ctx, types.NamespacedName{Name: name}, &out)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // no settings is an answer
	case err != nil:
		return nil, fmt.Errorf("read ProvisioningRequestConfig %s: %w", name, err)
	}
	return &out, nil
}

// checksUsing are the names of our checks that refer to the settings.
func checksUsing(ctx context.Context, c client.Reader, config string) []string {
	var all kueue.AdmissionCheckList
	if err := c.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	var out []string
	for i := range all.Items {
		k := &all.Items[i]
		if k.Spec.ControllerName == kueue.ProvisioningRequestControllerName && configOf(k) == config {
			out = append(out, k.Name)
		}
	}
	return out
}

// ofCheck leads from a check to the unfinished workloads that wait for it.
func (r *reconciler) ofCheck(ctx context.Context, o client.Object) []reconcile.Request {
	return r.waitingFor(ctx, o.GetName())
}

func (r *reconciler) ofConfig(ctx context.Context, o client.Object) []reconcile.Request {
	var out []reconcile.Request
	for _, name := range checksUsing(ctx, r.Client, o.GetName()) {
		out = append(out, r.waitingFor(ctx, name)...)
	}
	return out
}

func (r *reconciler) waitingFor(ctx context.Context, check string) []reconcile.Request {
	var all kueue.WorkloadList
	if err := r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range all.Items {
		w := &all.Items[i]
		if convert.Finished(w) {
			continue
		}
		for _, c := range w.Status.AdmissionChecks {
			if string(c.Name) == check {
				out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w)})
			}
		}
	}
	return out
}
