package appwrapper

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/raycluster"
)

// How a RayJob is submitted to its cluster.
const (
	raySubmitByJob         = "K8sJobMode" // by a pod of its own, which is the default
	raySubmitByHTTP        = "HTTPMode"
	raySubmitInteractively = "InteractiveMode"

	raySubmitterPath = "template.spec.submitterPodTemplate"
)

func raySubmission(t map[string]any) string {
	mode, _, _ := unstructured.NestedString(t, "spec", "submissionMode")
	if mode == "" {
		return raySubmitByJob
	}
	return mode
}

// raySubmitter writes down the pod that submits a RayJob where its author left
// it to the operator, as the operator would make it.
func raySubmitter(t map[string]any) {
	spec, ok := t["spec"].(map[string]any)
	if !ok || raySubmission(t) != raySubmitByJob || spec["submitterPodTemplate"] != nil {
		return
	}
	image := ""
	head, _, _ := unstructured.NestedSlice(spec, "rayClusterSpec", "headGroupSpec", "template", "spec", "containers")
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

// podsOfRayJob are those of its cluster, and the one that submits it.
func podsOfRayJob(t map[string]any) ([]aw.AppWrapperPodSet, error) {
	out, err := raycluster.WrappedPods("spec", "rayClusterSpec")(t)
	if err != nil || raySubmission(t) != raySubmitByJob {
		return out, err
	}
	if _, ok, _ := unstructured.NestedFieldNoCopy(t, "spec", "submitterPodTemplate"); ok {
		out = append(out, aw.AppWrapperPodSet{Path: raySubmitterPath, Replicas: new(int32(1))})
	}
	return out, nil
}

// growingRayJob finds out what of a RayJob cannot be counted.
func growingRayJob(t map[string]any) []jobs.Growth {
	out := raycluster.Grows("spec", "rayClusterSpec")(t)
	switch mode := raySubmission(t); mode {
	case raySubmitByHTTP, raySubmitInteractively:
	case raySubmitByJob:
		if _, ok, _ := unstructured.NestedFieldNoCopy(t, "spec", "submitterPodTemplate"); !ok {
			out = append(out, jobs.Growth{
				Path: raySubmitterPath, Value: "",
				Cure: "give the template of the pod that submits the job to a cluster that exists, or use submissionMode HTTPMode",
			})
		}
	default:
		out = append(out, jobs.Growth{
			Path: "template.spec.submissionMode", Value: mode,
			Cure: "what it runs cannot be counted: use " + raySubmitByJob + ", " + raySubmitByHTTP + " or " + raySubmitInteractively,
		})
	}
	return out
}

// rayJobHoldsBack reports whether the pod that submits a RayJob is not to be
// expected yet: the cluster comes up first.
func rayJobHoldsBack(o map[string]any, path string) bool {
	status, _, _ := unstructured.NestedString(o, "status", "jobDeploymentStatus")
	return path == raySubmitterPath && status != "Running" && status != "Complete" && status != "Failed"
}
