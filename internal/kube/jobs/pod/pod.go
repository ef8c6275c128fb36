// Package pod knows pods that are queued by themselves: one alone, or several that
// name the same group and start together. It says which of them are one unit, what
// they ask for, how they are held, started and counted. It makes no decisions about
// quota and no API calls.
//
// A pod is held by a scheduling gate, which the webhook adds when the pod is created.
// A finalizer keeps it until it was counted: the API has no other memory of pods that
// succeeded and were deleted.
package pod

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	podgroup "github.com/mlbatch/mlbatch/api/podgroup/v1alpha1"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/podmeta"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/sakkara"
)

// Ended reports whether no container of a pod runs or will.
func Ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// TerminationTarget is the condition of a pod that is about to be deleted because it
// has to make room, or was never to run.
const TerminationTarget corev1.PodConditionType = "TerminationTarget"

// Stopped reports whether a pod was told to make room.
func Stopped(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == TerminationTarget && c.Status == corev1.ConditionTrue
	})
}

// Active reports whether a pod is expected to run on, or to start.
func Active(p *corev1.Pod) bool { return !Ended(p) && p.DeletionTimestamp == nil }

// Ready reports whether a pod runs and is ready, or has succeeded.
func Ready(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded ||
		slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
}

// role is the pod set that a pod belongs to.
func role(p *corev1.Pod) string {
	if podmeta.Group(p) == "" {
		return string(kueue.DefaultPodSetName)
	}
	return p.Annotations[kueue.RoleHashAnnotation]
}

// template is what a pod set records of a pod: what it asks for, without what holds
// it.
func template(p *corev1.Pod) corev1.PodTemplateSpec {
	out := corev1.PodTemplateSpec{Spec: *p.Spec.DeepCopy()}
	out.Labels, out.Annotations = maps.Clone(p.Labels), maps.Clone(p.Annotations)
	delete(out.Labels, kueue.ManagedLabel)
	for _, key := range []string{kueue.RoleHashAnnotation, kueue.SubmittedAtAnnotation, lastApplied} {
		delete(out.Annotations, key)
	}
	// Which pod of an object it is, and which revision, differs from pod to pod.
	maps.DeleteFunc(out.Labels, func(key, _ string) bool { return slices.Contains(ownLabels(), key) })
	out.Spec.SchedulingGates = slices.DeleteFunc(
		out.Spec.SchedulingGates,
		func(g corev1.PodSchedulingGate) bool {
			return g.Name == kueue.AdmissionGate || g.Name == kueue.TopologyGate
		},
	)
	if len(out.Spec.SchedulingGates) == 0 {
		out.Spec.SchedulingGates = nil
	}
	out.Spec.Hostname = ""
	return out
}

// lastApplied is kubectl's copy of the manifest.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// ownLabels are the labels that tell the pods of one object apart.
func ownLabels() []string {
	return []string{
		"apps.kubernetes.io/pod-index",
		"statefulset.kubernetes.io/pod-name",
		"controller-revision-hash",
		"pod-template-hash",
		kueue.PodGroupPodIndexLabel,
		sakkara.RankLabel,
	}
}

// Detach returns a pod that is of no group any more.
func Detach(p *corev1.Pod) *corev1.Pod {
	out := p.DeepCopy()
	delete(out.Labels, kueue.PodGroupNameLabel)
	if out.Annotations[podmeta.PodGroupKindAnnotation] != "" { // our scheduler would wait for a group that the pod is not of
		delete(out.Annotations, podmeta.PodGroupKindAnnotation)
		delete(out.Labels, podgroup.PodGroupLabel)
		delete(out.Labels, podgroup.OldPodGroupLabel)
		delete(out.Labels, sakkara.MemberLabel)
	}
	return out
}

// Join returns a held pod that names a PodGroup of Kubernetes in the group of pods that it starts with: those of that
// PodGroup, or of a CompositePodGroup that is around it. kind is what the group is, in the annotation of that name.
func Join(p *corev1.Pod, kind, name string) *corev1.Pod {
	out := p.DeepCopy()
	out.Labels[kueue.PodGroupNameLabel], out.Annotations[podmeta.PodGroupKindAnnotation] = name, kind
	within, role := podmeta.NativeName(&p.Spec), p.Annotations[kueue.RoleHashAnnotation]
	switch was := p.Annotations[podmeta.PodGroupKindAnnotation]; {
	case kind == was:
	case kind == podmeta.CompositeGroup:
		out.Annotations[kueue.RoleHashAnnotation] = podmeta.RoleWithin(within, role)
	case was == podmeta.CompositeGroup:
		out.Annotations[kueue.RoleHashAnnotation] = podmeta.RoleWithout(within, role, &p.Spec)
	}
	return out
}

// Start returns a held pod that may be scheduled, with what was assigned to it. An
// error is permanent: the pod contradicts its admission.
func Start(p *corev1.Pod, info jobs.PodSetInfo) (*corev1.Pod, error) {
	out := p.DeepCopy()
	for _, m := range []struct {
		what string
		dst  *map[string]string
		add  map[string]string
	}{
		{"label", &out.Labels, info.Labels},
		{"annotation", &out.Annotations, info.Annotations},
		{"nodeSelector", &out.Spec.NodeSelector, info.NodeSelector},
	} {
		if err := jobs.Merge(m.what, m.dst, m.add); err != nil {
			return nil, fmt.Errorf("start pod %s/%s: %w", p.Namespace, p.Name, err)
		}
	}
	out.Spec.Tolerations = jobs.Tolerate(out.Spec.Tolerations, info.Tolerations)
	out.Spec.SchedulingGates = slices.DeleteFunc(
		out.Spec.SchedulingGates,
		func(g corev1.PodSchedulingGate) bool { return g.Name == kueue.AdmissionGate },
	)
	return out, nil
}
