package appwrapper

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// countable says what of a component could become pods that were not counted: a
// version of a kind that is read differently, a kind or a field that makes more
// pods by itself, and pod templates beside those of its pod sets. at is the path
// of the component's template.
func countable(c Component, at *field.Path) field.ErrorList {
	k, known := kindOf(c.GVK)
	if v := knownVersion(c.GVK.GroupKind()); !known && v != "" {
		return field.ErrorList{
			field.Invalid(
				at.Child("apiVersion"),
				c.GVK.GroupVersion().String(),
				fmt.Sprintf(
					"the pods of a %s are known in version %s only: use %s",
					c.GVK.Kind,
					v,
					schema.GroupVersion{Group: c.GVK.Group, Version: v},
				),
			),
		}
	}
	if cure := alwaysGrows(c.GVK.GroupKind()); cure != "" {
		return field.ErrorList{field.Invalid(at.Child("kind"), c.GVK.Kind, cure)}
	}
	var errs field.ErrorList
	if k.Unbounded != nil {
		for _, g := range k.Unbounded(c.template) {
			errs = append(errs, field.Invalid(beside(at, g.Path), g.Value, g.Cure))
		}
	}
	if c.unread {
		return errs // what is wrong with them was said
	}
	templates := podTemplates(c.template)
	if k.Basis != nil {
		templates = nil // no pod is made of the object itself: what is in it changes pods that were counted
	}
	for _, path := range templates {
		if !slices.ContainsFunc(c.PodSets, func(ps PodSet) bool { return ps.Path == path }) {
			errs = append(
				errs,
				field.Forbidden(
					beside(at, path),
					"pods made of this template would not be counted: "+undeclared(known, path),
				),
			)
		}
	}
	if !known {
		errs = append(errs, understated(c, at)...)
	}
	return errs
}

// undeclared is what to do about a pod template that is not counted.
func undeclared(known bool, path string) string { //nolint:revive // of a known kind, or not
	if known || !pathSyntax.MatchString(path) {
		return "remove it"
	}
	return fmt.Sprintf("declare it in podSets, {path: %s, replicas: ...}", path)
}

// beside is the field at a path of a pod set, seen from the template.
func beside(template *field.Path, path string) *field.Path {
	rest, more := strings.CutPrefix(path, "template.")
	if !more {
		return template
	}
	return template.Child(rest)
}

// alwaysGrows says of kinds why they cannot be part of an AppWrapper, "" of all
// others.
func alwaysGrows(k schema.GroupKind) string {
	switch k {
	case schema.GroupKind{Group: "batch", Kind: "CronJob"}:
		return "it makes pods again and again, which cannot be queued once: wrap a Job, and let the CronJob create AppWrappers"
	case schema.GroupKind{Group: "apps", Kind: "DaemonSet"}:
		return "it makes a pod on every node, however many there will be: wrap a Deployment"
	case schema.GroupKind{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}:
		return "it changes the number of pods while they run: give the object as many replicas as it needs"
	}
	return ""
}

// countFields say beside a template how many pods are made of it.
var countFields = []string{"replicas", "maxReplicas", "parallelism"} //nolint:gochecknoglobals // a list

// understated finds pod sets that declare fewer pods than the object says beside
// their template.
func understated(c Component, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, ps := range c.PodSets {
		parent, name := "template", ""
		if dot := strings.LastIndex(ps.Path, "."); dot > 0 {
			parent, name = ps.Path[:dot], ps.Path[dot+1:]
		}
		group, err := lookup(c.template, parent)
		if err != nil || name == "" {
			continue
		}
		for _, key := range countFields {
			if n, isInt := group[key].(int64); isInt && n > int64(ps.Count) {
				errs = append(errs, field.Invalid(siblingOf(at, "podSets").Index(i).Child("replicas"), ps.Count,
					fmt.Sprintf("the object says %s %d at %s: declare as many", key, n, parent)))
			}
		}
	}
	return errs
}

// siblingOf is another field of a component than its template.
func siblingOf(template *field.Path, name string) *field.Path {
	return field.NewPath(strings.TrimSuffix(template.String(), ".template")).Child(name)
}

