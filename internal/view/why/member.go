package why

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	jobset "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	kubeflow "github.com/mlbatch/mlbatch/api/kubeflow/v1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	ray "github.com/mlbatch/mlbatch/api/ray/v1"
	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	grouped "github.com/mlbatch/mlbatch/internal/kube/jobs/serving"
)

// Member is a pod in its place in the job.
type Member struct {
	Pod *corev1.Pod
	// Role is what the pod is there for, "" in jobs whose pods are all alike.
	Role string
	// Index counts in the role and Rank in the job, both from 0. Pods that took one another's
	// place, such as those of retries, have the same ones.
	Index, Rank int
}

// Name is the role and the index in it: "worker 3"; of pods that are all alike, "pod 3".
func (m *Member) Name() string { return fmt.Sprintf("%s %d", cmp.Or(m.Role, "pod"), m.Index) }

// Members puts pods of a job in their places, in the order of their ranks: roles in the order
// of the Workload's pod sets, and in each by the index that the pod's labels say. Pods whose
// labels say none come in the order of their names. w may be nil.
func Members(w *kueue.Workload, pods []corev1.Pod) []Member {
	out := make([]Member, len(pods))
	for i := range pods {
		out[i] = Member{Pod: &pods[i], Role: memberRole(w, &pods[i]), Index: memberIndex(w, &pods[i])}
	}
	slices.SortStableFunc(out, func(a, b Member) int {
		first, _ := podSetPlace(w, a.Pod)
		second, _ := podSetPlace(w, b.Pod)
		return cmp.Or(
			cmp.Compare(first, second), cmp.Compare(a.Role, b.Role), cmp.Compare(a.Index, b.Index),
			a.Pod.CreationTimestamp.Compare(b.Pod.CreationTimestamp.Time), cmp.Compare(a.Pod.Name, b.Pod.Name))
	})
	// Pods without an index count on in their role, and roles count on from each other.
	offset, next, end := 0, 0, 0
	for i := range out {
		m := &out[i]
		before, count := podSetPlace(w, m.Pod)
		if i == 0 || m.Role != out[i-1].Role {
			offset, next = max(before, end), 0
		}
		if m.Index < 0 {
			m.Index = next
		}
		next = m.Index + 1
		end = max(end, offset+next, before+count)
		if m.Rank = offset + m.Index; grouped.GroupedPod(m.Pod.Labels) != nil {
			m.Rank = m.Index // which counts the leader, too
		}
	}
	return out
}

// memberRole is what a pod's labels call its role, "" if they do not.
func memberRole(w *kueue.Workload, p *corev1.Pod) string {
	for _, key := range []string{recovery.RoleLabel, kubeflow.ReplicaTypeLabel, jobset.ReplicatedJobNameKey, ray.NodeTypeLabel} {
		if role := p.Labels[key]; role != "" {
			return role
		}
	}
	role := p.Labels[kueue.PodSetLabel]
	hashed := p.Labels[kueue.PodGroupNameLabel] != "" && grouped.GroupedPod(p.Labels) == nil
	if role == string(kueue.DefaultPodSetName) || hashed || w != nil && len(w.Spec.PodSets) == 1 {
		return "" // no name that anybody gave it, or none that is needed
	}
	return role
}

// memberIndex is what a pod's labels say of its place in its role, -1 if they say nothing.
func memberIndex(w *kueue.Workload, p *corev1.Pod) int {
	number := func(key string) int {
		n, err := strconv.Atoi(p.Labels[key])
		if err != nil || n < 0 {
			return -1
		}
		return n
	}
	completion := number(batchv1.JobCompletionIndexAnnotation)
	if job := number(jobset.JobIndexKey); job >= 0 { // a role of a JobSet is several Jobs of as many pods each
		each := 1
		if jobs := number(jobset.ReplicatedJobReplicas); jobs > 0 {
			_, count := podSetPlace(w, p)
			each = max(1, count/jobs)
		}
		return job*each + max(completion, 0)
	}
	keys := []string{recovery.IndexLabel, batchv1.JobCompletionIndexAnnotation, kubeflow.ReplicaIndexLabel}
	if groups := grouped.GroupedPod(p.Labels); groups != nil {
		keys = append(keys, groups.PodIndexLabel)
	}
	for _, key := range append(keys, kueue.PodGroupPodIndexLabel, appsv1.PodIndexLabel) {
		if n := number(key); n >= 0 {
			return n
		}
	}
	return -1
}

// podSetPlace is how many pods there are to be in the pod sets before that of a pod, and how many
// in its own: all of them before a pod of none.
func podSetPlace(w *kueue.Workload, p *corev1.Pod) (before, count int) {
	if w == nil {
		return 0, 0
	}
	for i := range w.Spec.PodSets {
		s := &w.Spec.PodSets[i]
		if string(s.Name) == p.Labels[kueue.PodSetLabel] {
			return before, int(s.Count)
		}
		before += int(s.Count)
	}
	return before, 0
}
