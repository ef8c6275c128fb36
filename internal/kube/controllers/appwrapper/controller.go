// Package appwrapper brings AppWrappers to life: it reads what there is of an
// AppWrapper's components and pods, asks internal/engine/lifecycle what comes
// next, and does it. It decides nothing itself.
//
// One reconcile writes at most one status, in an order that a crash cannot
// spoil: the finalizer comes before the first component, a component before
// the status that says it exists, and the status that announces a deletion
// before the deletion. Components have names that are known beforehand and an
// owner that is checked, so nothing is created twice.
//
// Changes are watched, not polled: pods by their label, nodes by their health
// label, Jobs by their owner. Components of other kinds are looked at again
// after the times that lifecycle gives.
//
// When the AppWrapper may run is not decided here: spec.suspend and
// podSetInfos are written by the controller that admits it.
package appwrapper

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awv1beta2 "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/fairqueue"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/native"
)

// Options are what the controller works with; the zero value is ready.
type Options struct {
	// Schedulers say which scheduler the pods have.
	Schedulers jobs.Schedulers
	// Avoid says which nodes pods keep away from; nil means bad GPUs.
	Avoid []jobs.Avoidance
	// Policy is that of AppWrappers without annotations; nil means
	// lifecycle.Defaults.
	Policy *lifecycle.Policy
	// Retries is what the configuration file says of retries; nil is nothing.
	Retries *core.RetryText
	// Clock tells the time; nil means the real one.
	Clock clock.PassiveClock
	// Metrics is where counters are registered; nil means the registry that
	// controller-runtime serves.
	Metrics prometheus.Registerer
}

// Names of indexes of pods.
const (
	byAppWrapper = "appwrapper"
	byNode       = "appwrapper-node"
)

// reconciler works on AppWrappers.
type reconciler struct {
	// client reads from caches and writes; live reads from the API server.
	client   client.Client
	live     client.Reader
	recorder events.EventRecorder
	clock    clock.PassiveClock
	policy   lifecycle.Policy
	said     *core.RetryText // by the configuration file
	inject   appwrapper.InjectOptions
	count    *counters
	made     made
}

// SetupWithManager adds the controller to the manager. It needs get, list,
// watch, patch and update on appwrappers and their status, get, list, watch
// and delete on pods and nodes (nodes without delete), get, create and delete
// on the kinds that may be wrapped, list and watch on jobs, and create and
// patch on events.
func SetupWithManager(mgr manager.Manager, o Options) error {
	count, err := newCounters(o.Metrics)
	if err != nil {
		return err
	}
	r := &reconciler{
		client:   mgr.GetClient(),
		live:     mgr.GetAPIReader(),
		recorder: mgr.GetEventRecorder("mlbatch-appwrapper"),
		clock:    o.Clock,
		policy:   lifecycle.Defaults(),
		said:     o.Retries,
		inject:   appwrapper.InjectOptions{Schedulers: o.Schedulers, Avoid: o.Avoid},
		count:    count,
	}
	if r.clock == nil {
		r.clock = clock.RealClock{}
	}
	if o.Policy != nil {
		r.policy = *o.Policy
	}
	if o.Avoid == nil {
		r.inject.Avoid = jobs.AvoidBadGPUs()
	}
	for name, of := range podIndexes() {
		//nolint:forbidigo // an index is as old as its manager, which has no context yet
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1.Pod{}, name, of); err != nil {
			return fmt.Errorf("index pods by %s: %w", name, err)
		}
	}
	queue := fairqueue.Options()
	queue.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
		10*time.Millisecond,
		5*time.Second,
	)
	b := ctrl.NewControllerManagedBy(mgr).
		Named("appwrapper").
		For(&awv1beta2.AppWrapper{})
	for _, k := range native.All().Where(func(k *jobs.Kind) bool { return k.Queueing.Wrapped != nil }) {
		b = b.Owns(k.New(), builder.WithPredicates(ends(&k)))
	}
	return b.
		Watches(
			&corev1.Pod{},
			handler.EnqueueRequestsFromMapFunc(appWrapperOf),
			builder.WithPredicates(podChanges()),
		).
		Watches(
			&corev1.Node{},
			handler.EnqueueRequestsFromMapFunc(r.onNode),
			builder.WithPredicates(nodeTurnsBad(r.inject.Avoid)),
		).
		WithOptions(queue).
		Complete(r)
}

func podIndexes() map[string]client.IndexerFunc {
	return map[string]client.IndexerFunc{
		byAppWrapper: func(o client.Object) []string {
			if name := o.GetLabels()[awv1beta2.AppWrapperLabel]; name != "" {
				return []string{name}
			}
			return nil
		},
		byNode: func(o client.Object) []string {
			p, ok := o.(*corev1.Pod)
			if !ok || p.Spec.NodeName == "" || p.Labels[awv1beta2.AppWrapperLabel] == "" {
				return nil
			}
			return []string{p.Spec.NodeName}
		},
	}
}

// appWrapperOf leads from a pod to its AppWrapper.
func appWrapperOf(_ context.Context, o client.Object) []reconcile.Request {
	name := o.GetLabels()[awv1beta2.AppWrapperLabel]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
}

// onNode leads from a node to the AppWrappers with pods on it.
func (r *reconciler) onNode(ctx context.Context, o client.Object) []reconcile.Request {
	var pods corev1.PodList
	if err := r.client.List(
		ctx,
		&pods,
		client.MatchingFields{byNode: o.GetName()},
		client.UnsafeDisableDeepCopy,
	); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List pods of a node", "node", o.GetName())
		return nil
	}
	var out []reconcile.Request
	seen := map[reconcile.Request]bool{}
	for i := range pods.Items {
		for _, req := range appWrapperOf(ctx, &pods.Items[i]) {
			if !seen[req] {
				seen[req] = true
				out = append(out, req)
			}
		}
	}
	return out
}
