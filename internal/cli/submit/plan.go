package submit

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	visibility "github.com/mlbatch/mlbatch/api/visibility/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/kinds"
)

// PlanOf is what a job would ask for, by which a controller says what would become of it.
func PlanOf(job client.Object) (visibility.WorkloadPlanSpec, error) {
	var out visibility.WorkloadPlanSpec
	o, is := job.(jobs.Object)
	gvk := job.GetObjectKind().GroupVersionKind()
	if !is {
		return out, fmt.Errorf("%s is no kind of job", gvk.Kind)
	}
	for _, k := range kinds.All() {
		if k.GVK().GroupKind() != gvk.GroupKind() {
			continue
		}
		f, err := k.Read(o)
		if err != nil {
			return out, fmt.Errorf("read %s %s: %w", gvk.Kind, job.GetName(), err)
		}
		out.QueueName, out.PriorityClass = job.GetLabels()[kueue.QueueNameLabel], job.GetLabels()[kueue.PriorityClassLabel]
		jobs.NearAsJobSays(job.GetAnnotations(), f.PodSets)
		for i := range f.PodSets {
			set := &f.PodSets[i]
			out.PodSets = append(
				out.PodSets,
				visibility.PlannedPodSet{
					Name:     string(set.Name),
					Count:    set.Count,
					MinCount: set.MinCount,
					Template: set.Template,

					TopologyRequest: set.TopologyRequest,
				},
			)
		}
		return out, nil
	}
	return out, fmt.Errorf("%s is no kind of job", gvk.Kind)
}

// Typed is an object as its kind of job; false if it is none.
func Typed(o *unstructured.Unstructured) (client.Object, bool, error) {
	for _, k := range kinds.All() {
		if k.GVK().GroupKind() != o.GroupVersionKind().GroupKind() {
			continue
		}
		job := k.New()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, job); err != nil {
			return nil, false, fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
		return job, true, nil
	}
	return nil, false, nil
}
