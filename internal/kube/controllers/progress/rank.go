package progress

import (
	"cmp"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	jobset "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	kubeflow "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	leaderworkerset "github.com/mlbatch/mlbatch/api/leaderworkerset/v1"
	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
)

// rank is a pod with its number in the job.
type rank struct {
	rank int32
	pod  *corev1.Pod
}

// ranked numbers the pods of a job that are there: by their pod sets, then by the indexes that their labels
// tell, then by their names. Those that failed or are of an earlier attempt have none.
func ranked(w *kueue.Workload, pods []corev1.Pod) []rank {
	var out []rank
	for i := range pods {
		if pods[i].Status.Phase != corev1.PodFailed {
			out = append(out, rank{pod: &pods[i]})
		}
	}
	set := func(p *corev1.Pod) int {
		return slices.IndexFunc(w.Spec.PodSets, func(s kueue.PodSet) bool {
			return string(s.Name) == p.Labels[kueue.PodSetLabel]
		})
	}
	slices.SortStableFunc(out, func(a, b rank) int {
		return cmp.Or(
			cmp.Compare(set(a.pod), set(b.pod)),
			slices.Compare(index(a.pod), index(b.pod)),
			cmp.Compare(len(a.pod.Name), len(b.pod.Name)),
			cmp.Compare(a.pod.Name, b.pod.Name),
		)
	})
	for i := range out {
		out[i].rank = int32(i)
	}
	return out
}

// index is what the labels of a pod tell of its place in its pod set.
func index(p *corev1.Pod) []int {
	var out []int
	for _, key := range []string{
		jobset.JobIndexKey, leaderworkerset.GroupIndexLabel, recovery.IndexLabel, batchv1.JobCompletionIndexAnnotation,
		kubeflow.ReplicaIndexLabel, leaderworkerset.WorkerIndexLabel, kueue.PodGroupPodIndexLabel,
	} {
		if n, err := strconv.Atoi(p.Labels[key]); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// container is the one of a pod that its log is read of.
func container(p *corev1.Pod) string {
	if name := p.Annotations["kubectl.kubernetes.io/default-container"]; name != "" {
		return name
	}
	if len(p.Spec.Containers) > 0 {
		return p.Spec.Containers[0].Name
	}
	return ""
}
