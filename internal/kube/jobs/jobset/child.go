package jobset

import (
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// Child is how JobSets are members of jobs of other kinds.
func Child() jobs.ChildKind {
	return jobs.ChildKind{
		GVK: gvk(), New: adapter{}.New, See: seeChild,
		Hold: jobs.Changing(func(js *api.JobSet) { js.Spec.Suspend = new(true) }),
		Release: func(is, wanted jobs.Object) jobs.Object {
			w, err := cast(wanted)
			if err != nil {
				return is
			}
			return jobs.Changing(func(js *api.JobSet) { release(js, w) })(is)
		},
	}
}

// seeChild reads how far a JobSet is. One that is suspended runs no more once none of its
// Jobs does.
func seeChild(o jobs.Object) podplan.Seen {
	js, err := cast(o)
	if err != nil {
		return podplan.Seen{}
	}
	s := &js.Status
	if holds(s, api.JobSetCompleted) {
		return podplan.Seen{Life: podplan.Succeeded, Over: true}
	}
	if c := apimeta.FindStatusCondition(s.Conditions, api.JobSetFailed); c != nil && c.Status == metav1.ConditionTrue {
		return podplan.Seen{Life: podplan.Failed, Over: true, Reason: c.Reason, Why: c.Message, FailedAt: c.LastTransitionTime.Time}
	}
	out := podplan.Seen{Held: suspended(js)}
	switch {
	case out.Held:
		out.Over = !active(s)
	case s.Recovery != nil && s.Recovery.Ready:
		out.Life = podplan.Ready
	default:
		for i := range s.ReplicatedJobsStatus {
			if s.ReplicatedJobsStatus[i].Active > 0 {
				out.Life = podplan.Running
			}
		}
	}
	return out
}

// release starts a JobSet with what the admission gives its pods now.
func release(js, wanted *api.JobSet) {
	by := map[string]*api.ReplicatedJob{}
	for i := range wanted.Spec.ReplicatedJobs {
		by[wanted.Spec.ReplicatedJobs[i].Name] = &wanted.Spec.ReplicatedJobs[i]
	}
	for i := range js.Spec.ReplicatedJobs {
		if from := by[js.Spec.ReplicatedJobs[i].Name]; from != nil {
			copyDirectives(&js.Spec.ReplicatedJobs[i], from)
		}
	}
	js.Spec.Suspend = new(false)
}

// copyDirectives copies what may change of a role while its JobSet is suspended.
func copyDirectives(to, from *api.ReplicatedJob) {
	t, f := &to.Template.Spec.Template, from.Template.Spec.Template.DeepCopy()
	t.Labels, t.Annotations = f.Labels, f.Annotations
	t.Spec.NodeSelector, t.Spec.Tolerations, t.Spec.SchedulingGates = f.Spec.NodeSelector, f.Spec.Tolerations, f.Spec.SchedulingGates
}
