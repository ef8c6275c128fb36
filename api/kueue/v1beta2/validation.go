package v1beta2

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateClusterQueue says what is wrong with a ClusterQueue.
func ValidateClusterQueue(cq *ClusterQueue) field.ErrorList {
	spec := field.NewPath("spec")
	rules := quotaRules{hasParent: cq.Spec.CohortName != "", parentField: "spec.cohortName", lendOwnOnly: true}
	errs := validateResourceGroups(cq.Spec.ResourceGroups, rules, spec.Child("resourceGroups"))
	errs = append(errs, metavalidation.ValidateLabelSelector(cq.Spec.NamespaceSelector,
		metavalidation.LabelSelectorValidationOptions{}, spec.Child("namespaceSelector"))...)
	errs = append(errs, validatePreemption(cq.Spec.Preemption, spec.Child("preemption"))...)
	errs = append(errs, validateMinimumRuntime(cq.Annotations)...)
	errs = append(errs, validateLeastLostWork(cq.Annotations)...)
	errs = append(errs, validateRelocationsPerHour(cq.Annotations)...)
	errs = append(errs, validateChecks(cq, spec.Child("admissionChecksStrategy"))...)
	errs = append(errs, validateFairSharing(cq.Spec.FairSharing, spec.Child("fairSharing"))...)
	return append(errs, validateConcurrentAdmission(&cq.Spec, spec.Child("concurrentAdmissionPolicy"))...)
}

// ValidateClusterQueueUpdate says what is wrong with changing was to cq.
func ValidateClusterQueueUpdate(was, cq *ClusterQueue) field.ErrorList {
	errs := ValidateClusterQueue(cq)
	if !equality.Semantic.DeepEqual(was.Spec.ConcurrentAdmissionPolicy, cq.Spec.ConcurrentAdmissionPolicy) {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "concurrentAdmissionPolicy"),
			"cannot be changed: delete the ClusterQueue and create it anew"))
	}
	return errs
}

// ValidateCohort says what is wrong with a Cohort. parents are the parents of
// all cohorts that have one.
func ValidateCohort(c *Cohort, parents map[CohortReference]CohortReference) field.ErrorList {
	spec := field.NewPath("spec")
	rules := quotaRules{hasParent: c.Spec.ParentName != "", parentField: "spec.parentName"}
	errs := validateResourceGroups(c.Spec.ResourceGroups, rules, spec.Child("resourceGroups"))
	errs = append(errs, validateFairSharing(c.Spec.FairSharing, spec.Child("fairSharing"))...)
	if cycle := findCycle(CohortReference(c.Name), c.Spec.ParentName, parents); cycle != nil {
		errs = append(errs, field.Invalid(spec.Child("parentName"), c.Spec.ParentName,
			fmt.Sprintf("makes a cycle of cohorts, %s: choose a parent that is not %s and not below it",
				strings.Join(cycle, " -> "), c.Name)))
	}
	return errs
}

// findCycle returns the path from name through parent back to name, or nil.
func findCycle(name, parent CohortReference, parents map[CohortReference]CohortReference) []string {
	path := []string{string(name)}
	for at := parent; at != ""; at = parents[at] {
		path = append(path, string(at))
		if at == name {
			return path
		}
		// A cycle that this cohort only leads into was there before it; it is
		// for its own members to mend.
		if len(path) > len(parents)+2 {
			return nil
		}
	}
	return nil
}

// ValidateLocalQueue says what is wrong with a LocalQueue.
func ValidateLocalQueue(lq *LocalQueue) field.ErrorList {
	spec := field.NewPath("spec")
	errs := validateFairSharing(lq.Spec.FairSharing, spec.Child("fairSharing"))
	if lq.Spec.ClusterQueue == "" {
		errs = append(
			errs,
			field.Required(spec.Child("clusterQueue"), "name the ClusterQueue that this queue leads to"),
		)
	}
	return errs
}

// ValidateLocalQueueUpdate says what is wrong with changing was to lq.
func ValidateLocalQueueUpdate(was, lq *LocalQueue) field.ErrorList {
	errs := ValidateLocalQueue(lq)
	if was.Spec.ClusterQueue != lq.Spec.ClusterQueue {
		errs = append(errs, field.Invalid(field.NewPath("spec", "clusterQueue"), lq.Spec.ClusterQueue,
			fmt.Sprintf("cannot be changed from %q: delete the LocalQueue and create it anew", was.Spec.ClusterQueue)))
	}
	return errs
}

