package rayjob

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/mlbatch/mlbatch/api/ray/v1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// project returns a job with the status that follows from what there is.
func project(o jobs.Object, _ *jobs.Plan, s *jobs.Progress) jobs.Object {
	j, err := cast(o)
	if err != nil {
		return o
	}
	out := *j
	out.Status = *j.Status.DeepCopy()
	state := &out.Status
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
	if at, leave := workersGo(&out, s.Ended); leave && !at.After(s.Now) && state.WorkersDeletedTime == nil {
		state.WorkersDeletedTime = new(metav1.NewTime(s.Now))
	}
	return &out
}

// remembered is what a status says of what is remembered.
func remembered(j *api.RayJob) podplan.RetryState {
	m := podplan.RetryState{}
	if how := finished(j); how != nil {
		m = jobs.EndedAs(how, j.Status.EndTime)
	}
	m.Started = jobs.Begun(j, j.Status.StartTime, active(j) || m.Outcome != podplan.Open)
	m.Attempt = attempt(j)
	m.Failures = m.Attempt
	return m
}

// tell says how the job stands. How it ended stays.
func tell(j *api.RayJob, state *api.RayJobStatus, s *jobs.Progress) {
	if state.JobDeploymentStatus == api.DeploymentComplete || state.JobDeploymentStatus == api.DeploymentFailed {
		return
	}
	// The cluster's name follows from the try, which the status that is being written says.
	now := *j
	now.Status.Failed = &s.Attempt
	info, _ := told(&now, s.Answers)
	if !asks(&now) {
		info = nil
	}
	as := api.JobNew
	if info != nil && !s.Started.IsZero() {
		as, state.Message, state.RayJobInfo = info.Status, info.Message, &api.RayJobInfo{
			StartTime: moment(info.StartTime),
			EndTime:   moment(info.EndTime),
		}
	}
	submits := s.Counts[submitterRole].Active+s.Counts[jobRole].Active > 0
	switch {
	case s.Outcome == podplan.JobSucceeded:
		state.JobDeploymentStatus, state.JobStatus, state.Reason = api.DeploymentComplete, api.JobSucceeded, ""
	case s.Outcome == podplan.JobFailed:
		fail(j, state, s)
	case j.Spec.Suspend && s.Suspended:
		state.JobDeploymentStatus, state.JobStatus, state.Message, state.RayJobInfo = api.DeploymentSuspended, "", "", nil
		state.RayClusterName, state.JobID, state.DashboardURL = "", "", ""
	case j.Spec.Suspend:
		state.JobDeploymentStatus = api.DeploymentSuspending
	case submits:
		state.JobDeploymentStatus, state.JobStatus = api.DeploymentRunning, cmp.Or(
			as,
			state.JobStatus,
			api.JobPending,
		)
		if as == api.JobNew && mode(j) == api.K8sJobMode && state.JobStatus == api.JobPending {
			state.JobStatus = api.JobRunning // its submitter runs, which is all that can be told
		}
		named(&now, state)
	case mode(j) != api.K8sJobMode && state.JobDeploymentStatus == api.DeploymentRunning && s.Attempt == attempt(j):
		// Who tells of it does not answer at the moment.
	case s.Attempt > 0:
		state.JobDeploymentStatus, state.JobStatus, state.Message, state.RayJobInfo = api.DeploymentRetrying, "", "", nil
		named(&now, state)
	case mode(j) == api.InteractiveMode && s.Counts[clusterRole].Ready > 0:
		state.JobDeploymentStatus, state.JobStatus = api.DeploymentWaiting, ""
		named(&now, state)
	default:
		state.JobDeploymentStatus, state.JobStatus = api.DeploymentInitializing, ""
		named(&now, state)
	}
}

// fail tells of a job that failed.
func fail(j *api.RayJob, state *api.RayJobStatus, s *jobs.Progress) {
	state.JobDeploymentStatus, state.Reason = api.DeploymentFailed, api.AppFailed
	switch {
	case s.Reason == podplan.DeadlineExceeded && early(j):
		state.Reason = api.PreRunningDeadlineExceeded
		state.Message = fmt.Sprintf("it did not run within %s", deadline(j))
		return
	case s.Reason == podplan.DeadlineExceeded:
		state.Reason, state.Message = api.DeadlineExceeded, s.Message
		return
	case s.Rule == string(api.JobStopped):
		state.JobDeploymentStatus, state.JobStatus, state.Reason = api.DeploymentComplete, api.JobStopped, ""
	case s.Rule == api.SubmissionFailed:
		state.JobStatus, state.Reason, state.Message = "", api.SubmissionFailed, s.Message
		return
	default:
		state.JobStatus = api.JobFailed
	}
	state.Message = cmp.Or(state.Message, s.Message)
}

func moment(millis int64) *metav1.Time {
	if millis <= 0 {
		return nil
	}
	return new(metav1.NewTime(time.UnixMilli(millis).Truncate(time.Second)))
}

func named(j *api.RayJob, state *api.RayJobStatus) {
	state.RayClusterName, state.JobID, state.DashboardURL = clusterName(j), jobID(j), dashboard(j)
}
