package convert

import (
	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// Left is how many pods of each pod set of a Workload still have to run: of all
// that it asks for, the ones that are not done, and of these no more than it was
// admitted with. Reclaimable pods count from the whole pod set, so that those of
// an earlier admission are not taken off a later one that never had them.
func Left(w *kueue.Workload) map[kueue.PodSetReference]int32 {
	out := make(map[kueue.PodSetReference]int32, len(w.Spec.PodSets))
	for i := range w.Spec.PodSets {
		out[w.Spec.PodSets[i].Name] = w.Spec.PodSets[i].Count
	}
	for _, r := range w.Status.ReclaimablePods {
		out[r.Name] = max(out[r.Name]-r.Count, 0)
	}
	if w.Status.Admission == nil {
		return out
	}
	for i := range w.Status.Admission.PodSetAssignments {
		a := &w.Status.Admission.PodSetAssignments[i]
		out[a.Name] = min(out[a.Name], ptr.Deref(a.Count, out[a.Name]))
	}
	return out
}

// left is Left by the rules of an installation.
func (r Rules) left(w *kueue.Workload) map[kueue.PodSetReference]int32 {
	if r.KeepDone {
		all := *w
		all.Status.ReclaimablePods = nil
		return Left(&all)
	}
	return Left(w)
}

// Done is Done by the rules of an installation.
func (r Rules) Done(w *kueue.Workload) map[string]int32 {
	if r.KeepDone {
		return nil
	}
	return Done(w)
}

// Done is how many pods of each pod set are done for good of the pods that the
// Workload was admitted with. Pod sets without any are missing.
func Done(w *kueue.Workload) map[string]int32 {
	out := map[string]int32{}
	if w.Status.Admission == nil || len(w.Status.ReclaimablePods) == 0 {
		return out
	}
	left := Left(w)
	for i := range w.Status.Admission.PodSetAssignments {
		a := &w.Status.Admission.PodSetAssignments[i]
		if n := ptr.Deref(a.Count, 0) - left[a.Name]; n > 0 {
			out[string(a.Name)] = n
		}
	}
	return out
}

// GivenBack is what status.reclaimablePods says of a pod set of which so many
// pods have to run yet: pods that it was never given are among them.
func GivenBack(ps *kueue.PodSet, left int32) kueue.ReclaimablePod {
	return kueue.ReclaimablePod{Name: ps.Name, Count: max(ps.Count-left, 0)}
}
