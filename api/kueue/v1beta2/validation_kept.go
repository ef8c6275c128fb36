package v1beta2

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateWorkloadKept says what of a Workload was changed that an admission was
// decided on, and what of its status contradicts its spec. Everything is compared
// by what it means: 1000m is 1, 1G is 1000M, and an empty list is none, however a
// client spells them. What did not change is not complained about, so that
// whatever is stored can be ended.
func ValidateWorkloadKept(was, w *Workload) field.ErrorList {
	errs := specKept(was, w)
	status := field.NewPath("status")
	if !equality.Semantic.DeepEqual(was.Status.Admission, w.Status.Admission) {
		errs = append(errs, admissionKept(was.Status.Admission, w, status.Child("admission"))...)
	}
	if w.Status.Admission == nil && HasQuota(w) && (was.Status.Admission != nil || !HasQuota(was)) {
		errs = append(
			errs,
			field.Required(status.Child("admission"), "must be set while the condition QuotaReserved is True"),
		)
	}
	if !equality.Semantic.DeepEqual(was.Status.ReclaimablePods, w.Status.ReclaimablePods) ||
		!equality.Semantic.DeepEqual(was.Spec.PodSets, w.Spec.PodSets) {
		errs = append(errs, reclaimableKept(was, w, status.Child("reclaimablePods"))...)
	}
	errs = append(errs, clusterKept(&was.Status, &w.Status, status.Child("clusterName"))...)
	return append(errs, updatesKept(was.Status.AdmissionChecks, w.Status.AdmissionChecks)...)
}

// specKept are the rules of a spec while quota is reserved for it.
func specKept(was, w *Workload) field.ErrorList {
	if !HasQuota(was) || !HasQuota(w) {
		return nil
	}
	var errs field.ErrorList
	spec := field.NewPath("spec")
	const suspend = "cannot be changed while quota is reserved: suspend the job first"
	if !equality.Semantic.DeepEqual(was.Spec.PodSets, w.Spec.PodSets) {
		errs = append(errs, PodSetsKept())
	}
	if was.Spec.QueueName != w.Spec.QueueName {
		errs = append(errs, field.Forbidden(spec.Child("queueName"), suspend))
	}
	if !classKept(was.Spec.PriorityClassRef, w.Spec.PriorityClassRef) {
		errs = append(
			errs,
			field.Forbidden(
				spec.Child("priorityClassRef"),
				"only the name of a WorkloadPriorityClass can be changed while quota is reserved",
			),
		)
	}
	if admitted(was) && admitted(w) &&
		!equality.Semantic.DeepEqual(was.Spec.MaximumExecutionTimeSeconds, w.Spec.MaximumExecutionTimeSeconds) {
		errs = append(
			errs,
			field.Forbidden(
				spec.Child("maximumExecutionTimeSeconds"),
				"cannot be changed while the workload is admitted: suspend the job first",
			),
		)
	}
	return errs
}

// classKept reports whether a reserved workload may go from one class to another:
// classes of pods are what its pods have.
func classKept(was, is *PriorityClassRef) bool {
	if was == nil || is == nil {
		return was == is
	}
	if was.Group != is.Group || was.Kind != is.Kind {
		return false
	}
	return was.Name == is.Name || is.Kind != PodPriorityClassKind
}

func admitted(w *Workload) bool {
	return apimeta.IsStatusConditionTrue(w.Status.Conditions, WorkloadAdmitted)
}

// PodSetsKept tells that pod sets may not change under a reservation.
func PodSetsKept() *field.Error {
	return field.Forbidden(
		field.NewPath("spec", "podSets"),
		"cannot be changed while quota is reserved: suspend the job first",
	)
}

// HasQuota reports whether quota is reserved for a Workload.
func HasQuota(w *Workload) bool {
	return apimeta.IsStatusConditionTrue(w.Status.Conditions, WorkloadQuotaReserved)
}

