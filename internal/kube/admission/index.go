package admission

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Names of cache indexes: from a Workload's name to its pods, and from the UID of a job
// to the Workloads it controls.
const (
	PodIndex = "mlbatch.dev/workload"
	JobIndex = "mlbatch.dev/job"
)

// IndexPod returns the Workload that a pod belongs to, for PodIndex.
func IndexPod(o client.Object) []string {
	p, ok := o.(*corev1.Pod)
	if !ok || p.Annotations[kueue.WorkloadAnnotation] == "" {
		return nil
	}
	return []string{p.Annotations[kueue.WorkloadAnnotation]}
}

// IndexWorkload returns the UID of the job that controls a Workload, for
// JobIndex.
func IndexWorkload(o client.Object) []string {
	if owner := metav1.GetControllerOf(o); owner != nil {
		return []string{string(owner.UID)}
	}
	return nil
}

// WorkloadsOf lists the Workloads that a job controls.
func WorkloadsOf(
	ctx context.Context,
	c client.Reader,
	namespace string,
	job types.UID,
) ([]kueue.Workload, error) {
	var all kueue.WorkloadList
	if err := c.List(
		ctx,
		&all,
		client.InNamespace(namespace),
		client.MatchingFields{JobIndex: string(job)},
	); err != nil {
		return nil, fmt.Errorf("list workloads of job %s in namespace %s: %w", job, namespace, err)
	}
	return all.Items, nil
}
