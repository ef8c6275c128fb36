package job

import (
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// Child is how Jobs are members of jobs of other kinds.
func Child() jobs.ChildKind {
	return jobs.ChildKind{
		GVK: Adapter{}.GVK(), New: Adapter{}.New,
		See:  seeChild,
		Hold: jobs.Changing(func(j *batchv1.Job) { j.Spec.Suspend = new(true) }),
		Release: func(is, wanted jobs.Object) jobs.Object {
			w, typed := wanted.(*batchv1.Job)
			if !typed {
				return is
			}
			return jobs.Changing(func(j *batchv1.Job) { release(j, w) })(is)
		},
	}
}

// seeChild reads how far a Job is. One that is suspended runs no more once its controller has
// said so, and one that ended once its last pod did.
func seeChild(o jobs.Object) podplan.Seen {
	j, err := cast(o)
	if err != nil {
		return podplan.Seen{}
	}
	var failing *batchv1.JobCondition
	for i, c := range j.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == batchv1.JobComplete:
			return podplan.Seen{Life: podplan.Succeeded, Over: true}
		case c.Type == batchv1.JobFailed:
			return podplan.Seen{
				Life:     podplan.Failed,
				Over:     true,
				Reason:   c.Reason,
				Why:      c.Message,
				FailedAt: c.LastTransitionTime.Time,
			}
		case c.Type == batchv1.JobFailureTarget:
			failing = &j.Status.Conditions[i]
		}
	}
	s := podplan.Seen{Held: ptr.Deref(j.Spec.Suspend, false)}
	if failing != nil {
		s.Failing, s.Reason, s.Why, s.FailedAt = true, failing.Reason, failing.Message, failing.LastTransitionTime.Time
	}
	switch {
	case s.Held:
		s.Over = saysSuspended(j) && j.Status.Active == 0 && ptr.Deref(j.Status.Terminating, 0) == 0
	case ready(j):
		s.Life = podplan.Ready
	case j.Status.Active > 0:
		s.Life = podplan.Running
	}
	return s
}

// release starts a Job with what the admission gives its pods now.
func release(j, wanted *batchv1.Job) {
	to, from := &j.Spec.Template, wanted.Spec.Template.DeepCopy()
	to.Labels = withOwn(from.Labels, to.Labels)
	to.Annotations = maps.Clone(from.Annotations)
	to.Spec.NodeSelector, to.Spec.Tolerations = from.Spec.NodeSelector, slices.Clone(from.Spec.Tolerations)
	to.Spec.Affinity, to.Spec.SchedulingGates = from.Spec.Affinity, from.Spec.SchedulingGates
	j.Spec.Suspend = new(false)
}
