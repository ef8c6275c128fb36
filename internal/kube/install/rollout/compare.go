package rollout

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/kube/install"
)

// Comparison is what a plan would change in a cluster.
type Comparison struct {
	// From is the version that is installed, "" if none is; To that of the plan.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Changes are the objects that would not be as they are.
	Changes   []Difference `json:"changes"`
	Unchanged int          `json:"unchanged"`
	// Final are changes that installing the old version again would not take back.
	Final []string `json:"final"`
}

// Difference is one of an object.
type Difference struct {
	Object string `json:"object"`
	Action Action `json:"deed"`
	// Fields are what would differ, as paths.
	Fields []string `json:"fields,omitempty"`
}

// shownFields bounds how many fields of an object are listed.
const shownFields = 12

// Compare asks the API server what applying a plan would change, and writes nothing.
func (x *Cluster) Compare(ctx context.Context, p *Installation) (*Comparison, error) {
	out := &Comparison{To: p.Release.Version, Changes: []Difference{}, Final: []string{}}
	dry := client.NewDryRunClient(x.Client)
	homeless := false
	for _, s := range p.Stages {
		for _, o := range s.Objects {
			before := &unstructured.Unstructured{}
			before.SetGroupVersionKind(o.GroupVersionKind())
			err := x.Client.Get(ctx, client.ObjectKeyFromObject(o), before)
			missing := apierrors.IsNotFound(err) || apimeta.IsNoMatchError(err)
			if err != nil && !missing {
				return nil, fmt.Errorf("look at %s: %w", called(o), err)
			}
			if missing && s.Name == install.NamespaceStage {
				homeless = true
			}
			// Before the namespace and the kind are there the API server cannot say.
			if !missing || !homeless || o.GetNamespace() == "" {
				if err := install.Put(ctx, dry, o); err != nil && !apimeta.IsNoMatchError(err) {
					return nil, fmt.Errorf("the API server would refuse %s: %w", called(o), err)
				}
			}
			if missing {
				out.Changes = append(out.Changes, Difference{Object: called(o), Action: Created})
				continue
			}
			fields, err := x.wouldChange(ctx, dry, o, before)
			if err != nil {
				return nil, err
			}
			if o.GetKind() == "CustomResourceDefinition" {
				out.Final = append(out.Final, lost(before, o)...)
			}
			if o.GetKind() == "Deployment" && o.GetLabels()[install.ComponentLabel] == install.ControllerComponent {
				out.From = before.GetLabels()[install.VersionLabel]
			}
			if len(fields) == 0 {
				out.Unchanged++
				continue
			}
			out.Changes = append(out.Changes, Difference{Object: called(o), Action: Changed, Fields: fields})
		}
	}
	gone, err := x.Stale(ctx, p)
	if err != nil {
		return nil, err
	}
	for _, o := range gone {
		out.Changes = append(out.Changes, Difference{Object: called(o), Action: Removed})
	}
	return out, nil
}

func called(o *unstructured.Unstructured) string {
	name := strings.ToLower(o.GetKind()) + "/" + o.GetName()
	if ns := o.GetNamespace(); ns != "" {
		name += " in " + ns
	}
	return name
}

// wouldChange are the fields of an object that applying it would change.
func (x *Cluster) wouldChange(
	ctx context.Context,
	dry client.Client,
	o, before *unstructured.Unstructured,
) ([]string, error) {
	after := o.DeepCopy()
	if err := dry.Apply(
		ctx,
		client.ApplyConfigurationFromUnstructured(after),
		client.FieldOwner(install.FieldOwner),
		client.ForceOwnership,
	); err != nil {
		return nil, fmt.Errorf("the API server would refuse %s: %w", called(o), err)
	}
	fields := differences(before.Object, after.Object)
	if len(fields) > shownFields {
		fields = append(fields[:shownFields:shownFields], fmt.Sprintf("and %d more", len(fields)-shownFields))
	}
	return fields, nil
}

