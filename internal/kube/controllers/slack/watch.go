package slack

import (
	"context"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// sources are all that can change the lending: whatever happens, the same one
// request follows.
func sources(main, inventories cache.Cache, o Options) []source.Source {
	all := []source.Source{
		source.Kind(main, &corev1.Node{}, always[*corev1.Node](o), nodeChanged()),
		source.Kind(main, &kueue.ClusterQueue{}, always[*kueue.ClusterQueue](o),
			predicate.TypedGenerationChangedPredicate[*kueue.ClusterQueue]{}),
		source.Kind(main, &kueue.Cohort{}, always[*kueue.Cohort](o),
			predicate.TypedGenerationChangedPredicate[*kueue.Cohort]{}),
		source.Kind(main, &kueue.AdmissionCheck{}, always[*kueue.AdmissionCheck](o),
			predicate.TypedGenerationChangedPredicate[*kueue.AdmissionCheck]{}),
		source.Kind(main, &kueue.ResourceFlavor{}, always[*kueue.ResourceFlavor](o),
			predicate.Or[*kueue.ResourceFlavor](
				predicate.TypedGenerationChangedPredicate[*kueue.ResourceFlavor]{},
				predicate.TypedAnnotationChangedPredicate[*kueue.ResourceFlavor]{},
			)),
		source.Kind(
			inventories,
			&corev1.ConfigMap{},
			always[*corev1.ConfigMap](o),
			named[*corev1.ConfigMap](InventoryName),
		),
	}
	if o.Health != nil {
		all = append(all, source.Kind(o.Health, &corev1.ConfigMap{}, always[*corev1.ConfigMap](o)))
	}
	return all
}

func always[T client.Object](o Options) handler.TypedEventHandler[T, reconcile.Request] {
	requests := []reconcile.Request{{NamespacedName: client.ObjectKey{Name: o.Queue}}}
	return handler.TypedEnqueueRequestsFromMapFunc(
		func(context.Context, T) []reconcile.Request { return requests },
	)
}

func named[T client.Object](name string) predicate.TypedPredicate[T] {
	return predicate.NewTypedPredicateFuncs(func(o T) bool { return o.GetName() == name })
}

// nodeChanged lets through what bears on the health of a node or on the
// flavors it serves; heartbeats do not.
func nodeChanged() predicate.TypedPredicate[*corev1.Node] {
	return predicate.TypedFuncs[*corev1.Node]{
		UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Node]) bool {
			return !reflect.DeepEqual(convert.NodeSignals(e.ObjectOld), convert.NodeSignals(e.ObjectNew))
		},
	}
}
