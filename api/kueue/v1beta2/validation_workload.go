package v1beta2

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateWorkload says what is wrong with the pod sets of a Workload. What
// may change later says ValidateWorkloadKept.
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
				errs = append(
					errs,
					field.Invalid(
						at.Child("minCount"),
						*ps.MinCount,
						fmt.Sprintf("may not exceed the count of %d", ps.Count),
					),
				)
			}
		}
		errs = append(errs, ValidatePodTemplate(&ps.Template, at.Child("template"))...)
	}
	if partial > 0 && w.Annotations[ElasticJobAnnotation] == "true" {
		errs = append(
			errs,
			field.Forbidden(
				at,
				"an elastic job changes its size by itself: remove minCount, or the annotation "+ElasticJobAnnotation,
			),
		)
	}
	return errs
}

// ValidateWorkloadUpdate says what is wrong with changing was to w: with its
// spec if that changed, with its status if that did. What may not change at all
// says ValidateWorkloadKept.
func ValidateWorkloadUpdate(was, w *Workload) field.ErrorList {
	var errs field.ErrorList
	if !equality.Semantic.DeepEqual(was.Spec, w.Spec) {
		errs = append(errs, ValidateWorkload(w)...)
	}
	if !equality.Semantic.DeepEqual(was.Status, w.Status) {
		errs = append(errs, validateWorkloadStatus(w)...)
	}
	return errs
}

// validateWorkloadStatus looks at admission and admissionChecks only: the webhook is
// not called about changes of anything else in a status.
func validateWorkloadStatus(w *Workload) field.ErrorList {
	var errs field.ErrorList
	status := field.NewPath("status")
	names := make([]PodSetReference, len(w.Spec.PodSets))
	for i := range w.Spec.PodSets {
		names[i] = w.Spec.PodSets[i].Name
	}
	if a := w.Status.Admission; a != nil {
		for i := range a.PodSetAssignments {
			errs = append(
				errs,
				validateAssignment(
					&a.PodSetAssignments[i],
					names,
					status.Child("admission", "podSetAssignments").Index(i),
				)...)
		}
	}
	for i := range w.Status.AdmissionChecks {
		updates := status.Child("admissionChecks").Index(i).Child("podSetUpdates")
		seen := map[PodSetReference]bool{}
		for j, u := range w.Status.AdmissionChecks[i].PodSetUpdates {
			if seen[u.Name] {
				errs = append(errs, field.Duplicate(updates.Index(j).Child("name"), u.Name))
			}
			seen[u.Name] = true
			errs = append(errs, validatePodSetUpdate(&u, names, updates.Index(j))...)
		}
	}
	return errs
}

// validateAssignment says what is wrong with what one pod set got. Every pod
// uses the same, so usage must be a multiple of their number: it is scaled down
// as pods end.
func validateAssignment(a *PodSetAssignment, podSets []PodSetReference, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !slices.Contains(podSets, a.Name) {
		errs = append(errs, field.NotSupported(at.Child("name"), a.Name, podSets))
	}
	if a.Count == nil || *a.Count < 1 {
		return errs
	}
	for _, name := range slices.Sorted(maps.Keys(a.ResourceUsage)) {
		q := a.ResourceUsage[name]
		n := q.Value()
		if name == corev1.ResourceCPU {
			n = q.MilliValue()
		}
		if n%int64(*a.Count) != 0 {
			errs = append(errs, field.Invalid(at.Child("resourceUsage").Key(string(name)), q.String(),
				fmt.Sprintf("must be a multiple of the count of %d: each pod uses the same", *a.Count)))
		}
	}
	return errs
}

func validatePodSetUpdate(u *PodSetUpdate, podSets []PodSetReference, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !slices.Contains(podSets, u.Name) {
		errs = append(errs, field.NotSupported(at.Child("name"), u.Name, podSets))
	}
	errs = append(errs, metavalidation.ValidateLabels(u.Labels, at.Child("labels"))...)
	errs = append(errs, apivalidation.ValidateAnnotations(u.Annotations, at.Child("annotations"))...)
	errs = append(errs, metavalidation.ValidateLabels(u.NodeSelector, at.Child("nodeSelector"))...)
	for i, t := range u.Tolerations {
		if t.Key != "" {
			errs = append(
				errs,
				metavalidation.ValidateLabelName(t.Key, at.Child("tolerations").Index(i).Child("key"))...)
		}
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
		errs = append(
			errs,
			validateRequests(
				t.Spec.InitContainers[i].Resources,
				spec.Child("initContainers").Index(i).Child("resources"),
			)...)
	}
	for i := range t.Spec.Containers {
		errs = append(
			errs,
			validateRequests(t.Spec.Containers[i].Resources, spec.Child("containers").Index(i).Child("resources"))...)
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
