package job

import (
	"math"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// defaultRetries is the backoffLimit of a Job that says none.
const defaultRetries = 6

func replacesPods(o jobs.Object, pods []corev1.Pod) (n int32, open bool) {
	j, err := cast(o)
	if err != nil {
		return 0, false
	}
	return replaces(j, pods)
}

// replaces is how many more pods of a Job can be evicted, so that Kubernetes makes each
// anew. It counts an evicted pod as a failed one, unless the Job says that disruptions
// do not count: more than its retries would end the Job. How many retries are left of
// each index, if they are counted so, is not known.
//
// A pod that was deleted, or has failed, is counted some time later: first by its UID,
// then it loses its finalizer, then by number.
func replaces(j *batchv1.Job, pods []corev1.Pod) (n int32, open bool) {
	switch {
	case ptr.Deref(j.Spec.Suspend, false) || finished(j) != nil:
		return 0, false
	case disruptionsIgnored(j.Spec.PodFailurePolicy):
		return math.MaxInt32, false
	case j.Spec.BackoffLimitPerIndex != nil:
		return 0, false
	}
	var counted []types.UID
	if u := j.Status.UncountedTerminatedPods; u != nil {
		counted = u.Failed
	}
	failed := int(j.Status.Failed) + len(counted)
	for i := range pods {
		p := &pods[i]
		fails := p.Status.Phase == corev1.PodFailed ||
			p.DeletionTimestamp != nil && p.Status.Phase != corev1.PodSucceeded
		if fails && slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer) &&
			!slices.Contains(counted, p.UID) {
			failed++
			open = true
		}
	}
	return int32( //nolint:gosec // at most the limit
		max(int(ptr.Deref(j.Spec.BackoffLimit, defaultRetries))-failed, 0),
	), open
}

// disruptionsIgnored reports whether the first rule of a policy that is about
// evicted pods ignores them. Rules about exit codes may come first: what a pod ends
// with when it is evicted is not known.
func disruptionsIgnored(p *batchv1.PodFailurePolicy) bool {
	if p == nil {
		return false
	}
	i := slices.IndexFunc(p.Rules, func(r batchv1.PodFailurePolicyRule) bool {
		return r.OnExitCodes != nil ||
			slices.ContainsFunc(r.OnPodConditions, func(c batchv1.PodFailurePolicyOnPodConditionsPattern) bool {
				return c.Type == corev1.DisruptionTarget
			})
	})
	return i >= 0 && p.Rules[i].OnExitCodes == nil && p.Rules[i].Action == batchv1.PodFailurePolicyActionIgnore
}
