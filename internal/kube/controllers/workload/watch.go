package workload

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/admission"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

func workloadOfPod(_ context.Context, o client.Object) []reconcile.Request {
	name := o.GetAnnotations()[kueue.WorkloadAnnotation]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
}

// ofJob leads from a job to its Workloads.
func (r *reconciler) ofJob(ctx context.Context, o client.Object) []reconcile.Request {
	var all kueue.WorkloadList
	if err := r.Client.List(
		ctx,
		&all,
		client.InNamespace(o.GetNamespace()),
		client.MatchingFields{admission.JobIndex: string(o.GetUID())},
		client.UnsafeDisableDeepCopy,
	); err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range all.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
	}
	return out
}

// jobsLeaving lets through what becomes of jobs that are being deleted, and those that tell of a checkpoint: their
// Workloads wait for that, and nothing else tells them.
func jobsLeaving() builder.Predicates { return builder.WithPredicates(leaving()) }

func leaving() predicate.Funcs {
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return e.Object.GetDeletionTimestamp() != nil },
		DeleteFunc:  func(event.DeleteEvent) bool { return true },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			const saved = history.CheckpointAnnotation
			return e.ObjectNew.GetDeletionTimestamp() != nil ||
				e.ObjectNew.GetAnnotations()[saved] != e.ObjectOld.GetAnnotations()[saved]
		},
	}
}

// ofClass leads from a priority class to the unfinished Workloads that use it.
func (r *reconciler) ofClass(ctx context.Context, o client.Object) []reconcile.Request {
	return r.those(ctx, "", func(w *kueue.Workload) bool {
		ref := w.Spec.PriorityClassRef
		return ref != nil && ref.Kind == kueue.WorkloadPriorityClassKind && ref.Name == o.GetName()
	})
}

// ofClusterQueue leads from a ClusterQueue to the unfinished Workloads that have
// a reservation in it or wait for it.
func (r *reconciler) ofClusterQueue(ctx context.Context, o client.Object) []reconcile.Request {
	var localQueues kueue.LocalQueueList
	if err := r.Client.List(ctx, &localQueues, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	behind := map[types.NamespacedName]bool{}
	for i := range localQueues.Items {
		if d := &localQueues.Items[i]; string(d.Spec.ClusterQueue) == o.GetName() {
			behind[client.ObjectKeyFromObject(d)] = true
		}
	}
	return r.those(ctx, "", func(w *kueue.Workload) bool {
		if w.Status.Admission != nil {
			return string(w.Status.Admission.ClusterQueue) == o.GetName()
		}
		return behind[types.NamespacedName{Namespace: w.Namespace, Name: string(w.Spec.QueueName)}]
	})
}

// ofLocalQueue leads from a LocalQueue to its unfinished Workloads.
func (r *reconciler) ofLocalQueue(ctx context.Context, o client.Object) []reconcile.Request {
	return r.those(
		ctx,
		o.GetNamespace(),
		func(w *kueue.Workload) bool { return string(w.Spec.QueueName) == o.GetName() },
	)
}

// those lists the unfinished Workloads of a namespace, or of all, for which
// concerned is true.
func (r *reconciler) those(
	ctx context.Context,
	namespace string,
	concerned func(*kueue.Workload) bool,
) []reconcile.Request {
	var all kueue.WorkloadList
	if err := r.Client.List(ctx, &all, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range all.Items {
		if w := &all.Items[i]; concerned(w) && !convert.Finished(w) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w)})
		}
	}
	return out
}

// rulesChanged lets through the events after which a queue stops, starts or
// asks other checks.
func rulesChanged() builder.Predicates { return builder.WithPredicates(changedRules()) }

func changedRules() predicate.Funcs {
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return !rulesOf(e.Object).same(ruled{}) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !rulesOf(e.ObjectOld).same(rulesOf(e.ObjectNew))
		},
	}
}

// ruled is what a queue rules for Workloads with a reservation; the zero value
// is nothing.
type ruled struct {
	stopped, deleted bool
	checks           []kueue.AdmissionCheckStrategyRule
}

func (r ruled) same(o ruled) bool {
	return r.stopped == o.stopped && r.deleted == o.deleted && equality.Semantic.DeepEqual(r.checks, o.checks)
}

func rulesOf(o client.Object) ruled {
	switch q := o.(type) {
	case *kueue.ClusterQueue:
		r := ruled{
			stopped: ptr.Deref(q.Spec.StopPolicy, kueue.StopPolicyNone) != kueue.StopPolicyNone,
			deleted: q.DeletionTimestamp != nil,
		}
		if q.Spec.AdmissionChecksStrategy != nil {
			r.checks = q.Spec.AdmissionChecksStrategy.AdmissionChecks
		}
		return r
	case *kueue.LocalQueue:
		return ruled{stopped: ptr.Deref(q.Spec.StopPolicy, kueue.StopPolicyNone) != kueue.StopPolicyNone}
	}
	return ruled{}
}
