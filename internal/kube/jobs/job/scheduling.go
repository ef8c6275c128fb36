package job

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// A Job says in spec.scheduling how its pods are scheduled (Kubernetes 1.37, feature gate WorkloadWithJob). Those of a
// queued Job start together whatever it says there, and stop together; how near they are is up to it.

// level is the label of nodes of which those of all pods of a Job have one value, "" if any nodes will do.
func level(j *batchv1.Job) string {
	if j.Spec.Scheduling == nil || j.Spec.Scheduling.SchedulingConstraints == nil {
		return ""
	}
	for _, t := range j.Spec.Scheduling.SchedulingConstraints.Topology { // one at most
		return t.Key
	}
	return ""
}

// wrappedLevel is level of a Job that is part of another object.
func wrappedLevel(t map[string]any) string {
	all, _, _ := unstructured.NestedSlice(
		t,
		"spec",
		"scheduling",
		"schedulingConstraints",
		"topology",
	) // the trial refuses others
	for _, one := range all {
		constraint, _ := one.(map[string]any)
		l, _ := constraint["key"].(string)
		return l
	}
	return ""
}

// outer is what a level says of all pods of a Job, which have their index in a label.
func outer(level, index string) jobs.Outer {
	return jobs.Outer{Required: level, Group: jobs.AllSets, Index: index}
}

// gangSize is how many pods a Job wants to start together at least, 0 if it does not say.
func gangSize(j *batchv1.Job) int32 {
	if s := j.Spec.Scheduling; s != nil && s.SchedulingPolicy != nil && s.SchedulingPolicy.Gang != nil {
		return ptr.Deref(s.SchedulingPolicy.Gang.MinCount, 0)
	}
	return 0
}

// validateScheduling checks what a Job says of its scheduling against what it says of its pods.
func validateScheduling(j *batchv1.Job) field.ErrorList {
	if j.Spec.Scheduling == nil {
		return nil
	}
	var errs field.ErrorList
	at := field.NewPath("spec", "scheduling")
	size := at.Child("schedulingPolicy", "gang", "minCount")
	least := gangSize(j)
	if n := pods(j); least > n {
		errs = append(errs, field.Invalid(
			size,
			least,
			fmt.Sprintf(
				"so many pods never run at the same time: use %d at most, or raise spec.parallelism and spec.completions",
				n,
			),
		))
	}
	if n := fewest(j); n != nil && least > *n {
		errs = append(errs, field.Invalid(size, least, fmt.Sprintf(
			"annotation %s lets the Job start with %d pods: use %d at most, or raise that",
			kueue.JobMinParallelismAnnotation, *n, *n)))
	}
	if l := level(j); l != "" {
		notes := j.Spec.Template.Annotations
		key, where := outer(l, "").Against(notes), " of spec.template"
		if other := j.Annotations[kueue.KAIRequiredAnnotation]; key == "" && other != "" && other != l {
			key, where, notes = kueue.KAIRequiredAnnotation, "", j.Annotations
		}
		if key != "" {
			errs = append(errs, field.Invalid(at.Child("schedulingConstraints", "topology").Index(0).Child("key"), l,
				fmt.Sprintf("annotation %s%s says %s: leave one of them out", key, where, notes[key])))
		}
	}
	if len(j.Spec.Scheduling.ResourceClaims) > 0 {
		errs = append(errs, field.Forbidden(
			at.Child("resourceClaims"),
			"devices that are shared by a group are not understood: leave them out, and name the claims in spec.template alone",
		))
	}
	return errs
}

// validateWrapped is validateScheduling for a Job that is part of another object.
func validateWrapped(t map[string]any) field.ErrorList {
	j := &batchv1.Job{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(t, j); err != nil {
		return nil // the API server says more of it
	}
	return validateScheduling(j)
}

// validateSchedulingChange checks a Job again when something changes that it is checked by.
func validateSchedulingChange(was, is *batchv1.Job) field.ErrorList {
	if equality.Semantic.DeepEqual(was.Spec.Scheduling, is.Spec.Scheduling) && pods(was) == pods(is) &&
		ptr.Equal(fewest(was), fewest(is)) &&
		equality.Semantic.DeepEqual(was.Spec.Template.Annotations, is.Spec.Template.Annotations) {
		return nil
	}
	return validateScheduling(is)
}
