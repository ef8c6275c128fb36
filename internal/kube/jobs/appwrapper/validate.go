package appwrapper

import (
	"bytes"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// mostPodSets is how many pod sets a Workload can have.
const mostPodSets = 8

// Validate says what is wrong with a new AppWrapper, and how to mend it.
func Validate(w *aw.AppWrapper) field.ErrorList {
	var errs field.ErrorList
	if len(w.Name) > validation.LabelValueMaxLength {
		errs = append(errs, field.TooLong(field.NewPath("metadata", "name"), "", validation.LabelValueMaxLength))
	}
	components, cErrs := parse(w)
	errs = append(errs, cErrs...)
	path := field.NewPath("spec", "components")
	podSets, incomplete := 0, false
	type object struct {
		kind schema.GroupKind
		name string
	}
	seen := map[object]bool{}
	for i, c := range components {
		at := path.Index(i).Child("template")
		errs = append(errs, validateComponent(w, c, at)...)
		podSets += len(c.PodSets)
		incomplete = incomplete || c.incomplete
		o := object{c.GVK.GroupKind(), c.Name}
		if c.Name != "" && seen[o] {
			errs = append(errs, field.Duplicate(at.Child("metadata", "name"), c.Name))
		}
		seen[o] = true
	}
	switch {
	case len(cErrs) > 0:
		// The count would be wrong.
	case podSets == 0 && incomplete:
		// They are counted when what they are based on is recorded.
	case podSets == 0:
		errs = append(
			errs,
			field.Required(path, "at least one component must run pods; others can be created without an AppWrapper"),
		)
	case podSets > mostPodSets:
		errs = append(errs, field.TooMany(path, podSets, mostPodSets))
	}
	return errs
}

func validateComponent(w *aw.AppWrapper, c Component, at *field.Path) field.ErrorList {
	if c.GVK.Kind == "" {
		return nil // reported when it was parsed
	}
	if c.GVK.Group == aw.GroupVersion.Group && c.GVK.Kind == aw.AppWrapperKind {
		return field.ErrorList{
			field.Invalid(
				at.Child("kind"),
				c.GVK.Kind,
				"an AppWrapper cannot contain another; list its components here",
			),
		}
	}
	if key, fault := kueue.KAITopologyRequestFault(c.annotations()); fault != "" {
		return field.ErrorList{
			field.Invalid(at.Child("metadata", "annotations").Key(key), c.annotations()[key], fault),
		}
	}
	metadata, _ := c.template["metadata"].(map[string]any)
	if ns := jobs.Text(metadata, "namespace"); ns != "" && ns != w.Namespace {
		return field.ErrorList{
			field.Invalid(
				at.Child("metadata", "namespace"),
				ns,
				fmt.Sprintf(
					"a component is created in the namespace of its AppWrapper; leave namespace out or set it to %q",
					w.Namespace,
				),
			),
		}
	}
	errs := append(append(countable(c, at), forbidden(c, at, w.Namespace)...), kept(c, at)...)
	for i := range c.PodSets {
		errs = append(errs, jobs.OuterOf(c.annotations(), "").Contradicted(
			jobs.PodTemplate{Path: beside(at, c.PodSets[i].Path).String(), Template: &c.PodSets[i].Template},
			"the annotation "+kueue.KAIRequiredAnnotation+" of the component",
		)...)
	}
	if len(errs) > 0 || c.unread || c.Name == "" || (w.Name == "" && len(c.PodSets) > 0) {
		return errs // labels are made of the names, which are not known yet
	}
	// Injecting for trial finds labels that contradict ours.
	if _, err := Inject(w, c, nil, InjectOptions{}); err != nil {
		return field.ErrorList{field.Invalid(at, c.Title(), err.Error())}
	}
	return nil
}

// kept refuses what a component says and cannot be kept.
func kept(c Component, at *field.Path) field.ErrorList {
	k, _ := kindOf(c.GVK)
	if k.Validate == nil {
		return nil
	}
	errs := k.Validate(c.template)
	for _, e := range errs {
		e.Field = at.String() + "." + e.Field
	}
	return errs
}

// ValidateUpdate says what may not change. Suspending, what admissions add,
// annotations and most labels may; what is counted against quota may not. One that
// another controller manages is none of ours, and may not become so.
func ValidateUpdate(before, after *aw.AppWrapper) field.ErrorList {
	errs := validateManager(before, after)
	if !Ours(before) {
		return errs
	}
	spec := field.NewPath("spec")
	for _, l := range []string{aw.AppWrapperUserLabel, aw.AppWrapperUserIDLabel} {
		if before.Labels[l] != after.Labels[l] {
			errs = append(
				errs,
				field.Forbidden(
					field.NewPath("metadata", "labels").Key(l),
					"says who created the AppWrapper and cannot be changed",
				),
			)
		}
	}
	if len(before.Spec.Components) != len(after.Spec.Components) {
		return append(errs, field.Forbidden(spec.Child("components"), "their number "+fixed))
	}
	for i := range before.Spec.Components {
		b, a := &before.Spec.Components[i], &after.Spec.Components[i]
		path := spec.Child("components").Index(i)
		if !sameTemplate(b.Template, a.Template) {
			errs = append(errs, field.Forbidden(path.Child("template"), fixed))
		}
		if !samePodSets(b.DeclaredPodSets, a.DeclaredPodSets) {
			errs = append(errs, field.Forbidden(path.Child("podSets"), fixed))
		}
	}
	return errs
}

// fixed says of a field that it stays, and what to do instead.
const fixed = "cannot be changed; delete the AppWrapper and create another"

// validateManager lets no user pass an AppWrapper on to another controller, least
// of all one that was not checked to us.
func validateManager(before, after *aw.AppWrapper) field.ErrorList {
	if equality.Semantic.DeepEqual(before.Spec.ManagedBy, after.Spec.ManagedBy) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "managedBy"), fixed)}
}

// sameTemplate compares what the templates say, since clients write the same
// object with its fields in another order.
func sameTemplate(a, b runtime.RawExtension) bool {
	if bytes.Equal(a.Raw, b.Raw) {
		return true
	}
	x, xErr := decodeTemplate(a)
	y, yErr := decodeTemplate(b)
	return xErr == nil && yErr == nil && equality.Semantic.DeepEqual(x, y)
}

func samePodSets(a, b []aw.AppWrapperPodSet) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Path != b[i].Path || replicas(a[i]) != replicas(b[i]) {
			return false
		}
	}
	return true
}
