package rayjob

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	api "github.com/mlbatch/mlbatch/api/ray/v1"
	recovery "github.com/mlbatch/mlbatch/api/recovery/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/raycluster"
)

// defaultTries is how often the pod that submits a job is tried again.
const defaultTries = 2

// compile makes the plan of a job: a cluster, and then the Job that submits it.
func compile(o jobs.Object) (*jobs.Plan, error) {
	j, err := cast(o)
	if err != nil {
		return nil, err
	}
	if errs := validate(j); len(errs) > 0 {
		return nil, fmt.Errorf("plan RayJob %s/%s: %w", j.Namespace, j.Name, errs.ToAggregate())
	}
	if waits(j) {
		return nil, fmt.Errorf(
			"plan RayJob %s/%s: RayCluster %s: %w",
			j.Namespace,
			j.Name,
			clusterName(j),
			jobs.ErrIncomplete,
		)
	}
	p := &jobs.Plan{Plan: podplan.Plan{
		Suspended: j.Spec.Suspend,
		Together:  true,
		Retries:   new(ptr.Deref(j.Spec.BackoffLimit, 0)),
		Rules:     failureRules(),
		Deadline:  deadline(j),
		EachTry:   true,
	}}
	cleanUp(j, &p.Plan)
	add := func(r podplan.Role, made jobs.Make, where string) {
		p.Roles = append(p.Roles, r)
		p.Templates, p.Make, p.Where = append(p.Templates, nil), append(p.Make, made), append(p.Where, where)
	}
	var after []podplan.Dependency
	if j.Spec.RayClusterSpec != nil {
		add(
			podplan.Role{
				Name:      clusterRole,
				Count:     1,
				Member:    clusterName(j),
				OnFailure: podplan.RestartJob,
				Forever:   true,
			},
			makeCluster(j),
			"spec.rayClusterSpec",
		)
		after = []podplan.Dependency{{Role: clusterRole}}
	}
	last := podplan.Role{
		Name:      submitterRole,
		Count:     1,
		Member:    j.Name,
		OnFailure: podplan.RestartJob,
		After:     after,
	}
	if mode(j) == api.K8sJobMode {
		add(last, makeSubmitter(j), "spec.submitterPodTemplate")
		if j.Spec.RayClusterSpec == nil { // it is to be stopped before the job is: see hear
			add(podplan.Role{Name: jobRole, Remote: true, OnFailure: podplan.RestartJob}, nil, "")
		}
	} else {
		last.Name, last.Member, last.Remote = jobRole, "Ray's job", true
		add(last, nil, "")
	}
	p.Success = podplan.Success{{Roles: []string{last.Name}}}
	return p, nil
}

// failureRules: a job that somebody stopped is not tried again.
func failureRules() []podplan.Rule {
	return []podplan.Rule{
		{Name: string(api.JobStopped), Reasons: []string{string(api.JobStopped)}, Then: podplan.FailJob},
		{Name: api.SubmissionFailed, Reasons: []string{api.SubmissionFailed}, Then: podplan.RestartJob},
	}
}

// deadline is how long a try of a job may run, or may take until it does.
func deadline(j *api.RayJob) time.Duration {
	if early(j) {
		return time.Duration(*j.Spec.PreRunningDeadlineSeconds) * time.Second
	}
	return time.Duration(ptr.Deref(j.Spec.ActiveDeadlineSeconds, 0)) * time.Second
}

// early reports whether a job has to run soon.
func early(j *api.RayJob) bool {
	p := j.Spec.PreRunningDeadlineSeconds
	return p != nil && beforeRunning(j) && *p < ptr.Deref(j.Spec.ActiveDeadlineSeconds, math.MaxInt32)
}

// beforeRunning reports whether a job has not run since its try began.
func beforeRunning(j *api.RayJob) bool {
	d := j.Status.JobDeploymentStatus
	return d == api.DeploymentNew || d == api.DeploymentInitializing || d == api.DeploymentWaiting ||
		d == api.DeploymentRetrying
}

