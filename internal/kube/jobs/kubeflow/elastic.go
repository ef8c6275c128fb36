package kubeflow

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	api "github.com/mlbatch/mlbatch/api/kubeflow/v1"
)

// Bounds of a number of workers, each nil if it is not given.
type Bounds struct{ Least, Most *int32 }

// NoAutoscaler tells the author of metrics what becomes of them.
const NoAutoscaler = "spec.elasticPolicy.metrics: no HorizontalPodAutoscaler is made of them: change the replicas of the role Worker, or make one for the job's scale subresource"

// FillBounds fills in what is missing of the bounds of a number of workers: that number.
func FillBounds(j api.Job, least, most **int32) {
	worker := (*j.Roles())[api.RoleWorker]
	if worker == nil {
		return
	}
	n := ptr.Deref(worker.Replicas, 1)
	if *least == nil {
		*least = new(min(n, ptr.Deref(*most, n)))
	}
	if *most == nil {
		*most = new(max(n, **least))
	}
}

// CheckBounds finds what is wrong with the bounds of a number of workers.
func CheckBounds(r *Reading, b *Bounds) field.ErrorList {
	if b == nil {
		return nil
	}
	at := field.NewPath("spec", "elasticPolicy")
	if r.Role(api.RoleWorker) == nil {
		return field.ErrorList{field.Forbidden(at, "it is about the number of workers: add the role Worker, or remove it")}
	}
	var errs field.ErrorList
	for name, n := range map[string]*int32{"minReplicas": b.Least, "maxReplicas": b.Most} { // sorted below
		if n != nil && (*n < 1 || *n > mostPods) {
			errs = append(errs, field.Invalid(at.Child(name), *n, fmt.Sprintf("use a number from 1 to %d", mostPods)))
		}
	}
	slices.SortFunc(errs, func(a, b *field.Error) int { return cmp.Compare(a.Field, b.Field) })
	if b.Least != nil && b.Most != nil && *b.Least > *b.Most {
		errs = append(errs, field.Invalid(at.Child("minReplicas"), *b.Least, fmt.Sprintf("use at most %d, which is maxReplicas", *b.Most)))
	}
	return errs
}
