package metrics

import (
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Of returns the labels of a Workload that holds or held quota of a
// ClusterQueue.
func Of(w *kueue.Workload, queue string) Workload {
	out := Workload{ClusterQueue: queue, Namespace: w.Namespace, LocalQueue: string(w.Spec.QueueName)}
	if w.Spec.PriorityClassRef != nil {
		out.PriorityClass = w.Spec.PriorityClassRef.Name
	}
	return out
}

// QueuedSince is when a Workload began to wait: when it was made, or queued
// again after an eviction.
func QueuedSince(w *kueue.Workload) time.Time {
	if c := apimeta.FindStatusCondition(
		w.Status.Conditions,
		kueue.WorkloadRequeued,
	); c != nil &&
		c.LastTransitionTime.After(w.CreationTimestamp.Time) {
		return c.LastTransitionTime.Time
	}
	return w.CreationTimestamp.Time
}

// Ended counts a Workload that has just finished; one that never held quota
// does not count.
func (m *Metrics) Ended(w *kueue.Workload) {
	finished := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadFinished)
	admitted := apimeta.FindStatusCondition(w.Status.Conditions, kueue.WorkloadAdmitted)
	if finished == nil || admitted == nil || w.Status.Admission == nil {
		return
	}
	m.Finished(
		Of(w, string(w.Status.Admission.ClusterQueue)),
		finished.LastTransitionTime.Sub(admitted.LastTransitionTime.Time),
	)
}
