package podmeta

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Framework is the name of pods in configurations.
const Framework = "pod"

// GVK is v1 Pod.
func GVK() schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind("Pod") }

// Managed reports whether our webhook has taken a pod in.
func Managed(p *corev1.Pod) bool { return p.Labels[kueue.ManagedLabel] == "true" }

// Group is the group that a pod names, "" if it stands alone.
func Group(p metav1.Object) string { return p.GetLabels()[kueue.PodGroupNameLabel] }

// Queue is the queue that a pod names, "" if it names none.
func Queue(p metav1.Object) string { return p.GetLabels()[kueue.QueueNameLabel] }

// Parent is the kind that the pods of one object are queued for, as the webhook of
// that kind wrote it into the pods; "" for pods that somebody made one by one.
func Parent(p metav1.Object) string { return p.GetAnnotations()[kueue.PodSuspendingParentAnnotation] }

// Gated reports whether a pod waits for admission.
func Gated(p *corev1.Pod) bool {
	return slices.ContainsFunc(
		p.Spec.SchedulingGates,
		func(g corev1.PodSchedulingGate) bool { return g.Name == kueue.AdmissionGate },
	)
}

// Unplaced reports whether a pod that another scheduler binds waits to be told its node.
func Unplaced(p *corev1.Pod) bool {
	return slices.ContainsFunc(
		p.Spec.SchedulingGates,
		func(g corev1.PodSchedulingGate) bool { return g.Name == kueue.TopologyGate },
	)
}

// Kept reports whether our finalizer is on a pod.
func Kept(p *corev1.Pod) bool { return slices.Contains(p.Finalizers, kueue.PodFinalizer) }

// Injected are the labels and annotations that an admission writes. An author may
// not.
func Injected() (labels, annotations []string) {
	labels = []string{kueue.PodSetLabel, kueue.ClusterQueueNameLabel, kueue.LocalQueueNameLabel}
	return labels, []string{
		kueue.WorkloadAnnotation,
		kueue.ComputeDomainClaimAnnotation,
		kueue.NativePodGroupAnnotation,
		kueue.StopFileAnnotation,
	}
}

// StatefulSetGroup names the pod group of the pods of a StatefulSet.
func StatefulSetGroup(name string) string {
	const prefix, longest, hashLength = "statefulset-", 63, 5
	sum := sha256.Sum256([]byte(name))
	out := prefix + name
	if len(out) > longest-hashLength-1 {
		out = strings.TrimRight(out[:longest-hashLength-1], ".-")
	}
	return out + "-" + hex.EncodeToString(sum[:])[:hashLength]
}

// ValidateInjected checks that a change leaves what an admission wrote: pods, and
// templates of pods, are counted by it.
func ValidateInjected(was, is metav1.Object) field.ErrorList {
	labels, annotations := Injected()
	const why = "the admission of a job writes it: leave it as it is"
	var errs field.ErrorList
	for _, key := range labels {
		if was.GetLabels()[key] != is.GetLabels()[key] {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "labels").Key(key), why))
		}
	}
	for _, key := range annotations {
		if was.GetAnnotations()[key] != is.GetAnnotations()[key] {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "annotations").Key(key), why))
		}
	}
	return errs
}
