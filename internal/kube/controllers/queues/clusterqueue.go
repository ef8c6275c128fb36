package queues

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
)

// recheck is how often a queue that waits for its end is looked at in case the
// last of its users went without a change of its load.
const recheck = time.Second

type clusterQueues struct {
	client  client.Client
	numbers Numbers
	gauges  Gauges
	clock   clock.PassiveClock
	pages   *pages
}

// Reconcile keeps the finalizer and the status of one ClusterQueue.
func (r *clusterQueues) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	// 1. Gather.
	q := &kueue.ClusterQueue{}
	err := r.client.Get(ctx, req.NamespacedName, q)
	if apierrors.IsNotFound(err) {
		r.pages.forget(req.Name)
		r.gauges.ForgetQueue(req.Name)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("read ClusterQueue %s: %w", req.Name, err)
	}
	around, err := surroundingsOf(ctx, r.client, q)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("look around ClusterQueue %s: %w", q.Name, err)
	}
	var load *core.Load
	if t, ok := r.numbers.Queue(q.Name); ok {
		load = &t
	}
	// 2. The finalizer keeps the queue until nothing holds its quota.
	gone, err := r.finalize(ctx, q, load)
	if gone || err != nil {
		return reconcile.Result{}, err
	}
	// 3. Status and gauges.
	active := queueActive(q, around)
	if load != nil {
		f := view.ClusterQueueOf(q, &active, *load)
		f.Cohorts = around.cohorts
		r.gauges.SetQueue(f)
	}
	result := reconcile.Result{}
	if q.DeletionTimestamp != nil {
		result.RequeueAfter = recheck
	}
	next, again, err := r.next(ctx, q, around, active, load)
	if err != nil {
		return reconcile.Result{}, err
	}
	setShort(&next.Conditions, q, around.short, load, r.clock.Now())
	if result.RequeueAfter == 0 || again > 0 && again < result.RequeueAfter {
		result.RequeueAfter = again
	}
	if equality.Semantic.DeepEqual(q.Status, next) {
		return result, nil
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
		return reconcile.Result{}, fmt.Errorf("write status of ClusterQueue %s: %w", q.Name, err)
	}
	return result, nil
}

// next is the status to be written: with the numbers of its tree's page, which is
// turned if they have changed and it is time. It comes with when to look again because
// the page says something else than what is true by now; 0 for never.
func (r *clusterQueues) next(
	ctx context.Context,
	q *kueue.ClusterQueue,
	around surroundings,
	active metav1.Condition,
	live *core.Load,
) (kueue.ClusterQueueStatus, time.Duration, error) {
	now := r.clock.Now()
	is := queueStatus(q, active, live, now)
	if live == nil {
		return is, 0, nil
	}
	root := rootOf(q.Name, around.cohorts)
	written, left, ok := r.pages.current(root, q.Name)
	if !ok {
		if equality.Semantic.DeepEqual(q.Status, is) {
			return is, 0, nil
		}
		if err := r.pages.turn(ctx, root); err != nil {
			return is, 0, fmt.Errorf("take the numbers of ClusterQueue %s: %w", q.Name, err)
		}
		if written, left, ok = r.pages.current(root, q.Name); !ok {
			return is, 0, nil // it has just come, and is on no page yet
		}
	}
	if written.Equal(*live) {
		left = 0
	}
	return queueStatus(q, active, &written, now), left, nil
}

// finalize puts the finalizer on a living queue and takes it off a deleted one
// once it is free; it reports whether the queue is gone with that.
func (r *clusterQueues) finalize(ctx context.Context, q *kueue.ClusterQueue, t *core.Load) (bool, error) {
	if q.DeletionTimestamp == nil {
		return false, addFinalizer(ctx, r.client, q)
	}
	free, err := r.free(ctx, q, t)
	if !free || err != nil {
		return false, err
	}
	log.FromContext(ctx).V(1).Info("Nothing holds quota of the deleted ClusterQueue any more")
	return true, removeFinalizer(ctx, r.client, q)
}

// free reports whether nothing holds quota of the queue: neither by its load,
// which knows of decisions that are not written yet, nor by what is written.
func (r *clusterQueues) free(ctx context.Context, q *kueue.ClusterQueue, t *core.Load) (bool, error) {
	if t != nil && t.Reserving > 0 {
		return false, nil
	}
	list := &kueue.WorkloadList{}
	if err := r.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list Workloads of ClusterQueue %s: %w", q.Name, err)
	}
	return !slices.ContainsFunc(list.Items, func(w kueue.Workload) bool {
		return w.Status.Admission != nil && string(w.Status.Admission.ClusterQueue) == q.Name &&
			!convert.Finished(&w)
	}), nil
}

