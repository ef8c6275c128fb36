package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/api/kueue/v1beta1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/finding"
)

// alpha is the only version of Topologies until Kueue 0.13, and of Cohorts until Kueue 0.11. mlbatch
// does not have it, and the API server takes no definition that lacks a version in which objects may
// be stored.
const alpha = "v1alpha1"

// ours are the versions that mlbatch has of a kind, none if it does not have the kind.
func ours(d *apiextensionsv1.CustomResourceDefinition) []string {
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1beta1.AddToScheme, kueue.AddToScheme, aw.AddToScheme} {
		if err := add(known); err != nil {
			panic(err) // two Go types of the same kind
		}
	}
	var out []string
	for gvk := range known.AllKnownTypes() {
		if gvk.Group == d.Spec.Group && gvk.Kind == d.Spec.Names.Kind {
			out = append(out, gvk.Version)
		}
	}
	slices.Sort(out)
	return out
}

// has reports whether a definition has one of several versions.
func has(d *apiextensionsv1.CustomResourceDefinition, versions ...string) bool {
	return slices.ContainsFunc(
		d.Spec.Versions,
		func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return slices.Contains(versions, v.Name) },
	)
}

// stuck reports whether objects of a definition are stored in a version that mlbatch does not have,
// and whether the definition has none that mlbatch has: then they cannot be written again in one.
func stuck(d *apiextensionsv1.CustomResourceDefinition) bool {
	known := ours(d)
	return len(known) > 0 && len(d.Spec.Versions) > 0 && !has(d, known...)
}

// liftable reports whether that can be helped: v1alpha1 of these kinds is v1beta1 but for the name
// of a field (see lifted).
func liftable(d *apiextensionsv1.CustomResourceDefinition) bool {
	return d.Spec.Group == kueue.GroupVersion.Group &&
		slices.Contains([]string{"Topology", "Cohort"}, d.Spec.Names.Kind) &&
		stuck(d) &&
		has(d, alpha)
}

// lifted makes v1beta1 of an object of v1alpha1. What was there stays: as long as Kueue runs it goes
// by that.
func lifted(u *unstructured.Unstructured) {
	if u.GetKind() != "Cohort" {
		return
	}
	parent, _, _ := unstructured.NestedString(u.Object, "spec", "parent")
	now, _, _ := unstructured.NestedString(u.Object, "spec", "parentName")
	if parent != "" && now == "" {
		_ = unstructured.SetNestedField(
			u.Object,
			parent,
			"spec",
			"parentName",
		) // spec is an object: it has a parent
	}
}

// toLift: objects are stored in a version that mlbatch does not have, and there is no other.
func toLift(v *stepView) string {
	var names []string
	for i := range v.Definitions {
		if liftable(&v.Definitions[i]) {
			names = append(names, v.Definitions[i].Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "give " + some(
		names,
	) + " the version " + v1beta1.GroupVersion.Version + ", which mlbatch has, beside " + alpha + ", which Kueue goes on reading"
}

// lift adds the version to the definitions. It takes all fields until mlbatch brings its own.
func (m *Import) lift(ctx context.Context, v *stepView) error {
	for i := range v.Definitions {
		d := &v.Definitions[i]
		if !liftable(d) {
			continue
		}
		next := d.DeepCopy()
		added := next.Spec.Versions[slices.IndexFunc(next.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == alpha })].DeepCopy()
		for at := range next.Spec.Versions {
			next.Spec.Versions[at].Storage = false
		}
		added.Name, added.Served, added.Storage, added.Deprecated, added.DeprecationWarning = v1beta1.GroupVersion.Version, true, true, false, nil
		added.Schema = &apiextensionsv1.CustomResourceValidation{
			OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)},
		}
		next.Spec.Versions = append(next.Spec.Versions, *added)
		next.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
		if err := m.Client.Update(ctx, next); err != nil {
			return fmt.Errorf("add a version to %s: %w", d.Name, err)
		}
		err := m.await(ctx, d.Name+" is not served in "+added.Name, func(ctx context.Context) (bool, error) {
			l := &unstructured.UnstructuredList{}
			l.SetAPIVersion(d.Spec.Group + "/" + added.Name)
			l.SetKind(d.Spec.Names.ListKind)
			err := m.Client.List(ctx, l, client.Limit(1))
			if unserved(err) {
				return false, nil
			}
			return err == nil, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// unreadable finds definitions that mlbatch's cannot take the place of, and that nothing here helps.
func unreadable(p *Picture) (out []finding.Finding) {
	for i := range p.Definitions {
		d := &p.Definitions[i]
		if !stuck(d) || liftable(d) {
			continue
		}
		out = append(
			out,
			found(
				finding.Error,
				"customresourcedefinition/"+d.Name,
				"objects of it are stored in "+storage(
					d,
				)+", which mlbatch does not have, and the API server does not let go of: mlbatch could not be installed",
				"with its old operator, have them written in "+strings.Join(
					ours(d),
					" or ",
				)+": a later version of it does",
			),
		)
	}
	return out
}
