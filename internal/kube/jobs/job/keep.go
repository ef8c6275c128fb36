package job

import (
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Keep returns a user's new state of a queued Job with what is not the user's as
// it was before: whether it is suspended, what its admission added to the pod
// template, the size that it gave the Job, and what the API server itself or
// a webhook wrote when the Job was created. original is the Job's pod set as its Workload has
// it, empty if there is none. Clients that write a manifest again (kubectl apply,
// replace) leave these out or say what they said first.
func Keep(was, is *batchv1.Job, original []kueue.PodSet) *batchv1.Job {
	out := is.DeepCopy()
	if !foreignPart(was) {
		out.Spec.Suspend = was.Spec.Suspend
	}
	if !ptr.Deref(out.Spec.ManualSelector, false) && out.Spec.Selector == nil {
		out.Spec.Selector = was.Spec.Selector.DeepCopy()
	}
	old, t := &was.Spec.Template, &out.Spec.Template
	t.Labels = withOwn(t.Labels, old.Labels)
	t.Spec.SchedulerName = old.Spec.SchedulerName
	if len(original) != 1 || old.Annotations[kueue.WorkloadAnnotation] == "" {
		return out
	}
	author, count := &original[0].Template, original[0].Count
	t.Labels = withAdded(t.Labels, old.Labels, withOwn(author.Labels, old.Labels))
	t.Annotations = withAdded(t.Annotations, old.Annotations, author.Annotations)
	t.Spec.NodeSelector = withAdded(t.Spec.NodeSelector, old.Spec.NodeSelector, author.Spec.NodeSelector)
	if equality.Semantic.DeepEqual(t.Spec.Tolerations, author.Spec.Tolerations) {
		t.Spec.Tolerations = slices.Clone(old.Spec.Tolerations)
	}
	if shrinks(was) && !ptr.Deref(was.Spec.Suspend, false) && ptr.Deref(is.Spec.Parallelism, 1) == count {
		out.Spec.Parallelism = was.Spec.Parallelism
		if reducesWork(was) && ptr.Deref(is.Spec.Completions, 0) == count {
			out.Spec.Completions = was.Spec.Completions
		}
	}
	return out
}

// foreignPart reports whether a Job is a part of an object of others, a JobSet
// for one, whose controller starts it.
func foreignPart(j *batchv1.Job) bool {
	owner := metav1.GetControllerOf(j)
	return owner != nil && owner.Kind != "AppWrapper"
}

// withAdded returns is with the entries of was that its author did not write.
func withAdded(is, was, author map[string]string) map[string]string {
	out := maps.Clone(is)
	for k, v := range was {
		_, wrote := author[k]
		_, has := is[k]
		if wrote || has {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[k] = v
	}
	return out
}
