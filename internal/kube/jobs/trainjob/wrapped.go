package trainjob

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	jobset "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	api "github.com/mlbatch/mlbatch/api/trainer/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	jobsetkind "github.com/mlbatch/mlbatch/internal/kube/jobs/jobset"
)

const (
	// renderedPath is where a component has the JobSet that it becomes, which is in no
	// TrainJob: its pods are found there, and what they are given is written there.
	renderedPath = "template.status.jobSet."
	// wrapper is who wrote the changes that the AppWrapper of a TrainJob made.
	wrapper = "mlbatch.dev/appwrapper"
)

// wrapped is what AppWrappers have to know of TrainJobs: all that is known of the JobSets
// that they become by the recorded runtime.
func wrapped() *jobs.Wrapping {
	sets := jobsetkind.Kind().Queueing.Wrapped
	inSet := func(t map[string]any) map[string]any {
		set, _, _ := unstructured.NestedMap(t, "status", "jobSet") // nothing is in it if there is none
		return set
	}
	return &jobs.Wrapping{
		Basis: basis(), New: func() jobs.Object { return &api.TrainJob{} },
		Outcome: jobs.ConditionsOutcome(api.TrainJobComplete, api.TrainJobFailed),
		SameOutcome: jobs.OfBoth(func(was, is *api.TrainJob) bool {
			a, b := finished(was), finished(is)
			return (a == nil) == (b == nil) && (a == nil || a.Success == b.Success)
		}),
		Dropped:  [][]string{{"spec", "suspend"}},
		Written:  writeSet,
		EndsOnce: func(t map[string]any) bool { return sets.EndsOnce(inSet(t)) },
		Injected: injected,
		PodSets: func(t map[string]any) ([]aw.AppWrapperPodSet, error) {
			if err := readable(t); err != nil {
				return nil, err
			}
			out, err := sets.PodSets(inSet(t))
			for i := range out {
				out[i].Path = renderedPath + strings.TrimPrefix(out[i].Path, "template.")
			}
			return out, err
		},
		HeldBack: func(o map[string]any, path string) bool {
			r, err := read(o)
			if err != nil {
				return false
			}
			set := r.set.DeepCopy()
			for _, j := range r.job.Status.JobsStatus {
				set.Status.ReplicatedJobsStatus = append(set.Status.ReplicatedJobsStatus, counted(j))
			}
			at, err := runtime.DefaultUnstructuredConverter.ToUnstructured(set)
			return err == nil && sets.HeldBack(at, "template."+strings.TrimPrefix(path, renderedPath))
		},
	}
}

// typed reads a component, and its runtime if it was recorded.
func typed(t map[string]any) (*api.TrainJob, error) {
	out := &api.TrainJob{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(t, out)
	if err == nil {
		return out, nil
	}
	if data, wrong := json.Marshal(t); wrong == nil {
		if named := json.Unmarshal(data, &api.TrainJob{}); named != nil {
			err = named // which says where
		}
	}
	return nil, fmt.Errorf("read TrainJob: %w", err)
}

// read renders a component.
func read(t map[string]any) (*rendering, error) {
	job, err := typed(t)
	if err != nil {
		return nil, err
	}
	return rendered(job)
}

// readable says what is wrong with a component, in the words of one that stands by itself.
func readable(t map[string]any) error {
	job, err := typed(t)
	if err != nil {
		return err
	}
	if errs := validate(job); len(errs) > 0 {
		return errs.ToAggregate()
	}
	if recorded(job) == nil {
		return jobs.ErrIncomplete
	}
	return nil
}

// writeSet writes down the JobSet that a component becomes.
func writeSet(t map[string]any) {
	r, err := read(t)
	if err != nil {
		return // which is said when the pods are looked for
	}
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&r.set.Spec)
	if err != nil {
		return
	}
	if status, is := t["status"].(map[string]any); is {
		status["jobSet"] = map[string]any{"spec": spec}
	}
}

// injected makes what was written into the pods of the JobSet changes of the runtime.
func injected(object map[string]any) error {
	job, err := typed(object)
	if err != nil {
		return err
	}
	raw, found, err := unstructured.NestedMap(object, "status", "jobSet")
	if err != nil || !found {
		return errors.Join(err, jobs.ErrIncomplete)
	}
	set := &jobset.JobSet{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, set); err != nil {
		return fmt.Errorf("read its JobSet: %w", err)
	}
	var all []podChange
	for i := range set.Spec.ReplicatedJobs {
		j := &set.Spec.ReplicatedJobs[i]
		all = append(all, podChange{j.Name, asChange(&j.Template.Spec.Template)})
	}
	changePods(job, wrapper, all)
	if _, err := rendered(job); err != nil {
		return err
	}
	changed, err := runtime.DefaultUnstructuredConverter.ToUnstructured(job)
	if err != nil {
		return fmt.Errorf("write TrainJob: %w", err)
	}
	for _, field := range []string{"podTemplateOverrides", "runtimePatches"} {
		v, said, err := unstructured.NestedFieldNoCopy(changed, "spec", field)
		if err != nil || !said {
			continue
		}
		if err := unstructured.SetNestedField(object, v, "spec", field); err != nil {
			return fmt.Errorf("write spec.%s: %w", field, err)
		}
	}
	return nil
}

// asChange is what an AppWrapper may change of pods, as they are to be.
func asChange(t *corev1.PodTemplateSpec) api.PodTemplatePatch {
	return api.PodTemplatePatch{
		Metadata: &api.Metadata{Labels: t.Labels, Annotations: t.Annotations},
		Spec: &api.PodSpecPatch{
			NodeSelector: t.Spec.NodeSelector, Tolerations: t.Spec.Tolerations,
			Affinity: t.Spec.Affinity, SchedulingGates: t.Spec.SchedulingGates,
		},
	}
}
