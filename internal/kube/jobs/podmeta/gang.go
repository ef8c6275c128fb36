package podmeta

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	podgroup "github.com/mlbatch/mlbatch/api/podgroup/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/sakkara"
)

// PodGroupKindAnnotation says of which API group the PodGroup is that a pod's group is
// taken from, or that it is one of Sakkara's (SakkaraGroup). The webhook writes it.
const PodGroupKindAnnotation = "mlbatch.dev/pod-group-kind"

// The API groups that have PodGroups, besides our own.
const (
	VolcanoGroup = "scheduling.volcano.sh"
	NativeGroup  = "scheduling.k8s.io"
	KAIGroup     = "scheduling.run.ai"
)

// SubGroupLabel names the group within its PodGroup of KAI Scheduler that a pod is in.
const SubGroupLabel = "kai.scheduler/subgroup-name"

// kaiGroupAnnotation names the PodGroup of KAI Scheduler that a pod is in.
const kaiGroupAnnotation = "pod-group-name"

// CompositeGroup stands for an API group where pods are one group by a CompositePodGroup of Kubernetes, which the
// PodGroups that they name are within.
const CompositeGroup = "compositepodgroups." + NativeGroup

// SakkaraGroup stands for an API group where a group is described by a ConfigMap with that label.
const SakkaraGroup = sakkara.GroupLabel

// GangKind is the kind PodGroup of an API group; false if it is none that is known.
func GangKind(group string) (schema.GroupKind, bool) {
	return schema.GroupKind{Group: group, Kind: "PodGroup"}, slices.Contains(GangGroups(), group)
}

// GangGroups are the API groups whose PodGroups are read.
func GangGroups() []string {
	return []string{podgroup.GroupVersion.Group, VolcanoGroup, NativeGroup, KAIGroup}
}

// Within is the group within its PodGroup of KAI Scheduler that a pod is in, or the PodGroup within its
// CompositePodGroup; "" if it is in none. The pod may be a template.
func Within(p metav1.Object, spec *corev1.PodSpec) string {
	if p.GetAnnotations()[PodGroupKindAnnotation] == CompositeGroup {
		return NativeName(spec)
	}
	return p.GetLabels()[SubGroupLabel]
}

// NativeName is the PodGroup of Kubernetes that a pod names, "" if it names none.
func NativeName(spec *corev1.PodSpec) string {
	if g := spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		return *g.PodGroupName
	}
	return ""
}

// GroupLabels and GroupAnnotations are those by which pods name a group that they start with.
func GroupLabels() []string {
	return []string{
		podgroup.PodGroupLabel,
		podgroup.OldPodGroupLabel,
		kueue.PodGroupNameLabel,
		sakkara.MemberLabel,
	}
}

// GroupAnnotations are explained at [GroupLabels].
func GroupAnnotations() []string {
	return append(volcanoAnnotations(), kaiGroupAnnotation)
}

func volcanoAnnotations() []string {
	return []string{"scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"}
}

// Named is the PodGroup that a pod names in the way of another scheduler, by API group and
// name; "" if it names none.
func Named(p *corev1.Pod) (group, name string) {
	if name := p.Labels[sakkara.MemberLabel]; name != "" {
		return SakkaraGroup, sakkara.GroupName(name)
	}
	if name := podgroup.Named(p.Labels); name != "" {
		return podgroup.GroupVersion.Group, name
	}
	for _, key := range volcanoAnnotations() {
		if name := p.Annotations[key]; name != "" {
			return VolcanoGroup, name
		}
	}
	if name := p.Annotations[kaiGroupAnnotation]; name != "" {
		return KAIGroup, name
	}
	if name := NativeName(&p.Spec); name != "" {
		return NativeGroup, name
	}
	return "", ""
}
