// Package jobset is the kind JobSet: Jobs of several roles that know each other, start in
// an order, and succeed, fail and begin anew together. A role is a replicated job, its
// members are Jobs, which Kubernetes runs.
//
// Defaults are never written into an object: it stays as its author wrote it, and whoever
// reads it here sees it with them. What an admission adds goes into the Jobs when they are
// made.
package jobset

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	api "github.com/mlbatch/mlbatch/api/jobset/v1alpha2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// Kind is all that there is to know of JobSets.
func Kind() jobs.Kind {
	return jobs.Kind{
		Adapter: adapter{},
		Naming: jobs.Naming{
			Resource:    "jobsets",
			Framework:   "jobset.x-k8s.io/jobset",
			AddToScheme: api.AddToScheme,
		},
		Queueing: jobs.Queueing{
			Replaces:    replaces,
			Wrapped:     wrapped(),
			SuspendPath: []string{"spec", "suspend"},
			Suspended:   jobs.Of(suspended),
			Templates:   jobs.Of(templates),
		},
		Running: jobs.Running{
			RunsJobs: true,
			Retries:  true,
			Operator: &jobs.Operator{
				Compile:            of(compile),
				Others:             []string{"jobset/jobset"},
				Children:           []jobs.ChildKind{elastic()},
				Artifacts:          artifacts,
				Makes:              []schema.GroupResource{{Resource: "services"}, {Resource: "persistentvolumeclaims"}},
				StateOfStatus:      jobs.Of(told),
				Project:            project,
				FailedCreateReason: "JobCreationFailed",
				Rounds:             &jobs.RoundKeys{Round: api.InPlaceRestartAttemptKey, Job: api.JobSetNameKey},
			},
			Injection: jobs.InTemplates(places),
		},
		Admission: jobs.Admission{
			TeamsCreate:    true,
			Bulk:           "spec.replicatedJobs",
			Validate:       jobs.Of(validate),
			ValidateChange: jobs.OfBoth(validateChange),
			Keep:           jobs.Keeping(keep),
			Warnings:       warnings,
			Fixed:          "object.spec.?managedBy.orValue('') != oldObject.spec.?managedBy.orValue('')",
		},
	}
}

func cast(o jobs.Object) (*api.JobSet, error) {
	js, ok := o.(*api.JobSet)
	if !ok {
		return nil, fmt.Errorf("read JobSet: %T is none", o)
	}
	return js, nil
}

// of makes a function of JobSets one of objects.
func of[R any](f func(*api.JobSet) (R, error)) func(jobs.Object) (R, error) {
	return func(o jobs.Object) (out R, err error) {
		js, err := cast(o)
		if err != nil {
			return out, err
		}
		return f(js)
	}
}

func suspended(js *api.JobSet) bool { return ptr.Deref(js.Spec.Suspend, false) }

func managed(js *api.JobSet) bool {
	return cmp.Or(ptr.Deref(js.Spec.ManagedBy, ""), api.ManagedByController) == api.ManagedByController
}

// places are the templates of a JobSet's roles.
func places(js *api.JobSet) []jobs.Place {
	var out []jobs.Place
	for i := range js.Spec.ReplicatedJobs {
		r := &js.Spec.ReplicatedJobs[i]
		out = append(
			out,
			jobs.Place{PodSet: kueue.PodSetReference(podSet(r.Name)), Template: &r.Template.Spec.Template},
		)
	}
	return out
}

func templates(js *api.JobSet) []jobs.PodTemplate {
	var out []jobs.PodTemplate
	for i := range js.Spec.ReplicatedJobs {
		out = append(out, jobs.PodTemplate{
			Path: fmt.Sprintf(
				"spec.replicatedJobs[%d].template.spec.template",
				i,
			),
			Template: &js.Spec.ReplicatedJobs[i].Template.Spec.Template,
		})
	}
	return out
}

// keep returns a user's new state with what is not the user's as it was: whether the
// JobSet is suspended, and the scheduler of its pods.
func keep(was, is *api.JobSet, _ []kueue.PodSet) *api.JobSet {
	out := is.DeepCopy()
	out.Spec.Suspend = was.Spec.Suspend
	before := map[string]*api.ReplicatedJob{}
	for i := range was.Spec.ReplicatedJobs {
		before[was.Spec.ReplicatedJobs[i].Name] = &was.Spec.ReplicatedJobs[i]
	}
	for i := range out.Spec.ReplicatedJobs {
		r := &out.Spec.ReplicatedJobs[i]
		if old := before[r.Name]; old != nil {
			r.Template.Spec.Template.Spec.SchedulerName = old.Template.Spec.Template.Spec.SchedulerName
		}
	}
	return out
}
