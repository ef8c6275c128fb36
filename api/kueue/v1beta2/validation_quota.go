package v1beta2

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds on resource groups beyond those of the schema.
const (
	maxFlavors        = 256
	maxResources      = 256
	maxQuotasPerGroup = 512
)

// quotaRules are what differs between the quotas of a queue and of a cohort.
type quotaRules struct {
	// hasParent: there are others to borrow from and lend to.
	hasParent bool
	// parentField is the field that would name the parent.
	parentField string
	// lendOwnOnly: lendingLimit may not exceed nominalQuota.
	lendOwnOnly bool
}

func validateResourceGroups(groups []ResourceGroup, rules quotaRules, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	resources := map[corev1.ResourceName]bool{}
	flavors := map[ResourceFlavorReference]bool{}
	for i, g := range groups {
		at := at.Index(i)
		for j, r := range g.CoveredResources {
			at := at.Child("coveredResources").Index(j)
			errs = append(errs, metavalidation.ValidateLabelName(string(r), at)...)
			if resources[r] {
				errs = append(errs, duplicate(at, r, "a resource belongs to one group only: remove it here"))
			}
			resources[r] = true
		}
		for j, f := range g.Flavors {
			at := at.Child("flavors").Index(j)
			if flavors[f.Name] {
				errs = append(
					errs,
					duplicate(at.Child("name"), f.Name, "a flavor belongs to one group only: remove it here"),
				)
			}
			flavors[f.Name] = true
			errs = append(errs, validateFlavorQuotas(f, g.CoveredResources, rules, at)...)
		}
		if n := len(g.Flavors) * len(g.CoveredResources); n > maxQuotasPerGroup {
			errs = append(errs, field.TooMany(at, n, maxQuotasPerGroup))
		}
	}
	if len(flavors) > maxFlavors {
		errs = append(errs, field.TooMany(at.Key("flavors"), len(flavors), maxFlavors))
	}
	if len(resources) > maxResources {
		errs = append(errs, field.TooMany(at.Key("coveredResources"), len(resources), maxResources))
	}
	return errs
}

// validateFlavorQuotas compares the resources of a flavor with those its group
// covers: they must be the same in the same order, so that a reader sees at a
// glance that none is missing.
func validateFlavorQuotas(
	f FlavorQuotas,
	covered []corev1.ResourceName,
	rules quotaRules,
	at *field.Path,
) field.ErrorList {
	names := make([]corev1.ResourceName, len(f.Resources))
	for i, r := range f.Resources {
		names[i] = r.Name
	}
	var errs field.ErrorList
	if !slices.Equal(names, covered) {
		errs = append(errs, field.Invalid(
			at.Child("resources"),
			names,
			fmt.Sprintf(
				"flavor %q must have the same resources in the same order as coveredResources: %v",
				f.Name,
				covered,
			),
		))
	}
	for i, r := range f.Resources {
		errs = append(errs, validateQuota(r, rules, at.Child("resources").Index(i))...)
	}
	return errs
}

func validateQuota(q ResourceQuota, rules quotaRules, at *field.Path) field.ErrorList {
	errs := notNegative(&q.NominalQuota, at.Child("nominalQuota"))
	for _, limit := range []struct {
		field string
		value *resource.Quantity
	}{{"borrowingLimit", q.BorrowingLimit}, {"lendingLimit", q.LendingLimit}} {
		if limit.value == nil {
			continue
		}
		at := at.Child(limit.field)
		errs = append(errs, notNegative(limit.value, at)...)
		if !rules.hasParent {
			errs = append(errs, field.Invalid(at, limit.value.String(),
				fmt.Sprintf("has no meaning without a cohort: set %s or remove %s", rules.parentField, limit.field)))
		}
	}
	if rules.lendOwnOnly && q.LendingLimit != nil && q.LendingLimit.Cmp(q.NominalQuota) > 0 {
		errs = append(errs, field.Invalid(
			at.Child("lendingLimit"),
			q.LendingLimit.String(),
			fmt.Sprintf(
				"cannot lend more than the nominalQuota of %s: lower lendingLimit to at most %s, or remove it to lend all",
				q.NominalQuota.String(),
				q.NominalQuota.String(),
			),
		))
	}
	return errs
}

func notNegative(q *resource.Quantity, at *field.Path) field.ErrorList {
	if q.Sign() >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(at, q.String(), "cannot be negative: use 0 or more")}
}

// duplicate is field.Duplicate with a cure.
func duplicate(at *field.Path, value any, cure string) *field.Error {
	err := field.Duplicate(at, value)
	err.Detail = cure
	return err
}

// flavorNames lists the flavors of all groups in order.
func flavorNames(groups []ResourceGroup) []ResourceFlavorReference {
	var names []ResourceFlavorReference
	for _, g := range groups {
		for _, f := range g.Flavors {
			names = append(names, f.Name)
		}
	}
	return names
}
