package appwrapper

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
)

// kind is what is known of a kind of component.
type kind struct {
	// podSets finds the pod templates of an object, with how many pods each makes.
	podSets func(template map[string]any) ([]aw.AppWrapperPodSet, error)
	// verdict reads how far the object is by its own account; nil for kinds that
	// do not say, which are judged by their pods.
	verdict func(object map[string]any) (lifecycle.Verdict, string)
	// heldBack reports whether the object starts the pods at path later on
	// purpose; nil for kinds that start all at once.
	heldBack func(object map[string]any, path string) bool
	// direct is true for kinds whose controllers make the pods themselves: none come
	// once the object is being deleted.
	direct bool
	// endsOnce reports whether no pod follows one that succeeded; nil is never.
	endsOnce func(template map[string]any) bool
	// dropped are fields that are the AppWrapper's to say: whether the object is
	// suspended, which nobody else would lift, and when it deletes itself, which
	// would look as if somebody had taken it away.
	dropped [][]string
	// written fills in what the kind's controller would, where pods come of it:
	// they can be counted and placed only if they are in the object. nil for kinds
	// that add none.
	written func(template map[string]any)
	// unbounded says of an object which of its fields make more pods than can be
	// known now, and the cure; nil for kinds that never do.
	unbounded func(template map[string]any) []growth
}

// growth is a field that makes pods which cannot be counted.
type growth struct {
	// path of the field, as that of a pod set.
	path  string
	value any
	cure  string
}

// Labels and annotations about the index of pods that well-known kinds set.
const (
	jobIndexLabel     = "batch.kubernetes.io/job-completion-index"
	jobSetIndexLabel  = "jobset.sigs.k8s.io/job-index"
	trainerIndexLabel = "training.kubeflow.org/replica-index"
)

// kindOf returns what is known of a kind, and whether anything is.
func kindOf(gvk schema.GroupVersionKind) (kind, bool) {
	switch gvk {
	case schema.GroupVersionKind{Version: "v1", Kind: "Pod"}:
		return kind{podSets: podOf, direct: true, endsOnce: always}, true
	case schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}:
		return kind{podSets: podsOfReplicas}, true
	case schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"},
		schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"}:
		return kind{podSets: podsOfReplicas, direct: true}, true
	case schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}:
		return kind{podSets: podsOfJob, direct: true, endsOnce: oneWave, verdict: verdictOfConditions("Complete", "Failed"), dropped: suspendAndTTL("spec")}, true
	case schema.GroupVersionKind{Group: "jobset.x-k8s.io", Version: "v1alpha2", Kind: "JobSet"}:
		return kind{
			podSets: podsOfJobSet, verdict: verdictOfConditions("Completed", "Failed"),
			heldBack: jobSetHoldsBack, dropped: suspendAndTTL("spec"), endsOnce: jobSetEndsOnce,
		}, true
	case schema.GroupVersionKind{Group: "kubeflow.org", Version: "v1", Kind: "PyTorchJob"}:
		return kind{
			podSets: podsOfPyTorchJob, verdict: verdictOfConditions("Succeeded", "Failed"),
			dropped: suspendAndTTL("spec", "runPolicy"), unbounded: elasticPyTorchJob, endsOnce: always,
		}, true
	case schema.GroupVersionKind{Group: "ray.io", Version: "v1", Kind: "RayCluster"}:
		return kind{podSets: podsOfRay("spec"), dropped: [][]string{{"spec", "suspend"}}, unbounded: autoscaledRay("spec")}, true
	case schema.GroupVersionKind{Group: "ray.io", Version: "v1", Kind: "RayJob"}:
		return kind{
			podSets: podsOfRayJob, verdict: verdictOfRayJob, heldBack: rayJobHoldsBack,
			dropped: [][]string{{"spec", "suspend"}}, written: raySubmitter, unbounded: growingRayJob,
		}, true
	}
	return kind{}, false
}

