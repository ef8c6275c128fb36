package nodehealth

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	health "github.com/mlbatch/mlbatch/api/health/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/view"
)

// together is how long is waited for more changes: all nodes are looked at for each.
const together = 300 * time.Millisecond

// sources are all that can change how nodes are: whatever happens, the same one request follows.
func sources(main, memory cache.Cache, tests string) []source.Source {
	all := []source.Source{
		source.Kind(main, &corev1.Node{}, soon[*corev1.Node](), nodeChanged()),
		source.Kind(main, &corev1.Pod{}, soon[*corev1.Pod](), devicesChanged()),
		source.Kind(main, &kueue.ResourceFlavor{}, soon[*kueue.ResourceFlavor](),
			predicate.TypedGenerationChangedPredicate[*kueue.ResourceFlavor]{}),
		source.Kind(main, &kueue.Workload{}, soon[*kueue.Workload](), hangsChanged()),
		source.Kind(memory, &corev1.ConfigMap{}, soon[*corev1.ConfigMap]()),
	}
	if tests != "" {
		all = append(all, source.Kind(main, &batchv1.Job{}, soon[*batchv1.Job](),
			predicate.NewTypedPredicateFuncs(func(j *batchv1.Job) bool {
				return j.Namespace == tests && j.Labels[convert.DeepTestLabel] != ""
			})))
	}
	return all
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// soon asks for a look at all nodes, once for all that happens within a moment.
func soon[T client.Object]() handler.TypedEventHandler[T, reconcile.Request] {
	all := reconcile.Request{NamespacedName: client.ObjectKey{Name: "nodes"}}
	return handler.TypedFuncs[T, reconcile.Request]{
		CreateFunc: func(_ context.Context, _ event.TypedCreateEvent[T], q queue) { q.AddAfter(all, together) },
		UpdateFunc: func(_ context.Context, _ event.TypedUpdateEvent[T], q queue) { q.AddAfter(all, together) },
		DeleteFunc: func(_ context.Context, _ event.TypedDeleteEvent[T], q queue) { q.AddAfter(all, together) },
	}
}

// nodeChanged lets through what findings are made of, and what is written on nodes here; heartbeats are neither.
func nodeChanged() predicate.TypedPredicate[*corev1.Node] {
	return predicate.TypedFuncs[*corev1.Node]{
		UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Node]) bool {
			return !reflect.DeepEqual(said(e.ObjectOld), said(e.ObjectNew))
		},
	}
}

// saidOf is what of a node bears on its health.
type saidOf struct {
	labels, annotations map[string]string
	checks              []health.Check
	taints              []corev1.Taint
	conditions          []nodehealth.Condition
	resources           []corev1.ResourceName
	going               bool
}

func said(n *corev1.Node) saidOf {
	out := saidOf{
		labels:      maps.Clone(n.Labels),
		annotations: map[string]string{},
		taints:      n.Spec.Taints,
		going:       n.DeletionTimestamp != nil,
	}
	for _, a := range []string{
		convert.ClearedAnnotation, convert.LabelledAnnotation, view.DrainAnnotation,
	} {
		out.annotations[a] = n.Annotations[a]
	}
	report, err := health.Read(n.Annotations)
	if err != nil {
		out.annotations[health.ChecksAnnotation] = n.Annotations[health.ChecksAnnotation]
	}
	for _, c := range report.Checks { // agents report each round anew that all is well
		switch c.Result {
		case health.Passed:
			if c.Deep {
				out.checks = append(out.checks, c)
			}
		case health.Skipped, health.Unknown:
		case health.Warned, health.Failed, health.Fatal:
			out.checks = append(out.checks, c)
		}
	}
	for _, c := range n.Status.Conditions {
		out.conditions = append(out.conditions, nodehealth.Condition{
			Type: string(
				c.Type,
			),
			Status:  string(c.Status),
			Reason:  c.Reason,
			Message: c.Message,
			Since:   c.LastTransitionTime.Time,
		})
	}
	out.resources = slices.Sorted(maps.Keys(n.Status.Capacity))
	return out
}

// devicesChanged lets through pods of which other devices are unhealthy than before.
func devicesChanged() predicate.TypedPredicate[*corev1.Pod] {
	bad := func(p *corev1.Pod) bool { return len(IndexDevices(p)) > 0 }
	return predicate.TypedFuncs[*corev1.Pod]{
		CreateFunc: func(e event.TypedCreateEvent[*corev1.Pod]) bool { return bad(e.Object) },
		UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Pod]) bool {
			return bad(e.ObjectOld) != bad(e.ObjectNew) ||
				bad(e.ObjectNew) && !reflect.DeepEqual(devicesOf(e.ObjectOld), devicesOf(e.ObjectNew))
		},
		DeleteFunc: func(e event.TypedDeleteEvent[*corev1.Pod]) bool { return bad(e.Object) },
	}
}

func devicesOf(p *corev1.Pod) [][2]string {
	var out [][2]string
	for resource, id := range convert.UnhealthyDevices(p) {
		out = append(out, [2]string{resource, id})
	}
	return out
}
