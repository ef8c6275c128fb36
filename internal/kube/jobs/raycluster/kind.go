// Package raycluster is the kind RayCluster: a head, and groups of workers that ask it for
// work. A cluster runs until somebody deletes it; what fails of it is made anew.
//
// Defaults are never written into an object, nor is what an admission adds: both are left
// to the making of pods.
package raycluster

import (
	batchv1 "k8s.io/api/batch/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	api "github.com/mlbatch/mlbatch/api/ray/v1"
	"github.com/mlbatch/mlbatch/internal/engine/podplan"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// Others are what images of another controller for the kinds of Ray end with.
func Others() []string { return []string{"kuberay/operator", "kuberay-operator"} }

// Kind is all that there is to know of RayClusters.
func Kind() jobs.Kind {
	return jobs.Kind{
		Adapter: adapter{},
		Naming: jobs.Naming{
			Resource:    "rayclusters",
			Framework:   "ray.io/raycluster",
			AddToScheme: api.AddToScheme,
		},
		Queueing: jobs.Queueing{
			Wrapped:     wrapped(),
			SuspendPath: []string{"spec", "suspend"},
			Suspended:   jobs.Of(suspended),
			Templates:   jobs.Of(func(c *api.RayCluster) []jobs.PodTemplate { return Templates(&c.Spec, "spec") }),
		},
		Running: jobs.Running{
			RunsJobs: true,
			Operator: &jobs.Operator{
				Compile:      compile,
				Others:       Others(),
				Artifacts:    artifacts,
				Finalization: &jobs.Finalization{Finalizer: sweepFinalizer, Job: jobs.Of(sweep)},
				Makes: []schema.GroupResource{
					{Group: batchv1.GroupName, Resource: "jobs"},
					{Resource: "services"},
					{Resource: "secrets"},
					{Resource: "serviceaccounts"},
					{Group: rbacv1.GroupName, Resource: "roles"},
					{Group: rbacv1.GroupName, Resource: "rolebindings"},
				},
				StateOfStatus: jobs.Of(told),
				Project:       project,
			},
			Injection: jobs.InTemplates(func(c *api.RayCluster) []jobs.Place { return Places(&c.Spec) }),
		},
		Admission: jobs.Admission{
			TeamsCreate:    true,
			Bulk:           "spec.workerGroupSpecs",
			Validate:       jobs.Of(validate),
			ValidateChange: jobs.OfBoth(validateChange),
			Keep:           jobs.Keeping(keep),
			Warnings:       warnings,
			Fixed:          "object.spec.?managedBy.orValue('') != oldObject.spec.?managedBy.orValue('')",
		},
	}
}

// Child is a cluster that another job made.
func Child() jobs.ChildKind {
	return jobs.ChildKind{
		GVK: adapter{}.GVK(),
		New: adapter{}.New,
		See: func(o jobs.Object) podplan.Seen {
			c, err := cast(o)
			if err != nil {
				return podplan.Seen{}
			}
			return see(c)
		},
		Hold:    held(true),
		Release: func(is, _ jobs.Object) jobs.Object { return held(false)(is) },
		Adjust:  adjust,
	}
}

// see reads how far a cluster is. It does not end by itself, nor fail.
func see(c *api.RayCluster) podplan.Seen {
	s := podplan.Seen{Held: suspended(c), Life: podplan.Pending}
	switch {
	case suspended(c):
	case c.Status.State == api.ClusterReady && ready(c):
		s.Life = podplan.Ready
	case active(c):
		s.Life = podplan.Running
	}
	return s
}

func held(is bool) func(jobs.Object) jobs.Object { //nolint:revive // the field's value
	return func(o jobs.Object) jobs.Object {
		if c, err := cast(o); err == nil && suspended(c) != is {
			return suspend(c, is)
		}
		return o
	}
}

// adjust changes how many workers there are, which is all that may change of a cluster that
// runs. Of one that grows by itself Ray says it.
func adjust(is, wanted jobs.Object) jobs.Object {
	have, err := cast(is)
	want, wErr := cast(wanted)
	if err != nil || wErr != nil || autoscales(&have.Spec) ||
		len(have.Spec.WorkerGroupSpecs) != len(want.Spec.WorkerGroupSpecs) {
		return is
	}
	out := have.DeepCopy()
	for i := range out.Spec.WorkerGroupSpecs {
		to, from := &out.Spec.WorkerGroupSpecs[i], &want.Spec.WorkerGroupSpecs[i]
		if to.GroupName != from.GroupName {
			return is
		}
		to.Replicas, to.MinReplicas, to.MaxReplicas, to.Suspend = from.Replicas, from.MinReplicas, from.MaxReplicas, from.Suspend
	}
	return out
}
