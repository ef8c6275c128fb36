package rayjob

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	api "github.com/mlbatch/mlbatch/api/ray/v1"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/raycluster"
)

// validate finds what is wrong with a job.
func validate(j *api.RayJob) field.ErrorList {
	errs := raycluster.CheckManagedBy(j.Spec.ManagedBy)
	errs = append(errs, raycluster.CheckName(j, "its cluster")...)
	errs = append(errs, checkCluster(j)...)
	errs = append(errs, checkSubmission(j)...)
	errs = append(errs, checkLimits(j)...)
	return append(errs, checkDeletion(j)...)
}

func checkCluster(j *api.RayJob) field.ErrorList {
	at := field.NewPath("spec")
	s := j.Spec.RayClusterSpec
	switch chosen := j.Spec.ClusterSelector; {
	case s == nil && len(chosen) == 0:
		return field.ErrorList{
			field.Required(
				at.Child("rayClusterSpec"),
				"a job runs in a cluster: say which, or name one that there is in clusterSelector",
			),
		}
	case s != nil && len(chosen) > 0:
		return field.ErrorList{
			field.Forbidden(at.Child("clusterSelector"), "rayClusterSpec says it already: keep one of them"),
		}
	case s == nil:
		return checkSelector(j, at)
	}
	errs := raycluster.CheckSpec(s, at.Child("rayClusterSpec"))
	if h := s.HeadGroupSpec.HeadService; h != nil && h.Name != "" {
		errs = append(
			errs,
			field.Forbidden(
				at.Child("rayClusterSpec", "headGroupSpec", "headService", "metadata", "name"),
				"each try has a cluster of its own: remove it",
			),
		)
	}
	return errs
}

// checkSelector: what a cluster that there is looks like is not known here; see basis.
func checkSelector(j *api.RayJob, at *field.Path) field.ErrorList {
	name := j.Spec.ClusterSelector[api.ClusterLabel]
	var errs field.ErrorList
	if name == "" || len(j.Spec.ClusterSelector) > 1 {
		errs = append(
			errs,
			field.Invalid(
				at.Child("clusterSelector"),
				j.Spec.ClusterSelector,
				"name the cluster by "+api.ClusterLabel+" alone",
			),
		)
	} else if wrong := validation.IsDNS1035Label(name); len(wrong) > 0 {
		errs = append(
			errs,
			field.Invalid(at.Child("clusterSelector").Key(api.ClusterLabel), name, strings.Join(wrong, ", ")),
		)
	}
	if n := ptr.Deref(j.Spec.BackoffLimit, 0); n > 0 {
		errs = append(
			errs,
			field.Invalid(
				at.Child("backoffLimit"),
				n,
				"the next try would need a new cluster: use 0, or rayClusterSpec",
			),
		)
	}
	return errs
}

func checkSubmission(j *api.RayJob) field.ErrorList {
	at := field.NewPath("spec")
	var errs field.ErrorList
	errs = append(errs, checkMode(j, at)...)
	if t := j.Spec.SubmitterPodTemplate; t != nil && len(t.Spec.Containers) == 0 {
		errs = append(
			errs,
			field.Required(
				at.Child("submitterPodTemplate", "spec", "containers"),
				"the first of them submits the job",
			),
		)
	}
	own := j.Spec.SubmitterPodTemplate != nil && len(j.Spec.SubmitterPodTemplate.Spec.Containers) > 0 &&
		len(j.Spec.SubmitterPodTemplate.Spec.Containers[0].Command) > 0
	if m := mode(
		j,
	); strings.TrimSpace(j.Spec.Entrypoint) == "" && m != api.InteractiveMode &&
		(m != api.K8sJobMode || !own) {
		errs = append(errs, field.Required(at.Child("entrypoint"), "the command that is run in the cluster"))
	}
	if y := j.Spec.RuntimeEnvYAML; y != "" {
		var env map[string]any
		if err := yaml.Unmarshal([]byte(y), &env); err != nil {
			errs = append(errs, field.Invalid(at.Child("runtimeEnvYAML"), y, "it is no YAML object: "+err.Error()))
		}
	}
	if t := j.Spec.SubmitterPodTemplate; t != nil && t.Spec.RestartPolicy == corev1.RestartPolicyAlways {
		errs = append(
			errs,
			field.NotSupported(
				at.Child("submitterPodTemplate", "spec", "restartPolicy"),
				t.Spec.RestartPolicy,
				[]corev1.RestartPolicy{corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure},
			),
		)
	}
	return errs
}

