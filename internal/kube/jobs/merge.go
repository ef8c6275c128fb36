package jobs

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// ConflictError is a key that two parties give different values.
type ConflictError struct{ What, Key, Old, New string }

// Error says what the user can do about it.
func (c *ConflictError) Error() string {
	return fmt.Sprintf(
		"%s %s: the pod template says %q, the admission %q; remove it from the template",
		c.What,
		c.Key,
		c.Old,
		c.New,
	)
}

// With returns the info with what an admission check adds. A value that differs
// from one given already is an error.
func (i PodSetInfo) With(u kueue.PodSetUpdate) (PodSetInfo, error) {
	for _, m := range []struct {
		what string
		dst  *map[string]string
		add  map[string]string
	}{
		{"label", &i.Labels, u.Labels},
		{"annotation", &i.Annotations, u.Annotations},
		{"nodeSelector", &i.NodeSelector, u.NodeSelector},
	} {
		if err := Merge(m.what, m.dst, m.add); err != nil {
			if c, is := errors.AsType[*ConflictError](err); is {
				return i, fmt.Errorf("%s %s: it says %q, the flavor or another check %q", c.What, c.Key, c.New, c.Old)
			}
			return i, err
		}
	}
	i.Tolerations = Tolerate(i.Tolerations, u.Tolerations)
	return i, nil
}

// Tolerate returns tolerations with those of add that are not among them yet.
func Tolerate(have, add []corev1.Toleration) []corev1.Toleration {
	out := slices.Clip(have)
	for _, t := range add {
		if !slices.ContainsFunc(out, func(o corev1.Toleration) bool { return equality.Semantic.DeepEqual(o, t) }) {
			out = append(out, t)
		}
	}
	return out
}

// Merge adds the entries of add to *dst, which it replaces by a copy. A key
// that has another value already is an error: an admission never overrides
// what the user wrote. what names the map in the error.
func Merge(what string, dst *map[string]string, add map[string]string) error {
	out := make(map[string]string, len(*dst)+len(add))
	maps.Copy(out, *dst)
	for k, v := range add {
		if old, ok := out[k]; ok && old != v {
			return &ConflictError{What: what, Key: k, Old: old, New: v}
		}
		out[k] = v
	}
	if len(out) == 0 {
		return nil
	}
	*dst = out
	return nil
}

// Inject adds what an admission gives pods to the template of them, which it changes. A
// key that the author gave another value is an error.
func (i PodSetInfo) Inject(t *corev1.PodTemplateSpec) error {
	for _, m := range []struct {
		what string
		dst  *map[string]string
		add  map[string]string
	}{
		{"label", &t.Labels, i.Labels},
		{"annotation", &t.Annotations, i.Annotations},
		{"nodeSelector", &t.Spec.NodeSelector, i.NodeSelector},
	} {
		if err := Merge(m.what, m.dst, m.add); err != nil {
			return err
		}
	}
	t.Spec.Tolerations = Tolerate(t.Spec.Tolerations, i.Tolerations)
	return nil
}
