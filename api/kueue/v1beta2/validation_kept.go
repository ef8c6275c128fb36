package v1beta2

import (
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateWorkloadKept says what of a Workload was changed that an admission was
// decided on. Everything is compared by what it means: 1000m is 1, 1G is 1000M,
// and an empty list is none, however a client spells them. What is one number or
// name, the schema rules (see Workload).
func ValidateWorkloadKept(was, w *Workload) field.ErrorList {
	var errs field.ErrorList
	if HasQuota(was) && HasQuota(w) && !equality.Semantic.DeepEqual(was.Spec.PodSets, w.Spec.PodSets) {
		errs = append(errs, PodSetsKept())
	}
	if was.Status.Admission != nil && w.Status.Admission != nil {
		errs = append(errs, usageKept(was.Status.Admission, w.Status.Admission)...)
	}
	return append(errs, updatesKept(was.Status.AdmissionChecks, w.Status.AdmissionChecks)...)
}

// PodSetsKept tells that pod sets may not change under a reservation.
func PodSetsKept() *field.Error {
	return field.Forbidden(field.NewPath("spec", "podSets"), "cannot be changed while quota is reserved: suspend the job first")
}

// HasQuota reports whether quota is reserved for a Workload.
func HasQuota(w *Workload) bool {
	return apimeta.IsStatusConditionTrue(w.Status.Conditions, WorkloadQuotaReserved)
}

func usageKept(was, is *Admission) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("status", "admission", "podSetAssignments")
	old := map[PodSetReference]*PodSetAssignment{}
	for i := range was.PodSetAssignments {
		old[was.PodSetAssignments[i].Name] = &was.PodSetAssignments[i]
	}
	for i := range is.PodSetAssignments {
		a := &is.PodSetAssignments[i]
		if o := old[a.Name]; o != nil && !equality.Semantic.DeepEqual(o.ResourceUsage, a.ResourceUsage) {
			errs = append(errs, field.Forbidden(at.Index(i).Child("resourceUsage"), "cannot be changed, only set and removed with the whole admission"))
		}
	}
	return errs
}

func updatesKept(was, is []AdmissionCheckState) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("status", "admissionChecks")
	old := map[AdmissionCheckReference]*AdmissionCheckState{}
	for i := range was {
		old[was[i].Name] = &was[i]
	}
	for i := range is {
		o := old[is[i].Name]
		if o == nil || o.State != CheckStateReady || is[i].State != CheckStateReady {
			continue
		}
		if !equality.Semantic.DeepEqual(o.PodSetUpdates, is[i].PodSetUpdates) {
			errs = append(errs, field.Forbidden(at.Index(i).Child("podSetUpdates"), "cannot be changed while the check is Ready"))
		}
	}
	return errs
}