// admissionKept are the rules of an admission that was changed: places may, all
// else is set and removed with the whole.
func admissionKept(was *Admission, w *Workload, at *field.Path) field.ErrorList {
	is := w.Status.Admission
	if is == nil {
		return nil
	}
	var errs field.ErrorList
	sets := at.Child("podSetAssignments")
	if len(is.PodSetAssignments) != len(w.Spec.PodSets) {
		errs = append(
			errs,
			field.Invalid(sets, len(is.PodSetAssignments), "must have one assignment for each pod set"),
		)
	}
	if was == nil {
		return errs
	}
	if was.ClusterQueue != is.ClusterQueue {
		errs = append(errs, field.Forbidden(at.Child("clusterQueue"), "cannot be changed, only set and removed"))
	}
	const whole = "cannot be changed, only set and removed with the whole admission"
	old := map[PodSetReference]*PodSetAssignment{}
	for i := range was.PodSetAssignments {
		old[was.PodSetAssignments[i].Name] = &was.PodSetAssignments[i]
	}
	for i := range is.PodSetAssignments {
		a := &is.PodSetAssignments[i]
		o := old[a.Name]
		if o == nil {
			if len(old) > 0 {
				errs = append(
					errs,
					field.Forbidden(
						sets.Index(i).Child("name"),
						"pod sets cannot be renamed, only set and removed with the whole admission",
					),
				)
			}
			continue
		}
		for _, part := range []struct {
			name    string
			was, is any
		}{
			{"count", o.Count, a.Count},
			{"flavors", o.Flavors, a.Flavors},
			{"resourceUsage", o.ResourceUsage, a.ResourceUsage},
		} {
			if !equality.Semantic.DeepEqual(part.was, part.is) {
				errs = append(errs, field.Forbidden(sets.Index(i).Child(part.name), whole))
			}
		}
	}
	return errs
}

// reclaimableKept are the rules of the pods that need their quota no more: of no
// set more than there are, and none comes back while the quota is held, which may
// be another's by then.
func reclaimableKept(was, w *Workload, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	counts := map[PodSetReference]int32{}
	for i := range w.Spec.PodSets {
		counts[w.Spec.PodSets[i].Name] = w.Spec.PodSets[i].Count
	}
	now := map[PodSetReference]int32{}
	for i, r := range w.Status.ReclaimablePods {
		now[r.Name] = r.Count
		if count, known := counts[r.Name]; !known || r.Count > count {
			errs = append(
				errs,
				field.Invalid(at.Index(i), r.Count, "must name pod sets of spec.podSets with at most their count"),
			)
		}
	}
	if HasQuota(was) && HasQuota(w) {
		for _, r := range was.Status.ReclaimablePods {
			if now[r.Name] < r.Count {
				errs = append(errs, field.Forbidden(at, "cannot shrink while quota is reserved"))
				break
			}
		}
	}
	return errs
}

// text is what a string says, nothing if there is none.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// clusterKept are the rules of the cluster that was chosen for a job.
func clusterKept(was, is *WorkloadStatus, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	before, now := text(was.ClusterName), text(is.ClusterName)
	if now == "" {
		return nil
	}
	if before != "" && before != now {
		errs = append(errs, field.Forbidden(at, "cannot be changed once set, only removed"))
	}
	if len(is.NominatedClusterNames) > 0 && (before != now || len(was.NominatedClusterNames) == 0) {
		errs = append(errs, field.Forbidden(at, "clusterName and nominatedClusterNames exclude each other"))
	}
	if before == "" && len(was.NominatedClusterNames) > 0 && !slices.Contains(was.NominatedClusterNames, now) {
		errs = append(errs, field.Invalid(at, now, "must be one of the nominatedClusterNames"))
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
			errs = append(
				errs,
				field.Forbidden(at.Index(i).Child("podSetUpdates"), "cannot be changed while the check is Ready"),
			)
		}
	}
	return errs
}
