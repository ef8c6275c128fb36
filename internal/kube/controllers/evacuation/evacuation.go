// Package evacuation takes the pods of jobs off nodes that they have to leave, which
// is decided for every kind by jobs.MustLeave. Here it is done one by one, where the
// controller of the job replaces its pods (jobs.Kind.Replaces); other jobs are moved
// as a whole by their own controllers. The job keeps its quota, and the decision
// loop plans other nodes for what comes instead.
package evacuation

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/eviction"
	"github.com/mlbatch/mlbatch/internal/kube/fairqueue"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// NodeIndex is the name of the cache index from a node to the pods of Workloads on it.
const NodeIndex = "mlbatch.dev/node"

// IndexNode returns the node of a pod that belongs to a Workload, for NodeIndex.
func IndexNode(o client.Object) []string {
	p, ok := o.(*corev1.Pod)
	if !ok || p.Spec.NodeName == "" || p.Annotations[kueue.WorkloadAnnotation] == "" {
		return nil
	}
	return []string{p.Spec.NodeName}
}

// Options are what the controller works with.
type Options struct {
	eviction.Evictor
	// Avoid says which nodes have to be left.
	Avoid []jobs.Avoidance
	// PodIndex is the name of the cache index from a Workload's name to its pods.
	PodIndex string
}

type reconciler struct{ Options }

// SetupWithManager starts the controller. The cache must have NodeIndex and PodIndex.
func SetupWithManager(mgr ctrl.Manager, opts Options) error {
	r := &reconciler{opts}
	return ctrl.NewControllerManagedBy(mgr).
		Named("evacuation").
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.ofNode), builder.WithPredicates(r.turnsBad())).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.ofPod), builder.WithPredicates(arrives())).
		WithOptions(fairqueue.Options()).
		Complete(r)
}

// turnsBad lets through nodes that pods have to leave from now on.
func (r *reconciler) turnsBad() predicate.Predicate {
	bad := func(o client.Object) bool { return jobs.Evicting(o.GetLabels(), r.Avoid) != "" }
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return bad(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return bad(e.ObjectNew) && !bad(e.ObjectOld) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// arrives lets through pods that get a node.
func arrives() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return len(IndexNode(e.Object)) > 0 },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return len(IndexNode(e.ObjectNew)) > 0 && len(IndexNode(e.ObjectOld)) == 0
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// ofNode leads from a node to the Workloads with pods on it.
func (r *reconciler) ofNode(ctx context.Context, o client.Object) []reconcile.Request {
	var pods corev1.PodList
	if err := r.Client.List(
		ctx,
		&pods,
		client.MatchingFields{NodeIndex: o.GetName()},
		client.UnsafeDisableDeepCopy,
	); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List pods of a node", "node", o.GetName())
		return nil
	}
	var out []reconcile.Request
	for i := range pods.Items {
		if req := workloadOf(&pods.Items[i]); !slices.Contains(out, req) {
			out = append(out, req)
		}
	}
	return out
}

// ofPod leads to the Workload of a pod on a node that has to be left.
func (r *reconciler) ofPod(ctx context.Context, o client.Object) []reconcile.Request {
	p, is := o.(*corev1.Pod)
	if !is {
		return nil
	}
	if why, err := r.mustLeave(ctx, p); why == "" || err != nil {
		return nil
	}
	return []reconcile.Request{workloadOf(p)}
}

func workloadOf(p *corev1.Pod) reconcile.Request {
	return reconcile.Request{
		NamespacedName: types.NamespacedName{Namespace: p.Namespace, Name: p.Annotations[kueue.WorkloadAnnotation]},
	}
}

// mustLeave says why a pod has to leave its node; "" if it may stay, or there is no
// such node.
func (r *reconciler) mustLeave(ctx context.Context, p *corev1.Pod) (string, error) {
	if p.Spec.NodeName == "" {
		return "", nil
	}
	var node corev1.Node
	err := r.Client.Get(ctx, types.NamespacedName{Name: p.Spec.NodeName}, &node, client.UnsafeDisableDeepCopy)
	if err != nil {
		return "", client.IgnoreNotFound(err)
	}
	return jobs.MustLeave(p, &node, r.Avoid), nil
}

// Reconcile evicts the pods of one Workload that have to leave their nodes.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pods, going, err := r.pods(ctx, req.NamespacedName)
	if err != nil || len(going) == 0 {
		return reconcile.Result{}, err
	}
	var w kueue.Workload
	if err := r.Client.Get(ctx, req.NamespacedName, &w, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	again, err := r.Evict(ctx, &w, pods, going)
	return reconcile.Result{RequeueAfter: again}, err
}

// pods finds the pods of a Workload, and those of them that have to leave, by name.
func (r *reconciler) pods(
	ctx context.Context,
	workload types.NamespacedName,
) (all []corev1.Pod, going []eviction.Leaver, err error) {
	var list corev1.PodList
	if err := r.Client.List(
		ctx,
		&list,
		client.InNamespace(workload.Namespace),
		client.MatchingFields{r.PodIndex: workload.Name},
	); err != nil {
		return nil, nil, fmt.Errorf("list pods of workload %s: %w", workload, err)
	}
	for i := range list.Items {
		p := &list.Items[i]
		if !convert.PodState(p).HoldsQuota() || p.DeletionTimestamp != nil {
			continue
		}
		why, err := r.mustLeave(ctx, p)
		if err != nil {
			return nil, nil, fmt.Errorf("read node %s: %w", p.Spec.NodeName, err)
		}
		if why != "" {
			going = append(going, eviction.Leaver{Pod: p, Why: why})
		}
	}
	slices.SortFunc(going, func(a, b eviction.Leaver) int { return strings.Compare(a.Pod.Name, b.Pod.Name) })
	return list.Items, going, nil
}
