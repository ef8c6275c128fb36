package rayjob

import (
	"cmp"
	"encoding/json"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"

	api "github.com/mlbatch/mlbatch/api/ray/v1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/raycluster"
)

// submitterLags is how long after the end of Ray's job its submitter may show output.
const submitterLags = 5 * time.Minute

// asks reports whether the dashboard tells how a job stands. One of a cluster that there is gets
// no token: whose it would be is not known.
func asks(j *api.RayJob) bool { return ids.MatchString(jobID(j)) }

func dashboardOf(j *api.RayJob) raycluster.Dashboard {
	return raycluster.DashboardOf(clusterName(j), j.Spec.RayClusterSpec)
}

// calls are what the dashboard is asked.
func calls(o jobs.Object, _ *jobs.Plan, s *jobs.Progress) []jobs.Call {
	j, err := cast(o)
	if err != nil || !asks(j) || s.Started.IsZero() {
		return nil
	}
	d := dashboardOf(j)
	info := d.Job(jobID(j))
	answer, _ := s.Answers.To(&info)
	if j.Spec.Suspend || s.Outcome == podplan.JobFailed {
		return stops(j, d, info, s)
	}
	if s.Outcome != podplan.Open {
		return nil
	}
	ready := j.Spec.RayClusterSpec == nil || s.Counts[clusterRole].Ready > 0
	switch {
	case mode(j) == api.HTTPMode && ready && answer.Status == jobs.Absent:
		return []jobs.Call{info, d.Submit(request(j))}
	case ready, s.Counts[clusterRole].Active > 0 && j.Status.JobDeploymentStatus == api.DeploymentRunning:
		return []jobs.Call{info}
	}
	return nil
}

// stops are calls that end a job in a cluster that goes on without it; another goes with its cluster.
func stops(j *api.RayJob, d raycluster.Dashboard, info jobs.Call, s *jobs.Progress) []jobs.Call {
	said, answered := told(j, s.Answers)
	switch {
	case j.Spec.RayClusterSpec != nil, answered && (said == nil || said.Ended()):
		return nil
	case answered:
		return []jobs.Call{info, d.Stop(jobID(j))}
	}
	return []jobs.Call{info}
}

// farewell ends a job that was deleted while it ran in a cluster that goes on without it.
func farewell(o jobs.Object, s *jobs.Progress) []jobs.Call {
	j, err := cast(o)
	if err != nil || j.Spec.RayClusterSpec != nil || !asks(j) || s.Started.IsZero() ||
		s.Outcome == podplan.JobSucceeded {
		return nil
	}
	return []jobs.Call{dashboardOf(j).Stop(jobID(j))}
}

// request is how a job is submitted.
func request(j *api.RayJob) []byte {
	r := struct {
		Entrypoint string             `json:"entrypoint"`
		ID         string             `json:"submission_id"`
		Env        map[string]any     `json:"runtime_env,omitempty"`
		Metadata   map[string]string  `json:"metadata,omitempty"`
		CPUs       float32            `json:"entrypoint_num_cpus,omitempty"`
		GPUs       float32            `json:"entrypoint_num_gpus,omitempty"`
		Resources  map[string]float64 `json:"entrypoint_resources,omitempty"`
	}{Entrypoint: j.Spec.Entrypoint, ID: jobID(j), Metadata: j.Spec.Metadata, CPUs: j.Spec.EntrypointNumCpus, GPUs: j.Spec.EntrypointNumGpus}
	_ = yaml.Unmarshal([]byte(j.Spec.RuntimeEnvYAML), &r.Env)            // validate refuses what cannot be read
	_ = json.Unmarshal([]byte(j.Spec.EntrypointResources), &r.Resources) // as above
	out, err := json.Marshal(r)
	if err != nil {
		return nil // what was read can be written
	}
	return out
}

// told is what is known of Ray's job: nil if nothing is, and whether anything was answered.
func told(j *api.RayJob, answers jobs.Answers) (info *raycluster.JobInfo, answered bool) {
	call := dashboardOf(j).Job(jobID(j))
	answer, answered := answers.To(&call)
	return raycluster.ReadJob(answer), answered
}

// hear completes what is seen of a job by what Ray says of it, and says when its workers go.
func hear(
	o jobs.Object,
	_ *jobs.Plan,
	seen []podplan.Seen,
	s *jobs.Progress,
) ([]podplan.Seen, time.Duration) {
	j, err := cast(o)
	if err != nil {
		return seen, 0
	}
	seen, again := listen(j, seen, s)
	if at, leave := workersGo(j, s.Ended); leave && j.Status.WorkersDeletedTime == nil {
		again = max(at.Sub(s.Now), time.Second)
	}
	return seen, again
}

