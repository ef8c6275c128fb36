package appwrapper

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// Component is one wrapped object, understood.
type Component struct {
	Index int
	GVK   schema.GroupVersionKind
	// Namespace is the AppWrapper's, Name the object's own or made from its
	// generateName.
	Namespace, Name string
	// UID of the object that was created, and the Node of one that is a pod, once
	// that was recorded.
	UID      types.UID
	Node     string
	PodSets  []PodSet
	template map[string]any
	// unread is true if its pod sets could not be read.
	unread bool
	// incomplete is true if they are not known before its basis is recorded.
	incomplete bool
	// basis is what was recorded for it.
	basis *runtime.RawExtension
}

// PodSet is a number of equal pods of a component.
type PodSet struct {
	// Name is unique in the AppWrapper.
	Name  string
	Count int32
	// Path leads to the pod template, beginning with "template".
	Path string
	// Annotations say how pods and jobs are numbered, for placement.
	Annotations map[string]string
	// Template is what the user wrote.
	Template corev1.PodTemplateSpec
}

// annotations are those of the wrapped object.
func (c Component) annotations() map[string]string {
	out, _, _ := unstructured.NestedStringMap(
		c.template,
		"metadata",
		"annotations",
	) // others are refused elsewhere
	return out
}

// level is the label of nodes of which those of all pods of the component have one value, "" if it has no
// field that says so.
func (c Component) level() string {
	k, _ := kindOf(c.GVK)
	if k.Level == nil {
		return ""
	}
	return k.Level(c.template)
}

// Title is kind and name, for people.
func (c Component) Title() string { return c.GVK.Kind + " " + c.Name }

// Status is the component's entry in the status of its AppWrapper.
func (c Component) Status() aw.AppWrapperComponentStatus {
	out := aw.AppWrapperComponentStatus{
		Name:       c.Name,
		Kind:       c.GVK.Kind,
		APIVersion: c.GVK.GroupVersion().String(),
		PodSets:    []aw.AppWrapperPodSet{},
		Basis:      c.basis,
	}
	for _, ps := range c.PodSets {
		out.PodSets = append(
			out.PodSets,
			aw.AppWrapperPodSet{Path: ps.Path, Replicas: new(ps.Count), Annotations: ps.Annotations},
		)
	}
	return out
}

// Components understands all components of an AppWrapper. An error says what
// its author has to change.
func Components(w *aw.AppWrapper) ([]Component, error) {
	components, errs := parse(w)
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	for _, c := range components {
		if c.incomplete {
			return nil, fmt.Errorf("%s: %w", c.Title(), jobs.ErrIncomplete)
		}
	}
	return components, nil
}

// Recorded returns the components as they were written to status when the
// AppWrapper was first seen, without templates; false if they were not. What
// was created is looked after by this record, whatever the spec says later.
func Recorded(w *aw.AppWrapper) ([]Component, bool) {
	statuses := w.Status.ComponentStatus
	if len(statuses) == 0 {
		return nil, false
	}
	var out []Component
	podSets := 0
	for i := range statuses {
		s := &statuses[i]
		c := Component{
			Index:     i,
			GVK:       schema.FromAPIVersionAndKind(s.APIVersion, s.Kind),
			Namespace: w.Namespace,
			Name:      s.Name,
			UID:       s.UID,
			Node:      s.Node,
			basis:     s.Basis,
		}
		for _, ps := range s.PodSets {
			c.PodSets = append(c.PodSets, PodSet{
				Name: PodSetName(w.Name, podSets), Count: replicas(ps), Path: ps.Path, Annotations: ps.Annotations,
			})
			podSets++
		}
		out = append(out, c)
	}
	return out, true
}

func parse(w *aw.AppWrapper) ([]Component, field.ErrorList) {
	var errs field.ErrorList
	var out []Component
	podSets := 0
	for i := range w.Spec.Components {
		path := field.NewPath("spec", "components").Index(i)
		c, cErrs := parseComponent(w, i, path)
		errs = append(errs, cErrs...)
		for k := range c.PodSets {
			c.PodSets[k].Name = PodSetName(w.Name, podSets)
			podSets++
		}
		out = append(out, c)
	}
	return out, errs
}