// ValidateResourceFlavor says what is wrong with a ResourceFlavor.
func ValidateResourceFlavor(rf *ResourceFlavor) field.ErrorList {
	spec := field.NewPath("spec")
	errs := metavalidation.ValidateLabels(rf.Spec.NodeLabels, spec.Child("nodeLabels"))
	type taint struct{ key, effect string }
	seen := map[taint]bool{}
	for i, t := range rf.Spec.NodeTaints {
		at := spec.Child("nodeTaints").Index(i)
		errs = append(errs, metavalidation.ValidateLabelName(t.Key, at.Child("key"))...)
		id := taint{t.Key, string(t.Effect)}
		if seen[id] {
			errs = append(errs, field.Duplicate(at, t.Key+":"+string(t.Effect)))
		}
		seen[id] = true
	}
	for i, t := range rf.Spec.Tolerations {
		if t.Key != "" {
			errs = append(
				errs,
				metavalidation.ValidateLabelName(t.Key, spec.Child("tolerations").Index(i).Child("key"))...)
		}
	}
	if rf.Spec.TopologyName != nil && len(rf.Spec.NodeLabels) == 0 {
		errs = append(errs, field.Required(spec.Child("nodeLabels"), "topologyName needs at least one node label"))
	}
	return errs
}

func validatePreemption(p *ClusterQueuePreemption, at *field.Path) field.ErrorList {
	if p == nil || p.BorrowWithinCohort == nil {
		return nil
	}
	if b := p.BorrowWithinCohort.Policy; b != "" && b != BorrowWithinCohortPolicyNever &&
		(p.ReclaimWithinCohort == "" || p.ReclaimWithinCohort == PreemptionPolicyNever) {
		return field.ErrorList{
			field.Invalid(
				at.Child("borrowWithinCohort", "policy"),
				b,
				"needs reclaimWithinCohort other than Never: set spec.preemption.reclaimWithinCohort to LowerPriority or Any",
			),
		}
	}
	return nil
}

func validateChecks(cq *ClusterQueue, at *field.Path) field.ErrorList {
	if cq.Spec.AdmissionChecksStrategy == nil {
		return nil
	}
	var errs field.ErrorList
	flavors := flavorNames(cq.Spec.ResourceGroups)
	for i, rule := range cq.Spec.AdmissionChecksStrategy.AdmissionChecks {
		for j, f := range rule.OnFlavors {
			if !slices.Contains(flavors, f) {
				errs = append(
					errs,
					field.NotSupported(at.Child("admissionChecks").Index(i).Child("onFlavors").Index(j), f, flavors),
				)
			}
		}
	}
	return errs
}

func validateFairSharing(f *FairSharing, at *field.Path) field.ErrorList {
	if f == nil || f.Weight == nil {
		return nil
	}
	nano := resource.NewScaledQuantity(1, resource.Nano)
	switch {
	case f.Weight.Sign() < 0:
		return field.ErrorList{
			field.Invalid(at.Child("weight"), f.Weight.String(), "cannot be negative: use 0 or more"),
		}
	case f.Weight.Sign() > 0 && f.Weight.Cmp(*nano) <= 0:
		return field.ErrorList{
			field.Invalid(at.Child("weight"), f.Weight.String(), "is too small: use 0 or more than 1n"),
		}
	}
	return nil
}

// maxConcurrentFlavors is how many flavors a workload may wait for at once.
const maxConcurrentFlavors = 16

func validateConcurrentAdmission(s *ClusterQueueSpec, at *field.Path) field.ErrorList {
	p := s.ConcurrentAdmissionPolicy
	if p == nil {
		return nil
	}
	var errs field.ErrorList
	if len(s.ResourceGroups) != 1 {
		errs = append(
			errs,
			field.Forbidden(at, fmt.Sprintf("needs exactly one resource group, there are %d", len(s.ResourceGroups))),
		)
	}
	if s.QueueingStrategy == StrictFIFO {
		errs = append(
			errs,
			field.Forbidden(at, "cannot be used with queueingStrategy StrictFIFO: use BestEffortFIFO"),
		)
	}
	flavors := flavorNames(s.ResourceGroups)
	if len(flavors) > maxConcurrentFlavors {
		errs = append(
			errs,
			field.Forbidden(
				at,
				fmt.Sprintf("needs at most %d flavors, there are %d", maxConcurrentFlavors, len(flavors)),
			),
		)
	}
	if c := p.Migration.Constraints; c != nil && c.LastAcceptableFlavorName != "" {
		at := at.Child("migration", "constraints", "lastAcceptableFlavorName")
		if p.Migration.Mode != TryPreferredFlavors {
			errs = append(errs, field.Forbidden(at, "has an effect only with mode TryPreferredFlavors"))
		}
		if !slices.Contains(flavors, c.LastAcceptableFlavorName) {
			errs = append(errs, field.NotSupported(at, c.LastAcceptableFlavorName, flavors))
		}
	}
	return errs
}
