package pod

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	podgroup "github.com/mlbatch/mlbatch/api/podgroup/v1alpha1"
)

// PodGroupKindAnnotation says of which API group the PodGroup is that a pod's group is
// taken from. The webhook writes it.
const PodGroupKindAnnotation = "mlbatch.dev/pod-group-kind"

// The API groups that have PodGroups, besides our own.
const (
	volcanoGroup = "scheduling.volcano.sh"
	nativeGroup  = "scheduling.k8s.io"
)

// GangKind is the kind PodGroup of an API group; false if it is none that is known.
func GangKind(group string) (schema.GroupKind, bool) {
	known := group == podgroup.GroupVersion.Group || group == volcanoGroup || group == nativeGroup
	return schema.GroupKind{Group: group, Kind: "PodGroup"}, known
}

// GangGroups are the API groups whose PodGroups are read.
func GangGroups() []string {
	return []string{podgroup.GroupVersion.Group, volcanoGroup, nativeGroup}
}

// GroupLabels and GroupAnnotations are those by which pods name a group that they start with.
func GroupLabels() []string {
	return []string{podgroup.PodGroupLabel, podgroup.OldPodGroupLabel, kueue.PodGroupNameLabel}
}

// GroupAnnotations are explained at [GroupLabels].
func GroupAnnotations() []string {
	return []string{"scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"}
}

// Named is the PodGroup that a pod names in the way of another scheduler, by API group and
// name; "" if it names none.
func Named(p *corev1.Pod) (group, name string) {
	if name := podgroup.Named(p.Labels); name != "" {
		return podgroup.GroupVersion.Group, name
	}
	for _, key := range GroupAnnotations() {
		if name := p.Annotations[key]; name != "" {
			return volcanoGroup, name
		}
	}
	if g := p.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil && *g.PodGroupName != "" {
		return nativeGroup, *g.PodGroupName
	}
	return "", ""
}

// Least is how many pods start together, by the spec of a PodGroup; at least 1.
func Least(group string, spec map[string]any) (int32, error) {
	fields := []string{"minMember"}
	if group == nativeGroup {
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
		if g := p.Annotations[PodGroupKindAnnotation]; g != "" && !u.Alone() && !u.Owned {
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
