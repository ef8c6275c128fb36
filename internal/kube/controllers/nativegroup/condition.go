package nativegroup

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
)

// reasonScheduled is Kubernetes' reason of the condition once it is true; its API has no name for it.
const reasonScheduled = "Scheduled"

// facts is what the condition of one PodGroup depends on.
type facts struct {
	group *schedulingv1beta1.PodGroup
	// pods are those that name it.
	pods []*corev1.Pod
	// workload is by which they wait, or the first of them; nil if there is none, and unqueued then says why.
	workload *kueue.Workload
	unqueued string
}

// condition is what a PodGroup that was not scheduled yet is to say; nil if that is none of our business, or not known.
func condition(s facts) *metav1.Condition {
	if s.workload == nil && !slices.ContainsFunc(s.pods, ours) {
		return nil
	}
	least := int32(1)
	if g := s.group.Spec.SchedulingPolicy.Gang; g != nil {
		least = g.MinCount
	}
	if bound(s.pods) >= least {
		return &metav1.Condition{
			Type:    schedulingv1beta1.PodGroupInitiallyScheduled,
			Status:  metav1.ConditionTrue,
			Reason:  reasonScheduled,
			Message: fmt.Sprintf("It has as many pods with nodes as start together: %d", least),
		}
	}
	why := waits(s.workload, s.unqueued)
	if why == "" {
		return nil
	}
	return &metav1.Condition{
		Type:    schedulingv1beta1.PodGroupInitiallyScheduled,
		Status:  metav1.ConditionFalse,
		Reason:  schedulingv1beta1.PodGroupReasonUnschedulable,
		Message: why,
	}
}

// ours reports whether a pod waits for admission here, or counts with a job that did.
func ours(p *corev1.Pod) bool {
	return podmeta.Managed(p) || p.Annotations[kueue.WorkloadAnnotation] != ""
}

// bound is how many pods have, or had, a node.
func bound(pods []*corev1.Pod) int32 {
	n := int32(0)
	for _, p := range pods {
		if p.Spec.NodeName != "" {
			n++
		}
	}
	return n
}

// waits says what pods wait for, by their Workload or, if they have none, as it is said why; "" if it is not known.
func waits(w *kueue.Workload, unqueued string) string {
	if w != nil {
		switch c := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadQuotaReserved); {
		case c == nil:
			return ""
		case c.Status == metav1.ConditionTrue:
			return "It has quota, and waits until its pods have their nodes"
		default:
			return c.Message
		}
	}
	return unqueued
}
