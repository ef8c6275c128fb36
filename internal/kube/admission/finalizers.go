package admission

import (
	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Finalizers are those of a Workload: one keeps it, and with it its quota, until its pods are
// gone, the other until its end is recorded.
func Finalizers() []string { return []string{kueue.ResourceInUseFinalizer, history.Finalizer} }
