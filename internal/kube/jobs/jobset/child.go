package jobset

import (
	batchv1 "k8s.io/api/batch/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/job"
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

// elastic is how Jobs are members of a JobSet: they may get another number of pods.
func elastic() jobs.ChildKind {
	k := job.Child()
	release := k.Release
	k.Release = func(is, wanted jobs.Object) jobs.Object { return resized(release(is, wanted), wanted) }
	k.Adjust = resized
	return k
}

// resized returns a Job with as many pods as another one. Of Indexed Jobs these are their
// completions as well; others stay as they are.
func resized(is, wanted jobs.Object) jobs.Object {
	was, wasJob := is.(*batchv1.Job)
	like, likeJob := wanted.(*batchv1.Job)
	if !wasJob || !likeJob || ptr.Deref(like.Spec.CompletionMode, "") != batchv1.IndexedCompletion {
		return is
	}
	pods, all := ptr.Deref(like.Spec.Parallelism, 1), ptr.Deref(like.Spec.Completions, 1)
	if pods != all || ptr.Deref(was.Spec.Parallelism, 1) == pods && ptr.Deref(was.Spec.Completions, 1) == all {
		return is
	}
	out := was.DeepCopy()
	out.Spec.Parallelism, out.Spec.Completions = &pods, &all
	return out
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
	if c := apimeta.FindStatusCondition(
		s.Conditions,
		api.JobSetFailed,
	); c != nil &&
		c.Status == metav1.ConditionTrue {
		return podplan.Seen{
			Life:     podplan.Failed,
			Over:     true,
			Reason:   c.Reason,
			Why:      c.Message,
			FailedAt: c.LastTransitionTime.Time,
		}
	}
	out := podplan.Seen{Held: suspended(js)}
	switch {
	case out.Held:
		out.Over = !active(s)
	case ready(read(js)):
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
