// Package rayjob is the kind RayJob: a command that is run in a cluster, which is made for
// it, or is there. A Job, a request, a container beside the head or its author submits it, and
// it ends as Ray says. A try that fails is followed by one in a new cluster.
package rayjob

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	api "github.com/mlbatch/mlbatch/api/ray/v1"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/job"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/raycluster"
)

// Roles of a job. The submitter is a pod set, too; the cluster has those of its own.
const (
	clusterRole   = "cluster"
	submitterRole = "submitter"
	// jobRole is what runs in the cluster, of which the dashboard tells, where no Job submits it.
	jobRole = "job"
)

// Kind is all that there is to know of RayJobs.
func Kind() jobs.Kind {
	return jobs.Kind{
		Adapter: adapter{},
		Naming: jobs.Naming{
			Resource:    "rayjobs",
			Framework:   "ray.io/rayjob",
			AddToScheme: api.AddToScheme,
		},
		Queueing: jobs.Queueing{
			Basis:       basis(),
			Wrapped:     wrapped(),
			SuspendPath: []string{"spec", "suspend"},
			Suspended:   jobs.Of(func(j *api.RayJob) bool { return j.Spec.Suspend }),
			Templates:   jobs.Of(templates),
		},
		Running: jobs.Running{
			RunsJobs: true,
			Operator: &jobs.Operator{
				Compile:   compile,
				Others:    raycluster.Others(),
				Children:  []jobs.ChildKind{raycluster.Child(), job.Child()},
				Artifacts: artifacts,
				Makes: []schema.GroupResource{
					{Resource: "services"},
					{Group: batchv1.GroupName, Resource: "jobs"},
					{Group: "ray.io", Resource: "rayclusters"},
				},
				StateOfStatus:   jobs.Of(remembered),
				Calls:           calls,
				PostDeleteCalls: farewell,
				Observe:         hear,
				Project:         project,
			},
			Injection: injection(),
		},
		Admission: jobs.Admission{
			TeamsCreate:    true,
			Bulk:           "spec.rayClusterSpec",
			Validate:       jobs.Of(validate),
			ValidateChange: jobs.OfBoth(validateChange),
			Keep:           jobs.Keeping(keep),
			Warnings:       warnings,
			Fixed:          "object.spec.?managedBy.orValue('') != oldObject.spec.?managedBy.orValue('')",
		},
	}
}

type adapter struct{}

var _ jobs.Adapter = adapter{}

// GVK implements jobs.Adapter.
func (adapter) GVK() schema.GroupVersionKind { return api.GroupVersion.WithKind(api.RayJobKind) }

// New implements jobs.Adapter.
func (adapter) New() jobs.Object { return &api.RayJob{} }

// Ours implements jobs.Adapter.
func (adapter) Ours(o jobs.Object) bool {
	j, ok := o.(*api.RayJob)
	return ok && cmp.Or(ptr.Deref(j.Spec.ManagedBy, ""), api.ManagedByOperator) == api.ManagedByOperator
}

func cast(o jobs.Object) (*api.RayJob, error) {
	j, ok := o.(*api.RayJob)
	if !ok {
		return nil, fmt.Errorf("read RayJob: %T is none", o)
	}
	return j, nil
}

// Read implements jobs.Adapter.
func (adapter) Read(o jobs.Object) (jobs.Facts, error) {
	j, err := cast(o)
	if err != nil {
		return jobs.Facts{}, err
	}
	if errs := validate(j); len(errs) > 0 {
		return jobs.Facts{}, fmt.Errorf("read RayJob %s/%s: %w", j.Namespace, j.Name, errs.ToAggregate())
	}
	if waits(j) {
		return jobs.Facts{}, fmt.Errorf(
			"read RayJob %s/%s: RayCluster %s: %w",
			j.Namespace,
			j.Name,
			clusterName(j),
			jobs.ErrIncomplete,
		)
	}
	f := jobs.Facts{Suspended: j.Spec.Suspend, Finished: finished(j), Active: active(j), Ready: ready(j)}
	if s := j.Spec.RayClusterSpec; s != nil {
		f.PodSets, f.Later = raycluster.PodSets(clusterSpec(j)), raycluster.Later(s)
	}
	if mode(j) == api.K8sJobMode {
		f.PodSets = append(
			f.PodSets,
			kueue.PodSet{Name: submitterRole, Count: 1, Template: *submitter(j).DeepCopy()},
		)
		if len(f.PodSets) > 1 {
			f.Later = append(f.Later, submitterRole)
		}
	}
	f.Reclaimable = over(j, f.PodSets)
	return f, nil
}

// over are the pods that a job which is over does not have any more, while its head stays: the
// one that submitted it, and its workers if they are to go.
func over(j *api.RayJob, sets []kueue.PodSet) []kueue.ReclaimablePod {
	var out []kueue.ReclaimablePod
	for i := range sets {
		name := sets[i].Name
		if finished(j) == nil || name == raycluster.Head ||
			name != submitterRole && j.Status.WorkersDeletedTime == nil {
			continue
		}
		out = append(out, kueue.ReclaimablePod{Name: name, Count: sets[i].Count})
	}
	return out
}

