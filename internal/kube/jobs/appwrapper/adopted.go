package appwrapper

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// PodSetOf is the name of the pod set of a pod of an admitted Workload which another program
// started, "" if it is not known. room is that of jobs.PodSetOf.
//
// That of an AppWrapper is the one by which the AppWrapper counts its pods: AppWrapper controllers
// up to 1.0 gave the pod sets of Workloads other names.
func PodSetOf(w *kueue.Workload, pod *corev1.Pod, room map[kueue.PodSetReference]int32) string {
	name := kueue.PodSetReference(pod.Labels[kueue.PodSetLabel])
	at := slices.IndexFunc(w.Spec.PodSets, func(ps kueue.PodSet) bool { return ps.Name == name })
	owner := metav1.GetControllerOf(w)
	wrapped := owner != nil && owner.Kind == aw.AppWrapperKind
	if at < 0 && wrapped {
		for n := range w.Spec.PodSets {
			if PodSetName(owner.Name, n) == string(name) {
				at = n
			}
		}
	}
	if at < 0 {
		name = jobs.PodSetOf(w.Spec.PodSets, pod, room)
		at = slices.IndexFunc(w.Spec.PodSets, func(ps kueue.PodSet) bool { return ps.Name == name })
	}
	switch {
	case at < 0:
		return ""
	case wrapped:
		return PodSetName(owner.Name, at)
	}
	return string(w.Spec.PodSets[at].Name)
}
