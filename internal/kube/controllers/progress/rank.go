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
	sets := make(map[string]int, len(w.Spec.PodSets))
	for i := range w.Spec.PodSets {
		sets[string(w.Spec.PodSets[i].Name)] = i
	}
	// What orders a pod is read once: a pod of ten thousand is compared with others a dozen times.
	places := make([]place, 0, len(pods))
	indexes := make([]int, 0, 2*len(pods))
	for i := range pods {
		p := &pods[i]
		if p.Status.Phase == corev1.PodFailed {
			continue
		}
		set, known := sets[p.Labels[kueue.PodSetLabel]]
		if !known {
			set = -1
		}
		from := len(indexes)
		indexes = appendIndex(indexes, p)
		places = append(places, place{pod: p, set: set, index: indexes[from:len(indexes):len(indexes)]})
	}
	slices.SortStableFunc(places, func(a, b place) int {
		return cmp.Or(
			cmp.Compare(a.set, b.set),
			slices.Compare(a.index, b.index),
			cmp.Compare(len(a.pod.Name), len(b.pod.Name)),
			cmp.Compare(a.pod.Name, b.pod.Name),
		)
	})
	out := make([]rank, len(places))
	for i := range places {
		out[i] = rank{rank: int32(i), pod: places[i].pod}
	}
	return out
}

// place is what orders a pod in its job: its pod set, and what its labels tell of its place in that.
type place struct {
	pod   *corev1.Pod
	set   int
	index []int
}

// appendIndex appends what the labels of a pod tell of its place in its pod set.
func appendIndex(to []int, p *corev1.Pod) []int {
	for _, key := range [...]string{
		jobset.JobIndexKey, leaderworkerset.GroupIndexLabel, recovery.IndexLabel, batchv1.JobCompletionIndexAnnotation,
		kubeflow.ReplicaIndexLabel, leaderworkerset.WorkerIndexLabel, kueue.PodGroupPodIndexLabel,
	} {
		text := p.Labels[key]
		if text == "" {
			continue
		}
		if n, err := strconv.Atoi(text); err == nil {
			to = append(to, n)
		}
	}
	return to
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