// cleanUp says what goes after the end, and when.
func cleanUp(j *api.RayJob, p *podplan.Plan) {
	remove := func(after int32) {
		p.CleanUp, p.CleanUpAfter = podplan.RemoveRunning, time.Duration(after)*time.Second
	}
	if j.Spec.ShutdownAfterJobFinishes {
		remove(j.Spec.TTLSecondsAfterFinished)
	}
	end := finished(j)
	if end == nil || j.Spec.DeletionStrategy == nil {
		return
	}
	for _, r := range rules(j.Spec.DeletionStrategy) {
		if !r.fits(j, end.Success) {
			continue
		}
		switch r.policy {
		case api.DeleteCluster:
			remove(r.after)
		case api.DeleteSelf:
			p.TTL = new(time.Duration(r.after) * time.Second)
		case api.DeleteWorkers:
			p.Trims = true // see workersGo
		case api.DeleteNone:
		}
	}
}

// workersGo is when the workers of a job that is over go; false if they stay with their head.
func workersGo(j *api.RayJob, ended time.Time) (time.Time, bool) {
	end := finished(j)
	if end == nil || j.Spec.DeletionStrategy == nil || ended.IsZero() {
		return time.Time{}, false
	}
	var at time.Time
	for _, r := range rules(j.Spec.DeletionStrategy) {
		if due := ended.Add(
			time.Duration(r.after) * time.Second,
		); r.policy == api.DeleteWorkers && r.fits(j, end.Success) &&
			(at.IsZero() || due.Before(at)) {
			at = due
		}
	}
	return at, !at.IsZero()
}

// rule is what goes after which end.
type rule struct {
	policy     api.DeletionPolicyType
	status     api.JobStatus
	deployment api.JobDeploymentStatus
	after      int32
}

func (r *rule) fits(j *api.RayJob, success bool) bool {
	if r.status != "" {
		return (r.status == api.JobSucceeded) == success
	}
	return r.deployment == j.Status.JobDeploymentStatus
}

// rules reads both ways to say them.
func rules(s *api.DeletionStrategy) []rule {
	var out []rule
	if s.OnSuccess != nil && s.OnSuccess.Policy != nil {
		out = append(out, rule{policy: *s.OnSuccess.Policy, status: api.JobSucceeded})
	}
	if s.OnFailure != nil && s.OnFailure.Policy != nil {
		out = append(out, rule{policy: *s.OnFailure.Policy, status: api.JobFailed})
	}
	for i := range s.DeletionRules {
		r := &s.DeletionRules[i]
		out = append(out, rule{
			policy:     r.Policy,
			status:     ptr.Deref(r.Condition.JobStatus, ""),
			deployment: ptr.Deref(r.Condition.JobDeploymentStatus, ""),
			after:      r.Condition.TTLSeconds,
		})
	}
	return out
}

// makeCluster makes the cluster, whose pods get what the job was admitted with.
func makeCluster(j *api.RayJob) jobs.Make {
	return func(_ podplan.Member, m *podplan.RetryState, admitted jobs.Admitted) (jobs.Object, error) {
		c := &api.RayCluster{Spec: *clusterSpec(j).DeepCopy()}
		if m.Failures > 0 {
			metav1.SetMetaDataAnnotation(
				&c.Spec.HeadGroupSpec.Template.ObjectMeta,
				recovery.FailuresAnnotation,
				strconv.Itoa(int(m.Failures)),
			)
		}
		c.Labels = map[string]string{
			"ray.io/originated-from-crd":     api.RayJobKind,
			"ray.io/originated-from-cr-name": j.Name,
		}
		for key, value := range j.Annotations {
			if strings.HasPrefix(key, "ray.io/") {
				metav1.SetMetaDataAnnotation(&c.ObjectMeta, key, value)
			}
		}
		c.Spec.Suspend, c.Spec.ManagedBy = nil, nil
		for i := range c.Spec.WorkerGroupSpecs {
			if j.Status.WorkersDeletedTime != nil {
				c.Spec.WorkerGroupSpecs[i].Suspend = new(true)
			}
		}
		return c, raycluster.Inject(&c.Spec, admitted)
	}
}