func parseComponent(w *aw.AppWrapper, i int, path *field.Path) (Component, field.ErrorList) {
	spec := &w.Spec.Components[i]
	template, err := decodeTemplate(spec.Template)
	if err != nil {
		return Component{}, field.ErrorList{field.Invalid(path.Child("template"), "", err.Error())}
	}
	object := unstructured.Unstructured{Object: template}
	c := Component{Index: i, GVK: object.GroupVersionKind(), Namespace: w.Namespace, template: template}
	if c.GVK.Kind == "" || c.GVK.Version == "" {
		return c, field.ErrorList{
			field.Required(path.Child("template"), "give the apiVersion and kind of the object to create"),
		}
	}
	k, _ := kindOf(c.GVK)
	if k.Basis != nil {
		c.basis = recordedBasis(w, i, c.GVK)
		c.incomplete = !base(&k, template, c.basis)
	}
	if k.Written != nil && !c.incomplete {
		k.Written(template)
	}
	var errs field.ErrorList
	switch {
	case object.GetName() != "":
		c.Name = object.GetName()
	case object.GetGenerateName() != "":
		c.Name = generatedName(object.GetGenerateName(), string(w.UID), i)
	default:
		errs = append(
			errs,
			field.Required(path.Child("template", "metadata", "name"), "give the object a name or a generateName"),
		)
	}
	if c.incomplete {
		c.unread = true
		return c, errs
	}
	sets, sErrs := podSets(c, spec.DeclaredPodSets, path)
	c.PodSets, c.unread = sets, len(sErrs) > 0
	return c, append(errs, sErrs...)
}

func decodeTemplate(raw runtime.RawExtension) (map[string]any, error) {
	if len(raw.Raw) == 0 {
		return nil, fmt.Errorf("must be the object to create")
	}
	// Not unstructured's own decoding: that one refuses objects without a kind,
	// in words that do not say where the kind is missing.
	var out map[string]any
	if err := utiljson.Unmarshal(raw.Raw, &out); err != nil {
		return nil, fmt.Errorf("must be the object to create: %w", err)
	}
	if out == nil {
		return nil, fmt.Errorf("must be the object to create")
	}
	return out, nil
}

// generatedName makes the name that a generateName stands for. It depends on
// the AppWrapper and the component alone, so that a component is found again
// after a crash between its creation and any note of it.
func generatedName(prefix, uid string, index int) string {
	const suffix, longest = 5, 63
	sum := sha256.Sum256([]byte(uid + "/" + strconv.Itoa(index)))
	hash := strings.ToLower(base32.HexEncoding.EncodeToString(sum[:]))[:suffix]
	return prefix[:min(len(prefix), longest-suffix)] + hash
}

// PodSetName is the name of the nth pod set of an AppWrapper: a DNS label, since Workloads require
// one and pods carry it as
// a label.
func PodSetName(wrapper string, n int) string {
	const longest = 63
	suffix := "-" + strconv.Itoa(n)
	base := strings.ReplaceAll(wrapper, ".", "-")
	base = strings.TrimRight(base[:min(len(base), longest-len(suffix))], "-")
	if base == "" {
		base = "appwrapper"
	}
	return base + suffix
}

// podSets finds the pod sets of a component: inferred for kinds that are
// known, declared for others. A declaration for a known kind must say what was
// inferred, or quota would be counted for other pods than the ones that run; a kind that
// others believe is corrected instead.
func podSets(c Component, declared []aw.AppWrapperPodSet, path *field.Path) ([]PodSet, field.ErrorList) {
	found := declared
	if k, known := kindOf(c.GVK); known {
		inferred, err := k.PodSets(c.template)
		if err != nil {
			return nil, field.ErrorList{field.Invalid(path.Child("template"), c.GVK.Kind, err.Error())}
		}
		errs, _ := compare(declared, inferred, path.Child("podSets"), believedElsewhere(c.GVK))
		if len(errs) > 0 {
			return nil, errs
		}
		found = withAnnotations(inferred, declared)
	} else if read := readBy(c.GVK); read != "" {
		return nil, field.ErrorList{
			field.Invalid(
				path.Child("template", "kind"),
				c.GVK.Kind,
				fmt.Sprintf(
					"a %s reads it before the AppWrapper creates anything: create it by itself, before the AppWrapper",
					read,
				),
			),
		}
	} else if len(declared) == 0 {
		if hidden := podTemplates(c.template); len(hidden) > 0 {
			return nil, field.ErrorList{
				field.Required(
					path.Child("podSets"),
					fmt.Sprintf(
						"a %s is not a kind whose pods are known; declare them with their number, for example {path: %s, replicas: 1}",
						c.GVK.Kind,
						hidden[0],
					),
				),
			}
		}
	}
	var out []PodSet
	var errs field.ErrorList
	for i, ps := range found {
		at := path.Child("podSets").Index(i).Child("path")
		if len(declared) == 0 {
			at = within(path, ps.Path)
		}
		one, err := readPodSet(c.template, ps)
		if err != nil {
			errs = append(errs, field.Invalid(at, ps.Path, err.Error()))
			continue
		}
		out = append(out, one)
	}
	return out, errs
}

