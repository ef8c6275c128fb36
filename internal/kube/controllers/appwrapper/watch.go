package appwrapper

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	awv1beta2 "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// ends lets through what changes the verdict of a component of a native kind, and
// its deletion.
func ends(k *jobs.Kind) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			same := k.Queueing.Wrapped.SameOutcome
			return same == nil || marked(e.ObjectOld) != marked(e.ObjectNew) || !same(e.ObjectOld, e.ObjectNew)
		},
	}
}

func marked(o client.Object) bool { return o.GetDeletionTimestamp() != nil }

// podChanges lets through what counts of a pod: that it is there, its phase,
// its node, and its deletion.
func podChanges() predicate.Predicate {
	ours := predicate.NewPredicateFuncs(
		func(o client.Object) bool { return o.GetLabels()[awv1beta2.AppWrapperLabel] != "" },
	)
	return predicate.And(ours, predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*corev1.Pod)
			after, ok2 := e.ObjectNew.(*corev1.Pod)
			if !ok1 || !ok2 {
				return true
			}
			return marked(before) != marked(after) || disrupted(before) != disrupted(after) ||
				before.Status.Phase != after.Status.Phase ||
				before.Spec.NodeName != after.Spec.NodeName
		},
	})
}

// disrupted reports whether a pod is to make way, so that it is about to go.
func disrupted(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue
	})
}

// nodeTurnsBad lets through nodes that pods have to leave from now on, and those
// that are gone.
func nodeTurnsBad(avoid []jobs.Avoidance) predicate.Predicate {
	leave := func(o client.Object) string { return jobs.Evicting(o.GetLabels(), avoid) }
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return leave(e.Object) != "" },
		UpdateFunc:  func(e event.UpdateEvent) bool { return leave(e.ObjectNew) != "" && leave(e.ObjectOld) == "" },
		DeleteFunc:  func(event.DeleteEvent) bool { return true },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}
