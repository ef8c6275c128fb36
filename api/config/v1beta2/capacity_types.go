package v1beta2

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Capacity says what nodes there should be, and what becomes of quotas when too many are lost.
type Capacity struct {
	// WhenShort is Tell or Cut: what happens while nodes are lost that were promised.
	WhenShort *WhenShort `json:"whenShort,omitempty"`

	// Flavors are what is to be known of the nodes of ResourceFlavors.
	Flavors []FlavorCapacity `json:"flavors,omitempty"`
}

// WhenShort says what becomes of quotas while nodes are lost that were promised.
type WhenShort string

// What becomes of quotas.
const (
	// ShortTell leaves them as they are, and tells.
	ShortTell WhenShort = "Tell"
	// ShortCut cuts them in proportion for what is admitted, in effect and in no spec.
	ShortCut WhenShort = "Cut"
)

// FlavorCapacity is what is to be known of the nodes of a ResourceFlavor.
type FlavorCapacity struct {
	// Name of the ResourceFlavor.
	Name string `json:"name"`

	// Planned is what its nodes should have together. Of a resource that is left out it is what the nodes have that
	// were ever seen and not struck out.
	Planned corev1.ResourceList `json:"planned,omitempty"`

	// Spares are how many nodes, or what share of those that exist, such as 5%, only recovery may use; none of a flavor
	// whose nodes are made when jobs ask for them.
	Spares *intstr.IntOrString `json:"spares,omitempty"`
}

func validateCapacity(c *Capacity, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if w := *c.WhenShort; w != ShortTell && w != ShortCut {
		errs = append(errs, field.NotSupported(at.Child("whenShort"), w, []WhenShort{ShortTell, ShortCut}))
	}
	for i, f := range c.Flavors {
		at := at.Child("flavors").Index(i)
		if f.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), "name a ResourceFlavor"))
		} else if faults := validation.IsDNS1123Subdomain(f.Name); len(faults) > 0 {
			errs = append(errs, field.Invalid(at.Child("name"), f.Name, strings.Join(faults, "; ")))
		}
		if slices.ContainsFunc(c.Flavors[:i], func(o FlavorCapacity) bool { return o.Name == f.Name }) {
			errs = append(errs, field.Duplicate(at.Child("name"), f.Name))
		}
		if s := f.Spares; s != nil {
			percent := s.Type == intstr.String
			n, err := intstr.GetScaledValueFromIntOrPercent(s, 100, true)
			if err != nil || n < 0 || percent && n > 100 {
				errs = append(errs, field.Invalid(
					at.Child("spares"), s.String(), "must be a number of nodes, or a share from 0% to 100%",
				))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(f.Planned)) {
			q := f.Planned[name]
			if q.Sign() < 0 {
				errs = append(errs, field.Invalid(
					at.Child("planned").Key(string(name)), q.String(), "must be 0 or more, such as the GPUs of all nodes",
				))
			}
			if name == corev1.ResourcePods {
				errs = append(errs, field.Forbidden(
					at.Child("planned").Key(string(name)),
					fmt.Sprintf("%s are slots and no hardware: leave them out", name),
				))
			}
		}
	}
	return errs
}
