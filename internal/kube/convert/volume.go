package convert

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Reach says which claim a PersistentVolume is bound to and what nodes have that reach it; false of
// one that every node reaches, or that no claim has.
func Reach(v *corev1.PersistentVolume) (claim core.Key, terms []core.Selector, limited bool) {
	if v.Status.Phase != corev1.VolumeBound || v.Spec.ClaimRef == nil || v.Spec.NodeAffinity == nil ||
		v.Spec.NodeAffinity.Required == nil {
		return core.Key{}, nil, false
	}
	claim = core.Key{Namespace: v.Spec.ClaimRef.Namespace, Name: v.Spec.ClaimRef.Name}
	return claim, alternatives(v.Spec.NodeAffinity.Required), true
}

// Claims are the PersistentVolumeClaims that a pod with this spec names, sorted, each once.
func Claims(spec *corev1.PodSpec) []string {
	var out []string
	for i := range spec.Volumes {
		if c := spec.Volumes[i].PersistentVolumeClaim; c != nil {
			out = append(out, c.ClaimName)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// volumes are those of a pod that not every node reaches. Claims that are bound to no volume yet get
// one where the pod comes to run.
func (s Surroundings) volumes(spec *corev1.PodSpec) []core.Volume {
	if len(s.Volumes) == 0 {
		return nil
	}
	var out []core.Volume
	for _, claim := range Claims(spec) {
		if terms := s.Volumes[claim]; len(terms) > 0 {
			out = append(out, core.Volume{Claim: claim, Terms: terms})
		}
	}
	return out
}