// differences are the paths at which two objects differ, beside what the API server notes down.
func differences(a, b map[string]any) []string {
	var out []string
	differ("", stripped(a), stripped(b), &out)
	return out
}

func stripped(o map[string]any) map[string]any {
	o = runtime.DeepCopyJSON(o)
	delete(o, "status")
	for _, f := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"} {
		unstructured.RemoveNestedField(o, "metadata", f)
	}
	return o
}

func differ(at string, a, b any, out *[]string) {
	x, isX := a.(map[string]any)
	y, isY := b.(map[string]any)
	if isX && isY {
		keys := map[string]bool{}
		for k := range x {
			keys[k] = true
		}
		for k := range y {
			keys[k] = true
		}
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			differ(strings.TrimPrefix(at+"."+k, "."), x[k], y[k], out)
		}
		return
	}
	l, isL := a.([]any)
	m, isM := b.([]any)
	if isL && isM && len(l) == len(m) {
		for i := range l {
			differ(fmt.Sprintf("%s[%d]", at, i), l[i], m[i], out)
		}
		return
	}
	if !reflect.DeepEqual(a, b) {
		*out = append(*out, at)
	}
}

// lost are versions that objects are stored in by the new definition and that the old one does
// not have, and fields that the old one has and the new one drops.
func lost(before, after *unstructured.Unstructured) []string {
	var old, next apiextensionsv1.CustomResourceDefinition
	convert := runtime.DefaultUnstructuredConverter.FromUnstructured
	if convert(before.Object, &old) != nil || convert(after.Object, &next) != nil {
		return nil // the API server has checked both
	}
	var out []string
	for _, v := range next.Spec.Versions {
		i := slices.IndexFunc(
			old.Spec.Versions,
			func(o apiextensionsv1.CustomResourceDefinitionVersion) bool { return o.Name == v.Name },
		)
		if i < 0 {
			if v.Storage {
				out = append(
					out,
					fmt.Sprintf(
						"%s: objects are stored in %s from now on, which the version before cannot read",
						old.Name,
						v.Name,
					),
				)
			}
			continue
		}
		if was := old.Spec.Versions[i]; was.Schema != nil && v.Schema != nil &&
			!preserves(v.Schema.OpenAPIV3Schema) {
			for _, f := range missing("", was.Schema.OpenAPIV3Schema, v.Schema.OpenAPIV3Schema) {
				out = append(
					out,
					fmt.Sprintf("%s %s: the field %s is dropped from objects as they are written", old.Name, v.Name, f),
				)
			}
		}
	}
	for _, was := range old.Spec.Versions {
		if was.Served &&
			!slices.ContainsFunc(
				next.Spec.Versions,
				func(n apiextensionsv1.CustomResourceDefinitionVersion) bool { return n.Name == was.Name && n.Served },
			) {
			out = append(
				out,
				fmt.Sprintf("%s: version %s is served no more: clients that use it fail", old.Name, was.Name),
			)
		}
	}
	return out
}

func preserves(s *apiextensionsv1.JSONSchemaProps) bool {
	return s == nil || s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields
}

// missing are the fields of a schema that another has not.
func missing(at string, old, next *apiextensionsv1.JSONSchemaProps) []string {
	if old == nil || preserves(next) {
		return nil
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(old.Properties)) {
		path := strings.TrimPrefix(at+"."+name, ".")
		p := old.Properties[name]
		q, has := next.Properties[name]
		switch {
		case !has && next.AdditionalProperties == nil:
			out = append(out, path)
		case has:
			out = append(out, missing(path, &p, &q)...)
		}
	}
	if old.Items != nil && next.Items != nil {
		out = append(out, missing(at+"[]", old.Items.Schema, next.Items.Schema)...)
	}
	if old.AdditionalProperties != nil && next.AdditionalProperties != nil &&
		old.AdditionalProperties.Schema != nil &&
		next.AdditionalProperties.Schema != nil {
		out = append(out, missing(at+".*", old.AdditionalProperties.Schema, next.AdditionalProperties.Schema)...)
	}
	return out
}
