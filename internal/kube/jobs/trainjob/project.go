package trainjob

import (
	"cmp"
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	jobset "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	api "github.com/mlbatch/mlbatch/api/trainer/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// project returns a TrainJob with the status that follows from what there is.
func project(o jobs.Object, _ *jobs.Plan, s *jobs.Progress) jobs.Object {
	t, err := cast(o)
	if err != nil {
		return o
	}
	out := t.DeepCopy()
	var set *jobset.JobSet
	for _, c := range s.Children {
		set, _ = c.(*jobset.JobSet)
	}
	tell(out, s, set)
	switch {
	case set != nil && len(set.Status.ReplicatedJobsStatus) > 0:
		out.Status.JobsStatus = nil
		for _, j := range set.Status.ReplicatedJobsStatus {
			out.Status.JobsStatus = append(out.Status.JobsStatus, api.JobStatus{
				Name:      j.Name,
				Ready:     j.Ready,
				Succeeded: j.Succeeded,
				Failed:    j.Failed,
				Active:    j.Active,
				Suspended: j.Suspended,
			})
		}
	case s.Outcome == podplan.Open:
		out.Status.JobsStatus = awaited(out, s)
	default: // it was removed, and with it all that ran
		for i := range out.Status.JobsStatus {
			out.Status.JobsStatus[i].Active, out.Status.JobsStatus[i].Ready = 0, 0
		}
	}
	return out
}

// awaited are the Jobs of a TrainJob whose JobSet does not tell of them yet: from when it may be there the
// status says that there may be pods, see active.
func awaited(t *api.TrainJob, s *jobs.Progress) []api.JobStatus {
	if s.Started.IsZero() {
		return nil
	}
	r, err := rendered(t)
	if err != nil {
		return nil
	}
	var out []api.JobStatus
	for i := range r.set.Spec.ReplicatedJobs {
		out = append(out, api.JobStatus{Name: r.set.Spec.ReplicatedJobs[i].Name})
	}
	return out
}

// told is what a status says of what is remembered.
func told(t *api.TrainJob) podplan.RetryState {
	for _, end := range []string{api.TrainJobComplete, api.TrainJobFailed} {
		if c := apimeta.FindStatusCondition(
			t.Status.Conditions,
			end,
		); c != nil &&
			c.Status == metav1.ConditionTrue {
			return jobs.EndedAs(&jobs.Outcome{Success: end == api.TrainJobComplete}, &c.LastTransitionTime)
		}
	}
	return podplan.RetryState{Started: jobs.Begun(t, nil, active(t))}
}

// tell brings the conditions up to date. What a finished job says stays.
func tell(t *api.TrainJob, s *jobs.Progress, set *jobset.JobSet) {
	held := suspended(t)
	switch {
	case finished(t) != nil:
	case s.Outcome == podplan.JobSucceeded:
		say(
			t,
			s,
			api.TrainJobComplete,
			ended(set, jobset.JobSetCompleted, jobset.AllJobsCompletedReason, "the training is complete"),
		)
	case s.Outcome == podplan.JobFailed && s.Reason == podplan.DeadlineExceeded:
		say(t, s, api.TrainJobFailed, metav1.Condition{Reason: api.DeadlineExceededReason, Message: s.Message})
	case s.Outcome == podplan.JobFailed:
		say(t, s, api.TrainJobFailed, ended(set, jobset.JobSetFailed, jobset.FailedJobsReason, s.Message))
	case held && s.Suspended:
		say(
			t,
			s,
			api.TrainJobSuspended,
			metav1.Condition{Reason: api.SuspendedReason, Message: "the TrainJob is suspended"},
		)
	case held: // its pods are about to go
	case apimeta.IsStatusConditionTrue(t.Status.Conditions, api.TrainJobSuspended):
		say(
			t,
			s,
			api.TrainJobSuspended,
			metav1.Condition{
				Status:  metav1.ConditionFalse,
				Reason:  api.ResumedReason,
				Message: "the TrainJob was resumed",
			},
		)
	}
}

// ended is how the JobSet ended, in its words, or in ours if it is gone.
func ended(set *jobset.JobSet, how, reason, message string) metav1.Condition {
	if set != nil {
		if c := apimeta.FindStatusCondition(
			set.Status.Conditions,
			how,
		); c != nil &&
			c.Status == metav1.ConditionTrue {
			return metav1.Condition{Reason: c.Reason, Message: c.Message}
		}
	}
	return metav1.Condition{Reason: reason, Message: message}
}

// say puts a condition at the end, where people are shown the last one, unless it is there
// already.
func say(t *api.TrainJob, s *jobs.Progress, kind string, c metav1.Condition) {
	c.Type, c.Status = kind, cmp.Or(c.Status, metav1.ConditionTrue)
	c.LastTransitionTime = metav1.NewTime(s.Now)
	if was := apimeta.FindStatusCondition(t.Status.Conditions, kind); was != nil {
		if was.Status == c.Status && was.Reason == c.Reason && was.Message == c.Message {
			return
		}
		if was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime
		}
	}
	t.Status.Conditions = append(
		slices.DeleteFunc(t.Status.Conditions, func(x metav1.Condition) bool { return x.Type == kind }),
		c,
	)
}
