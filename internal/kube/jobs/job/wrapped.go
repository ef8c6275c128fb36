package job

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// IndexLabel is the label that pods of a Job have their index in.
const IndexLabel = batchv1.JobCompletionIndexAnnotation

// wrapped is what AppWrappers have to know of Jobs.
func wrapped() *jobs.Wrapping {
	return &jobs.Wrapping{
		PodSets:     podSets,
		Level:       wrappedLevel,
		Validate:    validateWrapped,
		Direct:      true,
		EndsOnce:    OneWave,
		Outcome:     jobs.ConditionsOutcome("Complete", "Failed"),
		SameOutcome: jobs.OfBoth(sameConditions),
		Dropped:     jobs.SuspendAndTTL("spec"),
	}
}

func podSets(t map[string]any) ([]aw.AppWrapperPodSet, error) {
	n, err := PodsAtOnce(t, "spec")
	return []aw.AppWrapperPodSet{{
		Path: "template.spec.template", Replicas: &n,
		Annotations: map[string]string{aw.TASPodIndexLabelAnnotation: IndexLabel},
	}}, err
}

// PodsAtOnce is how many pods of a Job's spec, at a path, run at the same time.
func PodsAtOnce(t map[string]any, spec ...string) (int32, error) {
	parallelism, err := jobs.Number(t, 1, append(slices.Clip(spec), "parallelism")...)
	if err != nil {
		return 0, err
	}
	completions, err := jobs.Number(t, parallelism, append(slices.Clip(spec), "completions")...)
	return min(parallelism, completions), err
}

// OneWave reports whether a Job makes all its pods at once.
func OneWave(t map[string]any) bool {
	parallelism, pErr := jobs.Number(t, 1, "spec", "parallelism")
	completions, cErr := jobs.Number(t, 0, "spec", "completions")
	return pErr == nil && cErr == nil && completions <= parallelism
}

// sameConditions reports whether a change is none of a Job's conditions.
func sameConditions(was, is *batchv1.Job) bool {
	return slices.EqualFunc(was.Status.Conditions, is.Status.Conditions, func(a, b batchv1.JobCondition) bool {
		return a.Type == b.Type && a.Status == b.Status
	})
}