func suspendAndTTL(at ...string) [][]string {
	return [][]string{append(slices.Clip(at), "suspend"), append(slices.Clip(at), "ttlSecondsAfterFinished")}
}

func podOf(map[string]any) ([]aw.AppWrapperPodSet, error) {
	return []aw.AppWrapperPodSet{{Path: "template", Replicas: new(int32(1))}}, nil
}

func podsOfReplicas(t map[string]any) ([]aw.AppWrapperPodSet, error) {
	n, err := number(t, 1, "spec", "replicas")
	return []aw.AppWrapperPodSet{{Path: "template.spec.template", Replicas: &n}}, err
}

func podsOfJob(t map[string]any) ([]aw.AppWrapperPodSet, error) {
	n, err := jobPods(t, "spec")
	return []aw.AppWrapperPodSet{{
		Path: "template.spec.template", Replicas: &n,
		Annotations: map[string]string{aw.TASPodIndexLabelAnnotation: jobIndexLabel},
	}}, err
}

// jobPods is how many pods of a Job's spec run at the same time.
func jobPods(t map[string]any, spec ...string) (int32, error) {
	parallelism, err := number(t, 1, append(slices.Clip(spec), "parallelism")...)
	if err != nil {
		return 0, err
	}
	completions, err := number(t, parallelism, append(slices.Clip(spec), "completions")...)
	return min(parallelism, completions), err
}

func podsOfJobSet(t map[string]any) ([]aw.AppWrapperPodSet, error) {
	groups, err := objects(t, "spec", "replicatedJobs")
	var out []aw.AppWrapperPodSet
	for i, g := range groups {
		replicas, rErr := number(g, 1, "replicas")
		pods, pErr := jobPods(g, "template", "spec")
		n, tErr := times(replicas, pods)
		if err = errors.Join(err, rErr, pErr, tErr); err != nil {
			return nil, fmt.Errorf("spec.replicatedJobs[%d]: %w", i, err)
		}
		out = append(out, aw.AppWrapperPodSet{
			Path: fmt.Sprintf("template.spec.replicatedJobs[%d].template.spec.template", i), Replicas: &n,
			Annotations: map[string]string{
				aw.TASPodIndexLabelAnnotation:      jobIndexLabel,
				aw.TASSubGroupIndexLabelAnnotation: jobSetIndexLabel,
				aw.TASSubGroupCountAnnotation:      fmt.Sprint(replicas),
			},
		})
	}
	return out, err
}

// number reads a count; absent and null mean otherwise.
func number(o map[string]any, otherwise int32, fields ...string) (int32, error) {
	v, ok, err := unstructured.NestedFieldNoCopy(o, fields...)
	if err != nil {
		return 0, fmt.Errorf("read a number: %w", err)
	}
	if !ok || v == nil {
		return otherwise, nil
	}
	n, isInt := v.(int64)
	if !isInt || n < 0 || n > math.MaxInt32 {
		return 0, fmt.Errorf("%s must be a whole number from 0, not %v", fields[len(fields)-1], v)
	}
	return int32(n), nil
}

func times(a, b int32) (int32, error) {
	n := int64(a) * int64(b)
	if n < 0 || n > math.MaxInt32 {
		return 0, fmt.Errorf("%d times %d pods are too many", a, b)
	}
	return int32(n), nil
}

func objects(o map[string]any, fields ...string) ([]map[string]any, error) {
	v, ok, err := unstructured.NestedFieldNoCopy(o, fields...)
	if err != nil {
		return nil, fmt.Errorf("read a list: %w", err)
	}
	if !ok || v == nil {
		return nil, nil
	}
	list, isList := v.([]any)
	if !isList {
		return nil, fmt.Errorf("%s must be a list", fields[len(fields)-1])
	}
	out := make([]map[string]any, 0, len(list))
	for i, item := range list {
		m, isMap := item.(map[string]any)
		if !isMap {
			return nil, fmt.Errorf("%s[%d] must be an object", fields[len(fields)-1], i)
		}
		out = append(out, m)
	}
	return out, nil
}
