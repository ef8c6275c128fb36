package rayjob

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/mlbatch/mlbatch/api/ray/v1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// project returns a job with the status that follows from what there is.
func project(o jobs.Object, _ *jobs.Plan, s *jobs.Standing) jobs.Object {
	j, err := cast(o)
	if err != nil {
		return o
	}
	out := *j
	out.Status = *j.Status.DeepCopy()
	state := &out.Status
	state.Recovery = s.Recovery()
	state.ObservedGeneration = j.Generation
	if !s.Started.IsZero() {
		state.StartTime = new(metav1.NewTime(s.Started))
	}
	if !s.Ended.IsZero() {
		state.EndTime = new(metav1.NewTime(s.Ended))
	}
	failed, succeeded := s.Attempt, int32(0) // each try begins anew
	switch s.Outcome {
	case podplan.JobSucceeded:
		succeeded = 1
	case podplan.JobFailed:
		failed++
	case podplan.Open:
	}
	state.Failed, state.Succeeded = &failed, &succeeded
	tell(j, state, s)
	return &out
}

// tell says how the job stands. How it ended stays.
func tell(j *api.RayJob, state *api.RayJobStatus, s *jobs.Standing) {
	if state.JobDeploymentStatus == api.DeploymentComplete || state.JobDeploymentStatus == api.DeploymentFailed {
		return
	}
	// The cluster's name follows from the try, which the status that is being written says.
	now := *j
	now.Status.Recovery = state.Recovery
	submits := s.Counts[submitterRole]
	switch {
	case s.Outcome == podplan.JobSucceeded:
		state.JobDeploymentStatus, state.JobStatus, state.Message, state.Reason = api.DeploymentComplete, api.JobSucceeded, "", ""
	case s.Outcome == podplan.JobFailed:
		state.JobDeploymentStatus, state.Message, state.Reason = api.DeploymentFailed, s.Message, api.AppFailed
		if s.Reason == podplan.DeadlineExceeded {
			state.Reason = api.DeadlineExceeded
		} else {
			state.JobStatus = api.JobFailed
		}
	case j.Spec.Suspend && s.Suspended:
		state.JobDeploymentStatus, state.JobStatus = api.DeploymentSuspended, ""
		state.RayClusterName, state.JobID, state.DashboardURL = "", "", ""
	case j.Spec.Suspend:
		state.JobDeploymentStatus = api.DeploymentSuspending
	case submits.Active > 0:
		state.JobDeploymentStatus, state.JobStatus = api.DeploymentRunning, api.JobRunning
		named(&now, state)
	case s.Attempt > 0:
		state.JobDeploymentStatus, state.JobStatus = api.DeploymentRetrying, ""
		named(&now, state)
	default:
		state.JobDeploymentStatus, state.JobStatus = api.DeploymentInitializing, ""
		named(&now, state)
	}
}

func named(j *api.RayJob, state *api.RayJobStatus) {
	state.RayClusterName, state.JobID, state.DashboardURL = clusterName(j), jobID(j), dashboard(j)
}
