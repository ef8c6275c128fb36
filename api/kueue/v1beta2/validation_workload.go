package v1beta2

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateWorkload says what is wrong with the pod sets of a Workload. What
// may change later is ruled by the schema (see Workload).
func ValidateWorkload(w *Workload) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("spec", "podSets")
	if len(w.Spec.PodSets) == 0 {
		errs = append(errs, field.Required(at, "a workload has at least one pod set"))
	}
	partial := 0
	for i := range w.Spec.PodSets {
		ps := &w.Spec.PodSets[i]
		at := at.Index(i)
		if ps.MinCount != nil {
			partial++
			if partial > 1 {
				errs = append(errs, field.Forbidden(at.Child("minCount"), "at most one pod set may have minCount"))
			}
			if *ps.MinCount > ps.Count {
				errs = append(errs, field.Invalid(at.Child("minCount"), *ps.MinCount, fmt.Sprintf("may not exceed the count of %d", ps.Count)))
			}
		}
		errs = append(errs, ValidatePodTemplate(&ps.Template, at.Child("template"))...)
	}
	return errs
}

// ValidatePodTemplate says what is wrong with a pod template as far as queueing
// cares: requests that cannot be counted, and metadata that no pod could have.
func ValidatePodTemplate(t *corev1.PodTemplateSpec, at *field.Path) field.ErrorList {
	errs := metavalidation.ValidateLabels(t.Labels, at.Child("metadata", "labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(t.Annotations, at.Child("metadata", "annotations"))...)
	spec := at.Child("spec")
	for i := range t.Spec.InitContainers {
		errs = append(errs, validateRequests(t.Spec.InitContainers[i].Resources, spec.Child("initContainers").Index(i).Child("resources"))...)
	}
	for i := range t.Spec.Containers {
		errs = append(errs, validateRequests(t.Spec.Containers[i].Resources, spec.Child("containers").Index(i).Child("resources"))...)
	}
	if t.Spec.Resources != nil {
		errs = append(errs, validateRequests(*t.Spec.Resources, spec.Child("resources"))...)
	}
	return errs
}

func validateRequests(r corev1.ResourceRequirements, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, list := range []struct {
		field string
		value corev1.ResourceList
	}{{"requests", r.Requests}, {"limits", r.Limits}} {
		for _, name := range slices.Sorted(maps.Keys(list.value)) {
			at := at.Child(list.field).Key(string(name))
			q := list.value[name]
			errs = append(errs, notNegative(&q, at)...)
			if name == corev1.ResourcePods {
				errs = append(errs, field.Forbidden(at, "pods are counted by themselves: remove this entry"))
			}
		}
	}
	return errs
}