// podTemplates returns the paths of everything in an object that looks like a
// template of pods: whatever has containers, in its spec or by itself. Without a
// pod set of its own, what comes of it would run outside every quota.
func podTemplates(template map[string]any) []string {
	var out []string
	search(template, "template", func(at map[string]any, path string) bool {
		spec, _ := at["spec"].(map[string]any)
		if hasContainers(spec) || hasContainers(at) {
			out = append(out, path)
			return false
		}
		return true
	})
	return out
}

func hasContainers(o map[string]any) bool {
	list, _ := o["containers"].([]any)
	return slices.ContainsFunc(list, func(c any) bool {
		_, isObject := c.(map[string]any)
		return isObject
	})
}

// search visits every object in a value, in the order of their keys, as long as
// visit says that it may go deeper.
func search(at any, path string, visit func(at map[string]any, path string) (deeper bool)) {
	switch v := at.(type) {
	case map[string]any:
		if !visit(v, path) {
			return
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			search(v[k], path+"."+k, visit)
		}
	case []any:
		for i, item := range v {
			search(item, fmt.Sprintf("%s[%d]", path, i), visit)
		}
	}
}

// forbidden says what a component may not say, although its pods are counted: what
// would go around the scheduler, outlive every deletion, or never be created.
func forbidden(c Component, at *field.Path, namespace string) field.ErrorList {
	var errs field.ErrorList
	metadata, _ := c.template["metadata"].(map[string]any)
	for _, key := range []string{
		"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields",
		"ownerReferences", "resourceVersion", "selfLink", "uid",
	} {
		if v, ok := metadata[key]; ok && v != nil && v != "" {
			errs = append(
				errs,
				field.Forbidden(at.Child("metadata", key), "the API server writes it, not the author: remove it"),
			)
		}
	}
	search(c.template, "template", func(o map[string]any, path string) bool {
		m, _ := o["metadata"].(map[string]any)
		if list, _ := m["finalizers"].([]any); len(list) > 0 {
			errs = append(
				errs,
				field.Forbidden(
					beside(at, path).Child("metadata", "finalizers"),
					"they would keep what the AppWrapper has to delete: remove them",
				),
			)
		}
		return true
	})
	for _, ps := range c.PodSets {
		if n := ps.Template.Spec.NodeName; n != "" {
			errs = append(errs, field.Forbidden(
				beside(at, ps.Path).Child("spec", "nodeName"),
				fmt.Sprintf(
					"it goes around the scheduler: use nodeSelector {kubernetes.io/hostname: %s} to ask for a node",
					n,
				),
			))
		}
		errs = append(
			errs,
			jobs.ValidateAffinity(
				ps.Template.Spec.Affinity,
				beside(at, ps.Path).Child("spec", "affinity"),
				namespace,
			)...)
	}
	return errs
}

// RunsPods reports whether an object of any kind makes pods, as far as that can be seen.
func RunsPods(template map[string]any) bool { return len(podTemplates(template)) > 0 }

// Declare are the pod sets to declare of an object of a kind whose pods are not known here, as
// far as it says beside each template how many there are; nil if it does not, or the kind is
// known.
func Declare(template map[string]any) []aw.AppWrapperPodSet {
	gvk := (&unstructured.Unstructured{Object: template}).GroupVersionKind()
	if _, known := kindOf(gvk); known || knownVersion(gvk.GroupKind()) != "" {
		return nil
	}
	var out []aw.AppWrapperPodSet
	for _, path := range podTemplates(template) {
		if !pathSyntax.MatchString(path) {
			return nil
		}
		group := template
		if dot := strings.LastIndex(path, "."); dot > 0 {
			group, _ = lookup(template, path[:dot]) // it was found there
		}
		n := int64(-1)
		for _, key := range countFields {
			if is, isInt := group[key].(int64); isInt {
				n = max(n, is)
			}
		}
		if n < 0 || n > math.MaxInt32 {
			return nil
		}
		out = append(out, aw.AppWrapperPodSet{Path: path, Replicas: new(int32(n))})
	}
	return out
}