// checkMode finds what does not go with how a job is submitted.
func checkMode(j *api.RayJob, at *field.Path) field.ErrorList {
	modes := []api.JobSubmissionMode{api.K8sJobMode, api.HTTPMode, api.InteractiveMode, api.SidecarMode}
	m := mode(j)
	if !slices.Contains(modes, m) {
		return field.ErrorList{field.NotSupported(at.Child("submissionMode"), m, modes)}
	}
	var errs field.ErrorList
	if m != api.K8sJobMode {
		errs = checkRequest(j, at)
	}
	if s := j.Spec.RayClusterSpec; s != nil && raycluster.AsksKubernetes(s) {
		errs = append(
			errs,
			field.Forbidden(
				at.Child("rayClusterSpec", "authOptions", "enableK8sTokenAuth"),
				"what submits the job has no token of a ServiceAccount: remove it, and the cluster gets a token of its own",
			),
		)
	}
	if m == api.InteractiveMode && ptr.Deref(j.Spec.BackoffLimit, 0) > 0 {
		errs = append(
			errs,
			field.Forbidden(
				at.Child("backoffLimit"),
				"nobody but you can submit the job again: remove it, or use another submissionMode",
			),
		)
	}
	if m != api.SidecarMode {
		return errs
	}
	if j.Spec.RayClusterSpec == nil {
		errs = append(
			errs,
			field.Forbidden(
				at.Child("clusterSelector"),
				"nothing can be added to the head of a cluster that exists: use rayClusterSpec, or another submissionMode",
			),
		)
	} else if p := j.Spec.RayClusterSpec.HeadGroupSpec.Template.Spec.RestartPolicy; p != "" && p != corev1.RestartPolicyNever {
		errs = append(
			errs,
			field.NotSupported(
				at.Child("rayClusterSpec", "headGroupSpec", "template", "spec", "restartPolicy"),
				p,
				[]corev1.RestartPolicy{corev1.RestartPolicyNever},
			),
		)
	}
	const cure = "a container beside the head submits the job: remove it, or use submissionMode K8sJobMode"
	if j.Spec.SubmitterPodTemplate != nil {
		errs = append(errs, field.Forbidden(at.Child("submitterPodTemplate"), cure))
	}
	if j.Spec.SubmitterConfig != nil {
		errs = append(errs, field.Forbidden(at.Child("submitterConfig"), cure))
	}
	return errs
}

// ids are what Ray may call a job: it is part of paths.
var ids = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)

// checkRequest refuses what cannot be asked of a dashboard.
func checkRequest(j *api.RayJob, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if id := j.Spec.JobID; id != "" && !ids.MatchString(id) {
		errs = append(
			errs,
			field.Invalid(
				at.Child("jobId"),
				id,
				"use at most 128 letters, digits, -, _ and ., with no - or . at its beginning",
			),
		)
	}
	if id := j.Annotations[api.SubmissionIDAnnotation]; id != "" && !ids.MatchString(id) {
		errs = append(
			errs,
			field.Invalid(
				field.NewPath("metadata", "annotations").Key(api.SubmissionIDAnnotation),
				id,
				"use at most 128 letters, digits, -, _ and ., with no - or . at its beginning",
			),
		)
	}
	var amounts map[string]float64
	if r := j.Spec.EntrypointResources; r != "" && json.Unmarshal([]byte(r), &amounts) != nil {
		errs = append(
			errs,
			field.Invalid(at.Child("entrypointResources"), r, `use a JSON object of numbers such as {"disk": 1}`),
		)
	}
	return errs
}