func finished(j *api.RayJob) *jobs.Outcome {
	s := &j.Status
	switch s.JobDeploymentStatus { //nolint:exhaustive // the others are no ends
	case api.DeploymentComplete:
		success := s.JobStatus != api.JobFailed && s.JobStatus != api.JobStopped
		return &jobs.Outcome{Success: success, Message: cmp.Or(s.Message, string(s.JobStatus))}
	case api.DeploymentFailed:
		return &jobs.Outcome{Message: cmp.Or(s.Message, s.Reason, string(api.JobFailed))}
	}
	return nil
}

// active reports whether a job may have pods that have not ended: from its start until it is said that it
// is suspended, or has ended.
func active(j *api.RayJob) bool {
	if finished(j) != nil {
		return false
	}
	d := j.Status.JobDeploymentStatus
	return d != api.DeploymentNew && d != api.DeploymentSuspended
}

// ready reports whether all pods of a job are: its submitter comes once its cluster is.
func ready(j *api.RayJob) bool {
	// One that waits for its user to submit has all of its pods.
	return j.Status.JobDeploymentStatus == api.DeploymentRunning ||
		j.Status.JobDeploymentStatus == api.DeploymentWaiting
}

// Maker implements jobs.Adapter.
func (adapter) Maker(o jobs.Object) core.MakerState {
	j, err := cast(o)
	if err != nil {
		return core.MakerState{}
	}
	return core.MakerState{
		Stopped:  j.Spec.Suspend && !active(j),
		Ended:    finished(j) != nil,
		Deleting: j.DeletionTimestamp != nil,
	}
}

// Start returns the job allowed to run. What its admission adds goes into its pods when they
// are made; what cannot go there is an error now.
func (adapter) Start(o jobs.Object, infos []jobs.PodSetInfo) (jobs.Object, error) {
	j, err := cast(o)
	if err != nil || !j.Spec.Suspend {
		return o, err
	}
	sets := 0
	if s := clusterSpec(j); s != nil {
		sets = 1 + len(s.WorkerGroupSpecs)
		err = raycluster.CheckAdmission(s, infos)
	}
	submits := mode(j) == api.K8sJobMode
	if submits {
		sets++
	}
	if err == nil && len(infos) != sets {
		err = fmt.Errorf("its admission has %d pod sets, and it has %d", len(infos), sets)
	}
	if err == nil && submits {
		err = infos[sets-1].Inject(submitter(j).DeepCopy())
	}
	if err != nil {
		return nil, fmt.Errorf("start RayJob %s/%s: %w", j.Namespace, j.Name, err)
	}
	return suspend(j, false), nil
}

// Stop implements jobs.Adapter. There is nothing to put back.
func (adapter) Stop(o jobs.Object, _ []kueue.PodSet) (jobs.Object, error) {
	j, err := cast(o)
	if err != nil || j.Spec.Suspend {
		return o, err
	}
	return suspend(j, true), nil
}

func suspend(j *api.RayJob, is bool) *api.RayJob {
	out := j.DeepCopy()
	out.Spec.Suspend = is
	return out
}

func templates(j *api.RayJob) []jobs.PodTemplate {
	var out []jobs.PodTemplate
	if s := j.Spec.RayClusterSpec; s != nil {
		out = raycluster.Templates(s, "spec.rayClusterSpec")
	}
	if t := j.Spec.SubmitterPodTemplate; t != nil {
		out = append(out, jobs.PodTemplate{Path: "spec.submitterPodTemplate", Template: t})
	}
	return out
}

// keep returns a user's new state with what is not the user's as it was: whether the job is
// suspended, and the scheduler of its pods.
func keep(was, is *api.RayJob, _ []kueue.PodSet) *api.RayJob {
	out := is.DeepCopy()
	out.Spec.Suspend = was.Spec.Suspend
	if a, b := was.Spec.RayClusterSpec, out.Spec.RayClusterSpec; a != nil && b != nil {
		raycluster.KeepPods(a, b)
	}
	if a, b := was.Spec.SubmitterPodTemplate, out.Spec.SubmitterPodTemplate; a != nil && b != nil {
		b.Spec.SchedulerName = a.Spec.SchedulerName
	}
	return out
}

// attempt is how often the job has begun anew: after each try that failed, but for the one that it failed
// with.
func attempt(j *api.RayJob) int32 {
	failed := ptr.Deref(j.Status.Failed, 0)
	if end := finished(j); end != nil && !end.Success {
		failed--
	}
	return max(failed, 0)
}

// sum are letters that are the same for a try of a job, and others for others.
func sum(j *api.RayJob) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(string(j.UID) + "/" + strconv.Itoa(int(attempt(j))))) // it never fails
	text := "00000" + strconv.FormatUint(uint64(h.Sum32()), 36)
	return text[len(text)-5:]
}

// clusterName is that of the cluster that the job runs in.
func clusterName(j *api.RayJob) string {
	if j.Spec.RayClusterSpec == nil {
		return j.Spec.ClusterSelector[api.ClusterLabel]
	}
	return j.Name + "-" + sum(j)
}

// jobID is how Ray calls the job; "" if that is not known yet.
func jobID(j *api.RayJob) string {
	if mode(j) == api.InteractiveMode {
		return cmp.Or(j.Spec.JobID, j.Annotations[api.SubmissionIDAnnotation])
	}
	return cmp.Or(j.Spec.JobID, j.Name+"-"+sum(j))
}
