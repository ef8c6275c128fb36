package admission

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// Retries reads what a job, its queues and the configuration file say of its retries. What makes no sense, which the
// webhooks refuse, says nothing; problems are told to its author.
func Retries(
	ctx context.Context,
	c client.Reader,
	job jobs.Object,
	file *core.RetryText,
) (out jobs.Retries, problem, err error) {
	if out.Job, problem = jobs.RetryTextOf(job, jobs.RetryFromJob); problem != nil {
		out.Job = nil
	}
	if name := job.GetLabels()[kueue.QueueNameLabel]; name != "" {
		var lq kueue.LocalQueue
		key := types.NamespacedName{Namespace: job.GetNamespace(), Name: name}
		if err := c.Get(ctx, key, &lq, client.UnsafeDisableDeepCopy); err != nil {
			if err = client.IgnoreNotFound(err); err != nil {
				return out, problem, fmt.Errorf("read the LocalQueue of a job: %w", err)
			}
		} else {
			var cq kueue.ClusterQueue
			key := types.NamespacedName{Name: string(lq.Spec.ClusterQueue)}
			err := c.Get(ctx, key, &cq, client.UnsafeDisableDeepCopy)
			if err = client.IgnoreNotFound(err); err != nil {
				return out, problem, fmt.Errorf("read the ClusterQueue of a job: %w", err)
			}
			out.Others = jobs.QueueRetries(&lq, &cq)
		}
	}
	out.Others = append(out.Others, file)
	return out, problem, nil
}
