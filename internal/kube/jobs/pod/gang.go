package pod

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
)

// Least is how many pods start together, by the spec of a PodGroup; at least 1.
func Least(group string, spec map[string]any) (int32, error) {
	fields := []string{"minMember"}
	if group == podmeta.NativeGroup {
		fields = []string{"schedulingPolicy", "gang", "minCount"}
	}
	var at any = spec
	for _, f := range fields {
		m, _ := at.(map[string]any)
		at = m[f]
	}
	switch n := at.(type) {
	case nil:
		return 1, nil
	case int64:
		if n < 1<<31 {
			return int32(max(n, 1)), nil
		}
	case float64:
		return int32(max(n, 1)), nil
	}
	return 0, fmt.Errorf("%v is no number of pods", at)
}

// OfPodGroup is the API group of the PodGroup that the unit is taken from, "" if its pods
// say themselves how many they are.
func (u *Unit) OfPodGroup() string {
	for _, p := range u.Pods {
		if g := p.Annotations[podmeta.PodGroupKindAnnotation]; g != "" && !u.Alone() && !u.Owned {
			return g
		}
	}
	return ""
}

// AtLeast makes the unit one of so many pods or more: further ones are queued by themselves
// once it runs. wrong says why it cannot be one, "" if it can.
func (u *Unit) AtLeast(least int32, wrong string) {
	u.Total, u.Open = least, true
	if wrong != "" {
		u.Wrong = wrong
	}
}

// beyond are the pods that come on top of those which start together.
func (u *Unit) beyond() []*corev1.Pod {
	if !u.Open {
		return nil
	}
	return u.tooMany()
}