// clusterSpec is the cluster of a job; nil if it is there already. In SidecarMode a container
// beside the head submits the job, and is not run again.
func clusterSpec(j *api.RayJob) *api.RayClusterSpec {
	s := j.Spec.RayClusterSpec
	if s == nil || mode(j) != api.SidecarMode {
		return s
	}
	out := s.DeepCopy()
	beside := submitter(j)
	complete(j, beside)
	head := &out.HeadGroupSpec.Template.Spec
	head.Containers = append(head.Containers, beside.Spec.Containers[0])
	head.RestartPolicy = corev1.RestartPolicyNever
	return out
}

// makeSubmitter makes the Job that submits the job.
func makeSubmitter(j *api.RayJob) jobs.Make {
	return func(_ podplan.Member, _ *podplan.RetryState, admitted jobs.Admitted) (jobs.Object, error) {
		out := &batchv1.Job{
			Spec: batchv1.JobSpec{BackoffLimit: new(int32(defaultTries)), Template: *submitter(j).DeepCopy()},
		}
		if c := j.Spec.SubmitterConfig; c != nil && c.BackoffLimit != nil {
			out.Spec.BackoffLimit = c.BackoffLimit
		}
		complete(j, &out.Spec.Template)
		if info, is := admitted[submitterRole]; is {
			if err := info.Inject(&out.Spec.Template); err != nil {
				return nil, fmt.Errorf("pods %s: %w", submitterRole, err)
			}
		}
		return out, nil
	}
}

// submitter is the pod that submits the job, as its author wrote it or left it.
func submitter(j *api.RayJob) *corev1.PodTemplateSpec {
	if t := j.Spec.SubmitterPodTemplate; t != nil {
		return t
	}
	head := recorded(j)
	image, pull := head.Image, head.ImagePullSecrets
	if s := j.Spec.RayClusterSpec; s != nil && len(s.HeadGroupSpec.Template.Spec.Containers) > 0 {
		image, pull = s.HeadGroupSpec.Template.Spec.Containers[0].Image, s.HeadGroupSpec.Template.Spec.ImagePullSecrets
	}
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, ImagePullSecrets: pull,
		Containers: []corev1.Container{{
			Name: "ray-job-submitter", Image: image,
			Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{
					corev1.ResourceCPU:    resource.MustParse("1"),
					corev1.ResourceMemory: resource.MustParse("1Gi"),
				},
				Requests: corev1.ResourceList{
					corev1.ResourceCPU:    resource.MustParse("500m"),
					corev1.ResourceMemory: resource.MustParse("200Mi"),
				},
			},
		}},
	}}
}

