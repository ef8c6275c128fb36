package jobs

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Scope says which jobs wait for admission; all others are left alone. The zero
// value: jobs that name a queue, and all jobs of team namespaces.
type Scope struct {
	// Namespaces selects where jobs wait at all, whatever their labels; nil
	// selects every namespace.
	Namespaces labels.Selector
	// WithoutQueue includes jobs that name no queue in every selected namespace.
	WithoutQueue bool
}

// Covers reports whether a job with this queue name ("" for none) in this
// namespace waits for admission.
func (s Scope) Covers(ns *corev1.Namespace, queue string) bool {
	if s.Namespaces != nil && !s.Namespaces.Matches(labels.Set(ns.Labels)) {
		return false
	}
	return queue != "" || s.WithoutQueue || ns.Labels[kueue.TeamNamespaceLabel] == "true"
}

// Prebuilt names the Workload that was made for a job beforehand, "" if the job
// names none. The annotation wins, because it can hold longer names.
func Prebuilt(o metav1.Object) string {
	if name := o.GetAnnotations()[kueue.PrebuiltWorkloadLabel]; name != "" {
		return name
	}
	return o.GetLabels()[kueue.PrebuiltWorkloadLabel]
}