func checkLimits(j *api.RayJob) field.ErrorList {
	at := field.NewPath("spec")
	var errs field.ErrorList
	submits := int32(0)
	if c := j.Spec.SubmitterConfig; c != nil {
		submits = ptr.Deref(c.BackoffLimit, 0)
	}
	for _, n := range []struct {
		path         *field.Path
		value, least int32
	}{
		{at.Child("backoffLimit"), ptr.Deref(j.Spec.BackoffLimit, 0), 0},
		{at.Child("activeDeadlineSeconds"), ptr.Deref(j.Spec.ActiveDeadlineSeconds, 1), 1},
		{at.Child("preRunningDeadlineSeconds"), ptr.Deref(j.Spec.PreRunningDeadlineSeconds, 1), 1},
		{at.Child("ttlSecondsAfterFinished"), j.Spec.TTLSecondsAfterFinished, 0},
		{at.Child("submitterConfig", "backoffLimit"), submits, 0},
	} {
		if n.value < n.least {
			errs = append(errs, field.Invalid(n.path, n.value, fmt.Sprintf("use a number from %d", n.least)))
		}
	}
	if j.Spec.TTLSecondsAfterFinished > 0 && !j.Spec.ShutdownAfterJobFinishes {
		errs = append(
			errs,
			field.Invalid(
				at.Child("ttlSecondsAfterFinished"),
				j.Spec.TTLSecondsAfterFinished,
				"it is when the cluster goes: set shutdownAfterJobFinishes, too",
			),
		)
	}
	return errs
}

func checkDeletion(j *api.RayJob) field.ErrorList {
	s := j.Spec.DeletionStrategy
	if s == nil {
		return nil
	}
	at := field.NewPath("spec", "deletionStrategy")
	if (s.OnSuccess != nil || s.OnFailure != nil) && len(s.DeletionRules) > 0 {
		return field.ErrorList{
			field.Forbidden(
				at.Child("deletionRules"),
				"onSuccess and onFailure say it already: keep one way to say it",
			),
		}
	}
	var errs field.ErrorList
	for _, r := range rules(s) {
		if s := j.Spec.RayClusterSpec; r.policy == api.DeleteWorkers && s != nil &&
			ptr.Deref(s.EnableInTreeAutoscaling, false) {
			errs = append(
				errs,
				field.Forbidden(
					at,
					"the autoscaler says how many workers there are: use DeleteCluster, or no enableInTreeAutoscaling",
				),
			)
		}
		if (r.policy == api.DeleteCluster || r.policy == api.DeleteWorkers) && j.Spec.RayClusterSpec == nil {
			errs = append(errs, field.Forbidden(at, "the cluster is not this job's: remove "+string(r.policy)))
		}
	}
	for i := range s.DeletionRules {
		if c := s.DeletionRules[i].Condition; (c.JobStatus == nil) == (c.JobDeploymentStatus == nil) {
			errs = append(
				errs,
				field.Required(
					at.Child("deletionRules").Index(i).Child("condition"),
					"say one of jobStatus and jobDeploymentStatus",
				),
			)
		}
	}
	return errs
}

// validateChange finds what is wrong with a change. What was wrong before may stay so; what
// was not may not become so, since a job that nobody understands cannot be stopped.
func validateChange(was, is *api.RayJob) field.ErrorList {
	errs := raycluster.CheckManager(was.Spec.ManagedBy, is.Spec.ManagedBy)
	wrong := validate(is)
	if len(wrong) > 0 && equality.Semantic.DeepEqual(was.Spec, is.Spec) {
		return errs
	}
	return append(errs, wrong...)
}

func warnings(o jobs.Object, _ lifecycle.Policy) []string {
	j, err := cast(o)
	if err != nil {
		return nil
	}
	var out []string
	if s := j.Spec.RayClusterSpec; s != nil {
		out = raycluster.PartWarnings(s, "spec.rayClusterSpec")
		if !j.Spec.ShutdownAfterJobFinishes && j.Spec.DeletionStrategy == nil {
			out = append(
				out,
				"spec.shutdownAfterJobFinishes: the cluster stays after the job's end, and holds its quota until the job is deleted",
			)
		}
	}
	if m := mode(
		j,
	); m != api.K8sJobMode &&
		(j.Spec.SubmitterPodTemplate != nil || j.Spec.SubmitterConfig != nil) {
		out = append(
			out,
			fmt.Sprintf("spec.submitterPodTemplate, spec.submitterConfig: they have no effect in %s", m),
		)
	}
	return out
}