// complete gives the pod that submits the job what it runs and is told.
func complete(j *api.RayJob, t *corev1.PodTemplateSpec) {
	if t.Spec.RestartPolicy == "" || t.Spec.RestartPolicy == corev1.RestartPolicyAlways {
		t.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
	c := &t.Spec.Containers[0]
	if len(c.Command) == 0 {
		c.Command, c.Args = []string{"/bin/bash", "-ce", "--"}, []string{command(j)}
	}
	for _, e := range []corev1.EnvVar{
		{Name: "PYTHONUNBUFFERED", Value: "1"}, {Name: "RAY_DASHBOARD_ADDRESS", Value: dashboard(j)}, {Name: "RAY_JOB_SUBMISSION_ID", Value: jobID(j)},
	} {
		if !slices.ContainsFunc(c.Env, func(has corev1.EnvVar) bool { return has.Name == e.Name }) {
			c.Env = append(c.Env, e)
		}
	}
	if s := j.Spec.RayClusterSpec; s != nil {
		raycluster.Authenticate(s, clusterName(j), c)
	}
}

// dashboard is where the cluster's dashboard answers.
func dashboard(j *api.RayJob) string {
	c := &api.RayCluster{ObjectMeta: metav1.ObjectMeta{Name: clusterName(j), Namespace: j.Namespace}}
	if s := j.Spec.RayClusterSpec; s != nil {
		c.Spec = *s
	}
	return raycluster.HeadAddress(c) + ":" + strconv.Itoa(int(raycluster.PortOfDashboard(&c.Spec)))
}

// command submits the job, unless it was submitted before, and shows its output until its end.
func command(j *api.RayJob) string {
	at, id := "http://"+dashboard(j), quote(jobID(j))
	submit := []string{"ray job submit --address " + at + " --no-wait --submission-id " + id}
	if env := runtimeEnv(j); env != "" {
		submit = append(submit, "--runtime-env-json "+quote(env))
	}
	if len(j.Spec.Metadata) > 0 {
		if text, err := json.Marshal(j.Spec.Metadata); err == nil { // keys are sorted
			submit = append(submit, "--metadata-json "+quote(string(text)))
		}
	}
	if n := j.Spec.EntrypointNumCpus; n > 0 {
		submit = append(submit, fmt.Sprintf("--entrypoint-num-cpus %g", n))
	}
	if n := j.Spec.EntrypointNumGpus; n > 0 {
		submit = append(submit, fmt.Sprintf("--entrypoint-num-gpus %g", n))
	}
	if r := j.Spec.EntrypointResources; r != "" {
		submit = append(submit, "--entrypoint-resources "+quote(r))
	}
	submit = append(submit, "-- "+j.Spec.Entrypoint)
	return strings.Join([]string{
		"until wget --tries 1 -T 2 -q -O- " + at + "/api/gcs_healthz | grep success > /dev/null; do echo 'The dashboard does not answer yet.'; sleep 2; done",
		"if ! ray job status --address " + at + " " + id + " > /dev/null 2>&1; then " + strings.Join(
			submit,
			" ",
		) + "; fi",
		"ray job logs --address " + at + " --follow " + id,
		"ray job status --address " + at + " " + id + " | grep -q SUCCEEDED",
	}, "\n")
}

// runtimeEnv is what Ray prepares, as JSON.
func runtimeEnv(j *api.RayJob) string {
	if j.Spec.RuntimeEnvYAML == "" {
		return ""
	}
	text, err := yaml.YAMLToJSON([]byte(j.Spec.RuntimeEnvYAML))
	if err != nil {
		return "" // validate refuses it
	}
	return string(text)
}

// quote makes one word of a shell of a text.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// artifacts are what a job has beside its cluster: an address of the head that stays the same
// while clusters come and go.
func artifacts(o jobs.Object, _ *jobs.Plan, _ *jobs.Progress) ([]jobs.Artifact, error) {
	j, err := cast(o)
	if err != nil {
		return nil, err
	}
	if j.Spec.RayClusterSpec == nil {
		return nil, nil
	}
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: j.Name + "-head-svc", Labels: map[string]string{
		api.ClusterLabel: clusterName(
			j,
		),
		"app.kubernetes.io/name":       "kuberay",
		"app.kubernetes.io/created-by": "kuberay-operator",
	}}}
	s.Spec = corev1.ServiceSpec{
		ClusterIP:                corev1.ClusterIPNone,
		PublishNotReadyAddresses: true,
		Selector: map[string]string{
			api.NodeLabel:     "yes",
			api.ClusterLabel:  clusterName(j),
			api.NodeTypeLabel: api.HeadNode,
		},
		Ports: raycluster.ServicePorts(j.Spec.RayClusterSpec),
	}
	return []jobs.Artifact{{Object: s, Yields: true}}, nil
}