// listen completes what is seen of a job by what Ray says of it. Of one that is over Ray is asked no
// more: its submitter is what its Job says, which stays with its log until the RayJob goes.
func listen(j *api.RayJob, seen []podplan.Seen, s *jobs.Progress) ([]podplan.Seen, time.Duration) {
	if !asks(j) || s.Started.IsZero() || s.Outcome != podplan.Open {
		return seen, 0
	}
	info, answered := told(j, s.Answers)
	x := podplan.Seen{
		Member:  podplan.Member{Role: jobRole},
		ID:      clusterName(j) + "/" + jobID(j),
		Attempt: s.Attempt,
	}
	why := refused(j, s.Answers)
	switch {
	case j.Spec.Suspend: // in a cluster that goes on it is to be stopped, if it runs
		if j.Spec.RayClusterSpec != nil || answered && (info == nil || info.Ended()) {
			return seen, 0
		}
		x.Life = podplan.Running
	case mode(j) == api.K8sJobMode:
		return hearBeside(seen, info, s, freshly(j, s))
	case info != nil:
		is(&x, info)
	case why != "":
		x.Life, x.Failures, x.Reason, x.Why = podplan.Failed, 1, api.SubmissionFailed, why
	default:
		return seen, 0
	}
	x.Over = x.Life >= podplan.Succeeded
	return append(seen, x), 0
}

// freshly reports whether the dashboard was asked after the end of the Job that submits.
func freshly(j *api.RayJob, s *jobs.Progress) bool {
	call := dashboardOf(j).Job(jobID(j))
	answer, answered := s.Answers.To(&call)
	for _, o := range s.Children {
		b, is := o.(*batchv1.Job)
		if !is {
			continue
		}
		for _, c := range b.Status.Conditions {
			if c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed {
				return answered && answer.At.After(c.LastTransitionTime.Add(time.Second))
			}
		}
	}
	return answered
}

// is takes over how Ray's job is.
func is(x *podplan.Seen, info *raycluster.JobInfo) {
	switch info.Status {
	case api.JobSucceeded:
		x.Life = podplan.Succeeded
	case api.JobFailed, api.JobStopped:
		x.Life, x.Failures, x.Reason = podplan.Failed, 1, string(info.Status)
		x.Why = cmp.Or(info.Message, "Ray says that it is "+string(info.Status))
	case api.JobRunning:
		x.Life = podplan.Ready
	default:
		x.Life = podplan.Pending
	}
}

// hearBeside is for jobs that a Job submits: it is over when both are, as Ray says. Where Ray
// does not know it, the Job's end counts.
func hearBeside(
	seen []podplan.Seen,
	info *raycluster.JobInfo,
	s *jobs.Progress,
	fresh bool,
) ([]podplan.Seen, time.Duration) {
	again := time.Duration(0)
	for i := range seen {
		x := &seen[i]
		if x.Role != submitterRole || x.Attempt < s.Attempt || x.Leaving || x.Held {
			continue
		}
		over := x.Life >= podplan.Succeeded
		switch {
		case over && !fresh && (info == nil || !info.Ended()): // it is being asked
			x.Life, again = podplan.Ready, time.Second
		case info == nil:
		case info.Ended() && !over:
			if again = time.UnixMilli(info.EndTime).Add(submitterLags).Sub(s.Now); again <= 0 {
				again = 0
				is(x, info)
			}
		case over:
			is(x, info)
		}
	}
	return seen, again
}

// refused says why a job cannot be submitted; "" if it can.
func refused(j *api.RayJob, answers jobs.Answers) string {
	if mode(j) != api.HTTPMode {
		return ""
	}
	d := dashboardOf(j)
	info, submit := d.Job(jobID(j)), d.Submit(request(j))
	is, _ := answers.To(&info)
	a, _ := answers.To(&submit)
	if is.Status != jobs.Absent || a.Status < jobs.Refused || a.Status >= jobs.Broken {
		return ""
	}
	const longest = 512
	text := string(a.Body)
	return "the dashboard refused it: " + text[:min(len(text), longest)]
}

// mode is how a job reaches its cluster.
func mode(j *api.RayJob) api.JobSubmissionMode { return cmp.Or(j.Spec.SubmissionMode, api.K8sJobMode) }
