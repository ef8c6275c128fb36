package migrate

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/appwrapper"
)

// Mark is what a pod of a running job has to say, so that it is counted with its Workload: where
// Kueue's topology-aware scheduling was off, its pods say nothing.
type Mark struct {
	Pod      types.NamespacedName
	Workload string
	// PodSet is "" where it is not known.
	PodSet string
}

// marks are the marks that are missing. Pods that have ended say nothing any more.
func (p *Picture) marks() []Mark {
	byOwner := p.holders()
	room := map[types.NamespacedName]map[kueue.PodSetReference]int32{}
	var bare []*corev1.Pod
	of := map[*corev1.Pod]*kueue.Workload{}
	for i := range p.Pods {
		pod := &p.Pods[i]
		if state := convert.PodState(pod); state.Ended {
			continue
		}
		w := p.workloadOf(pod, byOwner)
		if w == nil {
			continue
		}
		key := types.NamespacedName{Namespace: w.Namespace, Name: w.Name}
		if room[key] == nil {
			room[key] = counts(w)
		}
		has := pod.Labels[kueue.PodSetLabel]
		if has != "" && appwrapper.PodSetOf(w, pod, nil) == has &&
			pod.Annotations[kueue.WorkloadAnnotation] == w.Name {
			room[key][nameIn(w, has)]--
			continue
		}
		of[pod] = w
		bare = append(bare, pod)
	}
	slices.SortFunc(bare, func(a, b *corev1.Pod) int { return byName(a, b) })
	out := make([]Mark, 0, len(bare))
	for _, pod := range bare {
		w := of[pod]
		left := room[types.NamespacedName{Namespace: w.Namespace, Name: w.Name}]
		set := appwrapper.PodSetOf(w, pod, left)
		left[nameIn(w, set)]--
		m := Mark{
			Pod:      types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name},
			Workload: w.Name,
			PodSet:   set,
		}
		if set == "" && pod.Annotations[kueue.WorkloadAnnotation] == w.Name {
			continue // more cannot be said of it
		}
		out = append(out, m)
	}
	return out
}

// nameIn is the name in a Workload of the pod set that a pod names.
func nameIn(w *kueue.Workload, set string) kueue.PodSetReference {
	for n := range w.Spec.PodSets {
		if owner := metav1.GetControllerOf(
			w,
		); owner != nil && owner.Kind == aw.AppWrapperKind &&
			appwrapper.PodSetName(owner.Name, n) == set {
			return w.Spec.PodSets[n].Name
		}
	}
	return kueue.PodSetReference(set)
}

// wrapperMarks are the AppWrappers that run and do not give to pods which are made again, in a
// reset, whose they are. They are found by name, and the values are their Workloads.
func (p *Picture) wrapperMarks() map[types.NamespacedName]string {
	holders, out := p.holders(), map[types.NamespacedName]string{}
	for i := range p.AppWrappers {
		a := &p.AppWrappers[i]
		w := holders[a.UID]
		if w == nil || a.Spec.Suspend || len(a.Status.ComponentStatus) != len(a.Spec.Components) {
			continue
		}
		for n := range a.Spec.Components {
			infos := a.Spec.Components[n].PodSetInfos
			if len(infos) != len(a.Status.ComponentStatus[n].PodSets) ||
				slices.ContainsFunc(
					infos,
					func(i aw.AppWrapperPodSetInfo) bool { return i.Annotations[kueue.WorkloadAnnotation] != w.Name },
				) {
				out[types.NamespacedName{Namespace: a.Namespace, Name: a.Name}] = w.Name
			}
		}
	}
	return out
}

// counts is how many pods of each pod set a Workload was admitted with.
func counts(w *kueue.Workload) map[kueue.PodSetReference]int32 {
	out := map[kueue.PodSetReference]int32{}
	for _, a := range w.Status.Admission.PodSetAssignments {
		if a.Count != nil {
			out[a.Name] = *a.Count
		}
	}
	return out
}

// holders are the Workloads that hold quota, by what owns them.
func (p *Picture) holders() map[types.UID]*kueue.Workload {
	out := map[types.UID]*kueue.Workload{}
	for i := range p.Workloads {
		w := &p.Workloads[i]
		if !holds(w) {
			continue
		}
		for _, o := range w.OwnerReferences {
			out[o.UID] = w
		}
	}
	return out
}

// holds reports whether a Workload has quota.
func holds(w *kueue.Workload) bool { return w.Status.Admission != nil && !convert.Finished(w) }

// workloadOf is the Workload with quota that a pod belongs to, nil if there is none: it is queued
// by itself or in a group, or what owns it is a job, or a part of one.
func (p *Picture) workloadOf(pod *corev1.Pod, byOwner map[types.UID]*kueue.Workload) *kueue.Workload {
	at := pod.UID
	for range nesting {
		if w := byOwner[at]; w != nil && w.Namespace == pod.Namespace {
			return w
		}
		if at == pod.UID {
			at = controllerOf(pod)
		} else {
			at = p.parents[at]
		}
		if at == "" {
			return nil
		}
	}
	return nil
}

// nesting is the longest chain of owners that is followed.
const nesting = 6

// on returns a pod with what it has to say.
func (m *Mark) on(pod *corev1.Pod) *corev1.Pod {
	out := pod.DeepCopy()
	metav1.SetMetaDataAnnotation(&out.ObjectMeta, kueue.WorkloadAnnotation, m.Workload)
	if m.PodSet != "" {
		metav1.SetMetaDataLabel(&out.ObjectMeta, kueue.PodSetLabel, m.PodSet)
	}
	return out
}

// patch writes it on a pod of this UID, and on no other that has taken its name.
func (m *Mark) patch(uid types.UID) []byte {
	meta := map[string]any{"uid": uid, "annotations": map[string]string{kueue.WorkloadAnnotation: m.Workload}}
	if m.PodSet != "" {
		meta["labels"] = map[string]string{kueue.PodSetLabel: m.PodSet}
	}
	out, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		panic(fmt.Sprintf("takeover: mark %v: %v", m, err)) // texts can be written
	}
	return out
}