// within is the field at a pod set's path.
func within(component *field.Path, podSetPath string) *field.Path {
	for s := range strings.SplitSeq(podSetPath, ".") {
		component = component.Child(s)
	}
	return component
}

func readPodSet(template map[string]any, ps aw.AppWrapperPodSet) (PodSet, error) {
	object, err := lookup(template, ps.Path)
	if err != nil {
		return PodSet{}, err
	}
	t, err := decodePods(object)
	if err != nil {
		return PodSet{}, err
	}
	n := replicas(ps)
	if n < 0 {
		return PodSet{}, fmt.Errorf("replicas must not be negative")
	}
	return PodSet{Count: n, Path: ps.Path, Annotations: ps.Annotations, Template: t}, nil
}

// compare checks a declaration against what was inferred. What differs in number is an
// error or, if it is believed elsewhere, told as corrected.
func compare( //nolint:revive // as it is of the kind
	declared, inferred []aw.AppWrapperPodSet,
	path *field.Path,
	believed bool,
) (errs field.ErrorList, corrected []string) {
	if len(declared) == 0 {
		return nil, nil
	}
	const cure = "leave podSets out, they are known for this kind"
	wrong := func(at *field.Path, value any, is string) {
		if believed {
			corrected = append(corrected, fmt.Sprintf("%s: %s, and they are counted", at, is))
			return
		}
		errs = append(errs, field.Invalid(at, value, is+"; "+cure))
	}
	if len(declared) != len(inferred) {
		wrong(path, len(declared), fmt.Sprintf("the object has %d pod sets", len(inferred)))
	}
	seen := map[string]bool{}
	for i, d := range declared {
		if seen[d.Path] {
			errs = append(errs, field.Duplicate(path.Index(i).Child("path"), d.Path))
			continue
		}
		seen[d.Path] = true
		at := slices.IndexFunc(inferred, func(x aw.AppWrapperPodSet) bool { return x.Path == d.Path })
		if at < 0 {
			errs = append(
				errs,
				field.Invalid(path.Index(i).Child("path"), d.Path, "is not a pod template of this kind; "+cure),
			)
			continue
		}
		if n, want := replicas(d), replicas(inferred[at]); n != want {
			wrong(path.Index(i).Child("replicas"), n, fmt.Sprintf("the object makes %d such pods", want))
		}
	}
	return errs, corrected
}

// corrections tells which declared pod sets are not as the objects are.
func corrections(w *aw.AppWrapper) []string {
	var out []string
	for i := range w.Spec.Components {
		template, err := decodeTemplate(w.Spec.Components[i].Template)
		if err != nil {
			continue // that was refused
		}
		gvk := (&unstructured.Unstructured{Object: template}).GroupVersionKind()
		k, known := kindOf(gvk)
		if !known || !believedElsewhere(gvk) {
			continue
		}
		if inferred, err := k.PodSets(template); err == nil {
			_, corrected := compare(
				w.Spec.Components[i].DeclaredPodSets,
				inferred,
				field.NewPath("spec", "components").Index(i).Child("podSets"),
				true,
			)
			out = append(out, corrected...)
		}
	}
	return out
}

func replicas(ps aw.AppWrapperPodSet) int32 {
	if ps.Replicas == nil {
		return 1
	}
	return *ps.Replicas
}

// withAnnotations lets declared annotations win over annotations that the kind has
// by itself.
func withAnnotations(inferred, declared []aw.AppWrapperPodSet) []aw.AppWrapperPodSet {
	for _, d := range declared {
		for i := range inferred {
			if inferred[i].Path != d.Path || len(d.Annotations) == 0 {
				continue
			}
			merged := map[string]string{}
			maps.Copy(merged, inferred[i].Annotations)
			maps.Copy(merged, d.Annotations)
			inferred[i].Annotations = merged
		}
	}
	return inferred
}

// decodePods reads a pod template and refuses what is not one.
func decodePods(o map[string]any) (corev1.PodTemplateSpec, error) {
	var t corev1.PodTemplateSpec
	spec, ok := o["spec"].(map[string]any)
	if !ok {
		return t, fmt.Errorf("is not a pod template: it has no spec")
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(
		spec,
		&t.Spec,
		true,
	); err != nil {
		return t, fmt.Errorf("is not a pod template: %w", err)
	}
	if len(t.Spec.Containers) == 0 {
		return t, fmt.Errorf("is not a pod template: spec.containers is empty")
	}
	if metadata, ok := o["metadata"].(map[string]any); ok {
		m := map[string]any{}
		for _, k := range []string{"labels", "annotations"} {
			if v, ok := metadata[k]; ok {
				m[k] = v
			}
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m, &t.ObjectMeta); err != nil {
			return t, fmt.Errorf("is not a pod template: metadata: %w", err)
		}
	}
	return t, nil
}
