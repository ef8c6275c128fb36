package job

import (
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
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
	author, count := *original[0].Template.DeepCopy(), original[0].Count
	author.Labels = withOwn(author.Labels, old.Labels)
	jobs.KeepInjected(t, old, &author)
	if shrinks(was) && !ptr.Deref(was.Spec.Suspend, false) && ptr.Deref(is.Spec.Parallelism, 1) == count {
		// Whoever changes completions that no admission reduced wants another size.
		if reducesWork(was) || ptr.Equal(is.Spec.Completions, was.Spec.Completions) {
			out.Spec.Parallelism = was.Spec.Parallelism
		}
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
