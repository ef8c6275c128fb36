package trainjob

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/mlbatch/mlbatch/api/trainer/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// basis is the runtime of a TrainJob.
func basis() *jobs.Basis {
	return &jobs.Basis{
		Kinds: []jobs.BasisKind{
			{
				GVK: api.GroupVersion.WithKind(api.ClusterTrainingRuntimeKind), Resource: "clustertrainingruntimes",
				New: func() jobs.Object { return &api.ClusterTrainingRuntime{} }, Templates: runtimeTemplates,
			},
			{
				GVK: api.GroupVersion.WithKind(api.TrainingRuntimeKind), Resource: "trainingruntimes", Namespaced: true,
				New: func() jobs.Object { return &api.TrainingRuntime{} }, Templates: runtimeTemplates,
			},
		},
		Of: jobs.Of(func(t *api.TrainJob) jobs.BasisRef {
			return jobs.BasisRef{
				Kind: refKind(&t.Spec.RuntimeRef),
				Name: t.Spec.RuntimeRef.Name,
				At:   runtimeRef().Child("name"),
			}
		}),
		Missing: jobs.Of(func(t *api.TrainJob) bool { return recorded(t) == nil && finished(t) == nil }),
		With:    with,

		Annotation: runtimeAnnotation,
		Stored:     stored,
	}
}

// runtimeAnnotation of a job is its runtime as it was when the job was first looked at, as JSON of an
// api.ResolvedRuntime. Earlier programs wrote it into the status, which their definition of the kind has.
const runtimeAnnotation = "mlbatch.dev/training-runtime"

// recorded is the runtime that is recorded of a job; nil if none is. What is no runtime, or another than the
// job names, as in a copy of another job, is none.
func recorded(t *api.TrainJob) *api.ResolvedRuntime {
	text, is := t.Annotations[runtimeAnnotation]
	if !is {
		return t.Status.Runtime
	}
	var out api.ResolvedRuntime
	if json.Unmarshal([]byte(text), &out) != nil || out.Name != t.Spec.RuntimeRef.Name ||
		out.Kind != refKind(&t.Spec.RuntimeRef) {
		return nil
	}
	return &out
}

// stored is a job with the runtime that its status has in its annotation instead.
func stored(job jobs.Object) jobs.Object {
	t, err := cast(job)
	if err != nil || t.Status.Runtime == nil {
		return job
	}
	text, err := json.Marshal(t.Status.Runtime)
	if err != nil {
		return job // API types can be written
	}
	out := t.DeepCopy()
	out.Status.Runtime = nil
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, runtimeAnnotation, string(text))
	return out
}

// runtimeSpec is what a runtime of either kind says; nil of other objects.
func runtimeSpec(o jobs.Object) *api.TrainingRuntimeSpec {
	switch r := o.(type) {
	case *api.TrainingRuntime:
		return &r.Spec
	case *api.ClusterTrainingRuntime:
		return &r.Spec
	}
	return nil
}

// runtimeTemplates are the pods of a runtime.
func runtimeTemplates(o jobs.Object) []jobs.PodTemplate {
	spec := runtimeSpec(o)
	if spec == nil {
		return nil
	}
	var out []jobs.PodTemplate
	for i := range spec.Template.Spec.ReplicatedJobs {
		out = append(out, jobs.PodTemplate{
			Path:     fmt.Sprintf("spec.template.spec.replicatedJobs[%d].template.spec.template", i),
			Template: &spec.Template.Spec.ReplicatedJobs[i].Template.Spec.Template,
		})
	}
	return out
}

// with records a runtime in a TrainJob.
func with(job, runtime jobs.Object, schedulers jobs.Schedulers) jobs.Object {
	t, err := cast(job)
	spec := runtimeSpec(runtime)
	if err != nil || spec == nil {
		return job
	}
	out := t.DeepCopy()
	out.Status.Runtime = &api.ResolvedRuntime{
		Kind: refKind(
			&t.Spec.RuntimeRef,
		),
		Name:       runtime.GetName(),
		UID:        runtime.GetUID(),
		Generation: runtime.GetGeneration(),
		Spec:       *spec.DeepCopy(),
	}
	all := out.Status.Runtime.Spec.Template.Spec.ReplicatedJobs
	for i := range all {
		s := &all[i].Template.Spec.Template.Spec
		s.SchedulerName = schedulers.Of(s.SchedulerName)
		s.EphemeralContainers = []corev1.EphemeralContainer(nil)
	}
	return out
}
