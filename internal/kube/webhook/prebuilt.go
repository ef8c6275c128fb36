package webhook

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// prebuilt refuses a job that names a Workload which is somebody else's. One that is not there may
// come later, and is judged then by whoever queues the job. was is nil for a new one.
func (c Cluster) prebuilt(
	ctx context.Context,
	namespace string,
	was, is metav1.Object,
) (field.ErrorList, error) {
	name, at := jobs.PrebuiltAt(is)
	if name == "" || was != nil && jobs.Prebuilt(was) == name {
		return nil, nil
	}
	var w kueue.Workload
	found, err := c.exists(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &w)
	if !found || err != nil {
		return nil, err
	}
	pods, err := c.podsWith(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	if taken := convert.Taken(&w, is.GetUID(), pods); taken != "" {
		return field.ErrorList{
			field.Invalid(
				at,
				name,
				fmt.Sprintf("the Workload %s: name one that was made for this job, or remove it", taken),
			),
		}, nil
	}
	return nil, nil
}

// podsWith counts the pods that hold quota by a Workload.
func (c Cluster) podsWith(ctx context.Context, namespace, workload string) (int, error) {
	var pods corev1.PodList
	if err := c.Cached.List(
		ctx,
		&pods,
		client.InNamespace(namespace),
		client.UnsafeDisableDeepCopy,
	); err != nil {
		return 0, fmt.Errorf("look for pods of Workload %s/%s: %w", namespace, workload, err)
	}
	n := 0
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Annotations[kueue.WorkloadAnnotation] == workload &&
			convert.PodState(p).HoldsQuota() {
			n++
		}
	}
	return n, nil
}
