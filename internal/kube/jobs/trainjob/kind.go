// Package trainjob is the kind TrainJob: what to train, run as a TrainingRuntime or
// ClusterTrainingRuntime says. The runtime is a JobSet to be filled in. It is recorded in
// the job when the job is first looked at (jobs.Basis), so that all here is a
// function of the job alone, and a runtime that is changed changes no job that is there.
//
// A TrainJob has one member, a JobSet of its name, which is run like any other.
package trainjob

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	api "github.com/mlbatch/mlbatch/api/trainer/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	jobsetkind "github.com/mlbatch/mlbatch/internal/kube/jobs/jobset"
)

// Kind is all that there is to know of TrainJobs.
func Kind() jobs.Kind {
	return jobs.Kind{
		Adapter: adapter{},
		Naming: jobs.Naming{
			Resource:    "trainjobs",
			Framework:   "trainer.kubeflow.org/trainjob",
			AddToScheme: api.AddToScheme,
		},
		Queueing: jobs.Queueing{
			Basis:       basis(),
			Wrapped:     wrapped(),
			SuspendPath: []string{"spec", "suspend"},
			Suspended:   jobs.Of(suspended),
			Templates:   jobs.Of(templates),
		},
		Running: jobs.Running{
			RunsJobs: true,
			Operator: &jobs.Operator{
				Compile:       of(compile),
				Others:        []string{"trainer-controller-manager"},
				Children:      []jobs.ChildKind{jobsetkind.Child()},
				Artifacts:     func(o jobs.Object, _ *jobs.Plan, _ *jobs.Progress) ([]jobs.Artifact, error) { return of(artifacts)(o) },
				Makes:         []schema.GroupResource{{Resource: "configmaps"}, {Resource: "secrets"}},
				StateOfStatus: jobs.Of(told),
				Project:       project,
			},
			Injection: &jobs.Injection{Add: inject, Remove: withdraw, Keep: keepInjected},
		},
		Admission: jobs.Admission{
			TeamsCreate:    true,
			Bulk:           "spec.trainer",
			Validate:       jobs.Of(validateNew),
			ValidateChange: jobs.OfBoth(validateChange),
			Keep:           jobs.Keeping(keep),
			Fixed:          "object.spec.?managedBy.orValue('') != oldObject.spec.?managedBy.orValue('')",
		},
	}
}

// of makes a function of TrainJobs one of objects.
func of[R any](f func(*api.TrainJob) (R, error)) func(jobs.Object) (R, error) {
	return func(o jobs.Object) (out R, err error) {
		t, err := cast(o)
		if err != nil {
			return out, err
		}
		return f(t)
	}
}

// role is that of the JobSet.
const role = "jobset"

// compile plans a JobSet.
func compile(t *api.TrainJob) (*jobs.Plan, error) {
	r, err := rendered(t)
	if err != nil {
		return nil, err
	}
	p := &jobs.Plan{
		Plan: podplan.Plan{
			Suspended: suspended(t),
			Success:   podplan.Success{{Roles: []string{role}}},
			CleanUp:   podplan.RemoveRunning,
			Deadline:  seconds(ptr.Deref(t.Spec.ActiveDeadlineSeconds, 0)),
			Roles: []podplan.Role{
				{Name: role, Count: 1, Member: t.Name, Holds: true, Version: jobs.Sum(lasting(r.set))},
			},
		},
		Templates: make([]*corev1.PodTemplateSpec, 1),
	}
	p.Make = []jobs.Make{
		func(_ podplan.Member, _ *podplan.RetryState, admitted jobs.Admitted) (jobs.Object, error) {
			return r.make(admitted)
		},
	}
	return p, nil
}

// make is the JobSet as it is to run.
func (r *rendering) make(admitted jobs.Admitted) (jobs.Object, error) {
	out := r.set.DeepCopy()
	out.Spec.Suspend = new(false)
	for i := range out.Spec.ReplicatedJobs {
		j := &out.Spec.ReplicatedJobs[i]
		info, given := admitted[jobs.PodSetName(j.Name)]
		if !given {
			continue
		}
		if err := info.Inject(&j.Template.Spec.Template); err != nil {
			return nil, fmt.Errorf("pods of replicated job %s: %w", j.Name, err)
		}
	}
	return out, nil
}

// seconds is a time, the longest there is if it would be longer.
func seconds(n int64) time.Duration {
	const longest = 1<<63 - 1
	if n > longest/int64(time.Second) {
		return longest
	}
	return time.Duration(n) * time.Second
}

// keep returns a user's new state with what is not the user's as it was: whether the job is
// suspended, and its runtime.
func keep(was, is *api.TrainJob, _ []kueue.PodSet) *api.TrainJob {
	out := is.DeepCopy()
	out.Spec.Suspend = was.Spec.Suspend
	keepRuntime(was, out)
	return out
}

// keepRuntime leaves a changed job the runtime that was recorded of it, wherever that is.
func keepRuntime(was, is *api.TrainJob) {
	is.Status.Runtime = was.Status.Runtime
	if text, has := was.Annotations[runtimeAnnotation]; has {
		metav1.SetMetaDataAnnotation(&is.ObjectMeta, runtimeAnnotation, text)
	} else {
		delete(is.Annotations, runtimeAnnotation)
	}
}

// templates are the pods of a job that has its runtime, which are not in the job itself.
func templates(t *api.TrainJob) []jobs.PodTemplate {
	r, errs := render(t)
	if r == nil || len(errs) > 0 {
		return nil
	}
	var out []jobs.PodTemplate
	for i := range r.set.Spec.ReplicatedJobs {
		j := &r.set.Spec.ReplicatedJobs[i]
		out = append(
			out,
			jobs.PodTemplate{
				Path:     fmt.Sprintf("spec.runtimeRef(%s).%s", t.Spec.RuntimeRef.Name, j.Name),
				Template: &j.Template.Spec.Template,
			},
		)
	}
	return out
}
