package convert

import (
	"cmp"
	"fmt"

	"k8s.io/utils/ptr"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
)

// Topology is how nodes are nested by a Topology.
func Topology(t *kueue.Topology) core.Topology {
	out := core.Topology{Name: t.Name}
	for _, l := range t.Spec.Levels {
		out.Levels = append(out.Levels, l.NodeLabel)
	}
	return out
}

// topologyOf is how near to each other the pods of a set must be, of which so many are left; invalid
// says why they never can be.
func topologyOf(ps *kueue.PodSet, left int32) (out core.TopologyRequest, invalid string) {
	said := kueue.TopologyRequestOf(ps.Template.Annotations)
	r := cmp.Or(ps.TopologyRequest, said)
	if r == nil {
		return out, ""
	}
	out.Required, out.Preferred = ptr.Deref(r.Required, ""), ptr.Deref(r.Preferred, "")
	layers := r.PodsetSliceRequiredTopologyConstraints
	if level := ptr.Deref(r.PodSetSliceRequiredTopology, ""); level != "" && len(layers) == 0 {
		layers = []kueue.PodsetSliceRequiredTopologyConstraint{{
			Topology: level, Size: min(ptr.Deref(r.PodSetSliceSize, ps.Count), max(1, ps.Count)),
		}}
	}
	if f := kueue.SlicesFault(layers); f != "" {
		return out, "of its topology request, " + f
	}
	for _, l := range layers {
		if left == ps.Count && left%l.Size != 0 { // of what is left once some are done, the engine makes the best
			return out, fmt.Sprintf(
				"%d pods cannot be cut into slices of %d, each in one %s: ask for a multiple of them",
				left, l.Size, l.Topology,
			)
		}
		out.Slices = append(out.Slices, core.PodSetSlice{Level: l.Topology, Size: l.Size})
	}
	// What a kind makes of a wish to be apart (JobSet's exclusive-topology) keeps no pods waiting where nobody
	// says how nodes are nested.
	out.Optional = len(out.Slices) > 0 && said == nil && r.Required == nil && r.Preferred == nil
	return out, ""
}
