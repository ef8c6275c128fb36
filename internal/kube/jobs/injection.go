package jobs

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Injection is how an admission gets into the pods of a job that another controller runs: it
// is written into the object, of which that controller makes the pods, and taken out when
// the job is stopped. Into pods that are made here it goes when they are made.
type Injection struct {
	// Add writes what an admission gives pods, by the names of pod sets, into an object. What
	// the author wrote otherwise is an error.
	Add func(Object, []PodSetInfo) (Object, error)
	// Remove takes it out again; original are the pod sets as the job's Workload has them. An
	// object without it is returned as it is.
	Remove func(o Object, original []kueue.PodSet) Object
	// Keep leaves in an object that its author writes again what the admission added.
	Keep func(was, is Object, original []kueue.PodSet) Object
}

// Place is where an object says what the pods of a pod set are.
type Place struct {
	PodSet kueue.PodSetReference
	// Template is a part of the object.
	Template *corev1.PodTemplateSpec
}

// InTemplates is the injection of kinds whose objects have templates of all their pods.
func InTemplates[T Object](places func(T) []Place) *Injection {
	in := func(o Object) (T, []Place) {
		out, typed := o.DeepCopyObject().(T)
		if !typed {
			return out, nil
		}
		return out, places(out)
	}
	return &Injection{
		Add: func(o Object, infos []PodSetInfo) (Object, error) {
			out, all := in(o)
			for _, p := range all {
				i := slices.IndexFunc(infos, func(info PodSetInfo) bool { return info.Name == string(p.PodSet) })
				if i < 0 {
					return nil, fmt.Errorf("its admission says nothing of pods %s", p.PodSet)
				}
				if err := infos[i].Inject(p.Template); err != nil {
					return nil, fmt.Errorf("pods %s: %w", p.PodSet, err)
				}
			}
			return out, nil
		},
		Remove: func(o Object, original []kueue.PodSet) Object {
			out, all := in(o)
			changed := false
			for _, p := range all {
				if author := templateOf(original, p.PodSet); author != nil && Injected(p.Template) {
					restore(p.Template, author)
					changed = true
				}
			}
			if !changed {
				return o
			}
			return out
		},
		Keep: func(was, is Object, original []kueue.PodSet) Object {
			_, before := in(was)
			out, after := in(is)
			for _, p := range after {
				i := slices.IndexFunc(before, func(old Place) bool { return old.PodSet == p.PodSet })
				if author := templateOf(original, p.PodSet); i >= 0 && author != nil && Injected(before[i].Template) {
					KeepInjected(p.Template, before[i].Template, author)
				}
			}
			return out
		},
	}
}

// Injected reports whether a template has what an admission gives pods.
func Injected(t *corev1.PodTemplateSpec) bool { return t.Annotations[kueue.WorkloadAnnotation] != "" }

func templateOf(sets []kueue.PodSet, name kueue.PodSetReference) *corev1.PodTemplateSpec {
	for i := range sets {
		if sets[i].Name == name {
			return &sets[i].Template
		}
	}
	return nil
}

// restore makes a template what its author wrote, in all that an admission may change.
func restore(t, author *corev1.PodTemplateSpec) {
	t.Labels, t.Annotations = maps.Clone(author.Labels), AuthoredAnnotations(author.Annotations, t.Annotations)
	t.Spec.NodeSelector, t.Spec.Tolerations = maps.Clone(
		author.Spec.NodeSelector,
	), slices.Clone(
		author.Spec.Tolerations,
	)
}

// AuthoredAnnotations are the annotations of a template as its author wrote them, of which its Workload has a record:
// to the groups of pod sets that this names, what the job says of all of its pods was added (Outer). No admission
// writes groups into a template, so that those which it has are its author's.
func AuthoredAnnotations(record, has map[string]string) map[string]string {
	const key = kueue.TopologyGroupsAnnotation
	out := maps.Clone(record)
	own, wrote := has[key]
	switch _, recorded := record[key]; {
	case wrote && recorded:
		out[key] = own
	case recorded:
		if delete(out, key); len(out) == 0 {
			return nil
		}
	}
	return out
}

// KeepInjected leaves in a template that its author writes again, t, what an admission added
// to it before, which was has and author, what was written first, has not.
func KeepInjected(t, was, author *corev1.PodTemplateSpec) {
	t.Labels = withAdded(t.Labels, was.Labels, author.Labels)
	t.Annotations = withAdded(t.Annotations, was.Annotations, author.Annotations)
	t.Spec.NodeSelector = withAdded(t.Spec.NodeSelector, was.Spec.NodeSelector, author.Spec.NodeSelector)
	if equality.Semantic.DeepEqual(t.Spec.Tolerations, author.Spec.Tolerations) {
		t.Spec.Tolerations = slices.Clone(was.Spec.Tolerations)
	}
}

// withAdded returns is with the entries of was that its author did not write.
func withAdded(is, was, author map[string]string) map[string]string {
	out := maps.Clone(is)
	for k, v := range was {
		_, wrote := author[k]
		_, has := is[k]
		if wrote || has {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[k] = v
	}
	return out
}
