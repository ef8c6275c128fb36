package queues

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/fairqueue"
	"github.com/mlbatch/mlbatch/internal/view"
)

// DefaultInterval is the time between two writes of one queue's status.
const DefaultInterval = 500 * time.Millisecond

const owner = client.FieldOwner("mlbatch-queues")

// Options are what the controllers work with.
type Options struct {
	// Numbers must be set.
	Numbers Numbers
	// Gauges may be nil: nothing is shown then.
	Gauges Gauges
	// Interval is the least time between two writes of one queue's status; 0
	// means DefaultInterval.
	Interval time.Duration
	// Clock is the real one if nil.
	Clock clock.Clock
}

func (o Options) withDefaults() (Options, error) {
	if o.Numbers == nil {
		return o, errors.New("set up the queue controllers: Options.Numbers is missing")
	}
	if o.Gauges == nil {
		o.Gauges = noGauges{}
	}
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o, nil
}

// SetupWithManager adds the controllers of ClusterQueues, LocalQueues, Cohorts,
// ResourceFlavors, AdmissionChecks and Topologies to the manager. They need get,
// list and watch on all of these, on workloads and nodes; patch on clusterqueues,
// resourceflavors, admissionchecks, topologies, clusterqueues/status,
// localqueues/status and cohorts/status; and create and patch on events.
func SetupWithManager(mgr manager.Manager, o Options) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	f := newFeeder(mgr.GetClient(), o)
	c, recorder := mgr.GetClient(), mgr.GetEventRecorder("mlbatch-queues")
	err = errors.Join(
		mgr.Add(f),
		newClusterQueues(c, o).setup(mgr, f),
		newLocalQueues(c, o).setup(mgr, f),
		newFlavors(c, recorder).setup(mgr, &kueue.ClusterQueue{}, referred(flavorNames)),
		newChecks(c, recorder).setup(mgr, &kueue.ClusterQueue{}, referred(admissionChecks)),
		newTopologies(c, recorder).setup(mgr, &kueue.ResourceFlavor{}, topologyOf),
		newCohorts(c, o).setup(mgr, f),
	)
	if err != nil {
		return fmt.Errorf("set up the queue controllers: %w", err)
	}
	return nil
}

// longestRetry is the longest pause between two tries to write a status. The pauses
// of controller-runtime double up to a quarter of an hour: after an API server was
// away, statuses would be late by as long again.
const longestRetry = 5 * time.Second

func statusRetries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
		5*time.Millisecond,
		longestRetry,
	)
}

func newClusterQueues(c client.Client, o Options) *clusterQueues {
	return &clusterQueues{client: c, numbers: o.Numbers, gauges: o.Gauges, clock: o.Clock, pages: newPages(c, o)}
}

func (r *clusterQueues) setup(mgr manager.Manager, f *feeder) error {
	generation := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	return builder.ControllerManagedBy(mgr).Named("clusterqueue").
		For(&kueue.ClusterQueue{}).
		Watches(
			&kueue.ResourceFlavor{},
			handler.EnqueueRequestsFromMapFunc(r.usingFlavor),
			builder.WithPredicates(
				predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}),
			),
		).
		Watches(&kueue.Cohort{}, handler.EnqueueRequestsFromMapFunc(r.inCohorts), generation).
		Watches(&kueue.AdmissionCheck{}, handler.EnqueueRequestsFromMapFunc(r.asking)).
		Watches(&kueue.Topology{}, handler.EnqueueRequestsFromMapFunc(r.usingTopology), generation).
		Watches(
			&corev1.Node{},
			handler.EnqueueRequestsFromMapFunc(r.onNodes),
			builder.WithPredicates(predicate.LabelChangedPredicate{}),
		).
		WatchesRawSource(source.Channel(f.queues, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{RateLimiter: statusRetries()}).
		Complete(r)
}

func newLocalQueues(c client.Client, o Options) *localQueues {
	return &localQueues{
		client:  c,
		numbers: o.Numbers,
		gauges:  o.Gauges,
		clock:   o.Clock,
		pace:    newPace(o.Clock, o.Interval),
	}
}

func (r *localQueues) setup(mgr manager.Manager, f *feeder) error {
	inTurn := fairqueue.Options()
	inTurn.RateLimiter = statusRetries()
	return builder.ControllerManagedBy(mgr).Named("localqueue").
		For(&kueue.LocalQueue{}).
		Watches(
			&kueue.ClusterQueue{},
			handler.EnqueueRequestsFromMapFunc(r.leadingTo),
			builder.WithPredicates(activityChanged()),
		).
		WatchesRawSource(source.Channel(f.localQueues, &handler.EnqueueRequestForObject{})).
		WithOptions(inTurn).
		Complete(r)
}

// setup makes the reconciler run whenever an object, or a user that refers to it,
// changes. to leads from a user to what it refers to.
func (r *used[T]) setup(mgr manager.Manager, user client.Object, to handler.MapFunc) error {
	return builder.ControllerManagedBy(mgr).Named(strings.ToLower(r.kind)).
		For(r.empty()).
		Watches(user, handler.EnqueueRequestsFromMapFunc(to),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(r)
}

func request(o client.Object) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)}
}

// referred leads from a ClusterQueue to what it refers to.
func referred(named func(*kueue.ClusterQueue) []string) handler.MapFunc {
	return func(_ context.Context, o client.Object) []reconcile.Request {
		q, ok := o.(*kueue.ClusterQueue)
		if !ok {
			return nil
		}
		var out []reconcile.Request
		for _, name := range named(q) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
		}
		return out
	}
}

// topologyOf leads from a ResourceFlavor to its Topology.
func topologyOf(_ context.Context, o client.Object) []reconcile.Request {
	f, ok := o.(*kueue.ResourceFlavor)
	if !ok || f.Spec.TopologyName == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: string(*f.Spec.TopologyName)}}}
}

func flavorNames(q *kueue.ClusterQueue) []string {
	var out []string
	for _, f := range flavorsOf(q) {
		out = append(out, string(f.Name))
	}
	return out
}

type noGauges struct{}

func (noGauges) SetQueue(view.ClusterQueue)      {}
func (noGauges) ForgetQueue(string)              {}
func (noGauges) SetCohortShare(string, float64)  {}
func (noGauges) ForgetCohort(string)             {}
func (noGauges) SetLocalQueue(view.LocalQueue)   {}
func (noGauges) ForgetLocalQueue(string, string) {}
