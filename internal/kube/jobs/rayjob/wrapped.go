package rayjob

import (
	"cmp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	api "github.com/mlbatch/mlbatch/api/ray/v1"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/raycluster"
)

// submitterPath is where the pod that submits a job is in a component of an AppWrapper.
const submitterPath = "template.spec.submitterPodTemplate"

// wrapped is what AppWrappers have to know of jobs, whoever runs them.
func wrapped() *jobs.Wrapping {
	return &jobs.Wrapping{
		PodSets: podSets, Outcome: outcome, HeldBack: holdsBack,
		Dropped: [][]string{{"spec", "suspend"}}, Written: writeSubmitter, Unbounded: grows,
		SameOutcome: jobs.OfBoth(func(was, is *api.RayJob) bool {
			return was.Status.JobStatus == is.Status.JobStatus &&
				was.Status.JobDeploymentStatus == is.Status.JobDeploymentStatus
		}),
	}
}

// submission is how a job reaches its cluster.
func submission(t map[string]any) string {
	mode, _, _ := unstructured.NestedString(t, "spec", "submissionMode")
	if mode == "" {
		return string(api.K8sJobMode)
	}
	return mode
}

// writeSubmitter writes down the pod that submits a RayJob where its author left
// it to the operator, as the operator would make it.
func writeSubmitter(t map[string]any) {
	spec, ok := t["spec"].(map[string]any)
	if !ok || submission(t) != string(api.K8sJobMode) || spec["submitterPodTemplate"] != nil {
		return
	}
	image := ""
	head, _, _ := unstructured.NestedSlice(
		spec,
		"rayClusterSpec",
		"headGroupSpec",
		"template",
		"spec",
		"containers",
	)
	if len(head) > 0 {
		if c, ok := head[0].(map[string]any); ok {
			image = jobs.Text(c, "image")
		}
	}
	if image == "" {
		return // a cluster that exists: the operator knows its image, and Validate asks for it
	}
	spec["submitterPodTemplate"] = map[string]any{"spec": map[string]any{
		"restartPolicy": "Never",
		"containers": []any{map[string]any{
			"name": "ray-job-submitter", "image": image,
			"resources": map[string]any{
				"limits":   map[string]any{"cpu": "1", "memory": "1Gi"},
				"requests": map[string]any{"cpu": "500m", "memory": "200Mi"},
			},
		}},
	}}
}

// podSets are those of its cluster, and the one that submits it.
func podSets(t map[string]any) ([]aw.AppWrapperPodSet, error) {
	out, err := raycluster.WrappedPods("spec", "rayClusterSpec")(t)
	if err != nil || submission(t) != string(api.K8sJobMode) {
		return out, err
	}
	if _, ok, _ := unstructured.NestedFieldNoCopy(t, "spec", "submitterPodTemplate"); ok {
		out = append(out, aw.AppWrapperPodSet{Path: submitterPath, Replicas: new(int32(1))})
	}
	return out, nil
}

// grows finds out what of a RayJob cannot be counted.
func grows(t map[string]any) []jobs.Growth {
	out := raycluster.Grows("spec", "rayClusterSpec")(t)
	switch mode := submission(t); mode {
	case string(api.HTTPMode), string(api.InteractiveMode):
	case string(api.K8sJobMode):
		if _, ok, _ := unstructured.NestedFieldNoCopy(t, "spec", "submitterPodTemplate"); !ok {
			out = append(out, jobs.Growth{
				Path:  submitterPath,
				Value: "",
				Cure:  "give the template of the pod that submits the job to a cluster that exists, or use submissionMode HTTPMode",
			})
		}
	default:
		out = append(out, jobs.Growth{
			Path:  "template.spec.submissionMode",
			Value: mode,
			Cure: "what it runs cannot be counted: use " + string(
				api.K8sJobMode,
			) + ", " + string(
				api.HTTPMode,
			) + " or " + string(
				api.InteractiveMode,
			),
		})
	}
	return out
}

// holdsBack reports whether the pod that submits a RayJob is not to be
// expected yet: the cluster comes up first.
func holdsBack(o map[string]any, path string) bool {
	status, _, _ := unstructured.NestedString(o, "status", "jobDeploymentStatus")
	return path == submitterPath && status != "Running" && status != "Complete" && status != "Failed"
}

// outcome reads the status of a RayJob, whose cluster may be gone
// before its pods are looked at.
func outcome(o map[string]any) (lifecycle.Outcome, string) {
	job, _, _ := unstructured.NestedString(o, "status", "jobStatus")
	deployment, _, _ := unstructured.NestedString(o, "status", "jobDeploymentStatus")
	message, _, _ := unstructured.NestedString(o, "status", "message")
	switch {
	case job == "SUCCEEDED":
		return lifecycle.Completed, message
	case deployment == "Failed",
		deployment == "Complete" && (job == "FAILED" || job == "STOPPED"):
		return lifecycle.Broken, cmp.Or(message, "the Ray job is "+cmp.Or(job, "FAILED"))
	}
	return lifecycle.Undecided, ""
}