// surroundingsOf finds out what a ClusterQueue refers to and cannot use.
func surroundingsOf(ctx context.Context, c client.Reader, q *kueue.ClusterQueue) (surroundings, error) {
	var s surroundings
	for _, look := range []func(context.Context, client.Reader, *kueue.ClusterQueue) error{s.flavors, s.checks, s.tree, s.nodes} {
		if err := look(ctx, c, q); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (s *surroundings) flavors(ctx context.Context, c client.Reader, q *kueue.ClusterQueue) error {
	for _, f := range flavorsOf(q) {
		flavor := &kueue.ResourceFlavor{}
		exists, err := find(ctx, c, string(f.Name), flavor)
		if err != nil {
			return err
		}
		if !exists {
			s.missingFlavors = append(s.missingFlavors, string(f.Name))
		}
		for _, c := range convert.Capacities(flavor) {
			if !c.ShortSince.IsZero() {
				s.short = append(s.short, shortOf{flavor.Name, c})
			}
		}
		if flavor.Spec.TopologyName == nil {
			continue
		}
		topology := string(*flavor.Spec.TopologyName)
		if exists, err = find(ctx, c, topology, &kueue.Topology{}); err != nil {
			return err
		}
		if !exists && !slices.Contains(s.missingTopologies, topology) {
			s.missingTopologies = append(s.missingTopologies, topology)
		}
	}
	return nil
}

// nodes finds the flavors that admit nothing because no node has their labels. In a
// cluster without any node quota alone decides.
func (s *surroundings) nodes(ctx context.Context, c client.Reader, q *kueue.ClusterQueue) error {
	if some, err := anyNode(ctx, c, nil); !some || err != nil {
		return err
	}
	onDemand := convert.Provisioned(
		q,
		func(check string) string { return s.controllers[check] },
		func(string) bool { return false },
	)
	for _, f := range flavorsOf(q) {
		name, flavor := string(f.Name), &kueue.ResourceFlavor{}
		if slices.Contains(onDemand, name) || slices.Contains(s.emptyFlavors, name) {
			continue
		}
		exists, err := find(ctx, c, name, flavor)
		if err != nil {
			return err
		}
		if !exists || convert.NodesOnDemand(flavor) {
			continue
		}
		has, err := anyNode(ctx, c, flavor.Spec.NodeLabels)
		if err != nil {
			return err
		}
		if !has {
			s.emptyFlavors = append(s.emptyFlavors, name)
		}
	}
	return nil
}

// anyNode reports whether some node has the labels.
func anyNode(ctx context.Context, c client.Reader, labels map[string]string) (bool, error) {
	list := &corev1.NodeList{}
	if err := c.List(
		ctx,
		list,
		client.MatchingLabels(labels),
		client.Limit(1),
		client.UnsafeDisableDeepCopy,
	); err != nil {
		return false, fmt.Errorf("look for a node with the labels %v: %w", labels, err)
	}
	return len(list.Items) > 0, nil
}

func (s *surroundings) checks(ctx context.Context, c client.Reader, q *kueue.ClusterQueue) error {
	s.controllers = map[string]string{}
	for _, name := range admissionChecks(q) {
		check := &kueue.AdmissionCheck{}
		exists, err := find(ctx, c, name, check)
		switch {
		case err != nil:
			return err
		case !exists:
			s.missingChecks = append(s.missingChecks, name)
		case !apimeta.IsStatusConditionTrue(check.Status.Conditions, kueue.AdmissionCheckActive):
			s.inactiveChecks = append(s.inactiveChecks, name)
		}
		s.controllers[name] = check.Spec.ControllerName
	}
	s.remote = convert.RemoteFaults(q, func(check string) string { return s.controllers[check] })
	return nil
}

func (s *surroundings) tree(ctx context.Context, c client.Reader, q *kueue.ClusterQueue) error {
	for name := string(q.Spec.CohortName); name != ""; {
		if slices.Contains(s.cohorts, name) {
			s.cycle = append(slices.Clone(s.cohorts), name)
			return nil
		}
		s.cohorts = append(s.cohorts, name)
		cohort := &kueue.Cohort{}
		if _, err := find(ctx, c, name, cohort); err != nil {
			return err
		}
		name = string(cohort.Spec.ParentName)
	}
	return nil
}

// find reads an object and reports whether it exists.
func find(ctx context.Context, c client.Reader, name string, o client.Object) (bool, error) {
	err := c.Get(ctx, client.ObjectKey{Name: name}, o)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %T %s: %w", o, name, err)
	}
	return true, nil
}

// usingFlavor names the ClusterQueues that refer to a flavor.
func (r *clusterQueues) usingFlavor(ctx context.Context, o client.Object) []reconcile.Request {
	return r.those(ctx, func(q *kueue.ClusterQueue) bool { return uses(q, o.GetName()) })
}

// usingTopology names the ClusterQueues that refer to a flavor of a Topology.
func (r *clusterQueues) usingTopology(ctx context.Context, o client.Object) []reconcile.Request {
	list := &kueue.ResourceFlavorList{}
	if err := r.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "List ResourceFlavors")
		return nil
	}
	return r.those(ctx, func(q *kueue.ClusterQueue) bool {
		return slices.ContainsFunc(
			list.Items,
			func(f kueue.ResourceFlavor) bool { return named(&f, o.GetName()) && uses(q, f.Name) },
		)
	})
}

// asking names the ClusterQueues that ask an AdmissionCheck.
func (r *clusterQueues) asking(ctx context.Context, o client.Object) []reconcile.Request {
	return r.those(ctx, func(q *kueue.ClusterQueue) bool { return asks(q, o.GetName()) })
}

// inCohorts names the ClusterQueues whose place in the tree a changed cohort
// may concern.
func (r *clusterQueues) inCohorts(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.those(ctx, func(q *kueue.ClusterQueue) bool { return q.Spec.CohortName != "" })
}

// onNodes names the ClusterQueues whose flavors ask for certain nodes: which nodes
// there are has changed.
func (r *clusterQueues) onNodes(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.those(ctx, func(q *kueue.ClusterQueue) bool { return len(flavorsOf(q)) > 0 })
}

func (r *clusterQueues) those(ctx context.Context, match func(*kueue.ClusterQueue) bool) []reconcile.Request {
	list := &kueue.ClusterQueueList{}
	if err := r.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "List ClusterQueues")
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		if match(&list.Items[i]) {
			out = append(out, request(&list.Items[i]))
		}
	}
	return out
}

func uses(q *kueue.ClusterQueue, flavor string) bool {
	return slices.ContainsFunc(flavorsOf(q), func(f kueue.FlavorQuotas) bool { return string(f.Name) == flavor })
}
