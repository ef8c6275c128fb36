package convert

import (
	"encoding/json"
	"fmt"
	"strconv"

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

// TopologyRequest reads from the annotations of pods how near to each other they want to
// be; nil if they do not say. Nested slices that cannot be read are left out: see TopologyFault.
func TopologyRequest(annotations map[string]string) *kueue.PodSetTopologyRequest {
	r := &kueue.PodSetTopologyRequest{
		Required:                    written(annotations, kueue.PodSetRequiredTopologyAnnotation),
		Preferred:                   written(annotations, kueue.PodSetPreferredTopologyAnnotation),
		PodSetSliceRequiredTopology: written(annotations, kueue.PodSetSliceRequiredTopologyAnnotation),
	}
	if v, err := strconv.ParseBool(annotations[kueue.PodSetUnconstrainedTopologyAnnotation]); err == nil {
		r.Unconstrained = &v
	}
	if n, err := strconv.ParseInt(annotations[kueue.PodSetSliceSizeAnnotation], 10, 32); err == nil && n > 0 {
		r.PodSetSliceSize = new(int32(n))
	}
	if layers, err := layersIn(annotations); err == nil {
		r.PodsetSliceRequiredTopologyConstraints = layers
	}
	if r.Required == nil && r.Preferred == nil && r.Unconstrained == nil &&
		r.PodSetSliceRequiredTopology == nil && len(r.PodsetSliceRequiredTopologyConstraints) == 0 {
		return nil
	}
	r.PodSetGroupName = written(annotations, kueue.PodSetGroupNameAnnotation)
	return r
}

func layersIn(annotations map[string]string) ([]kueue.PodsetSliceRequiredTopologyConstraint, error) {
	text := annotations[kueue.PodSetSliceRequiredTopologyConstraintsAnnotation]
	if text == "" {
		return nil, nil
	}
	var out []kueue.PodsetSliceRequiredTopologyConstraint
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return nil, fmt.Errorf("it is not a list of topology and size in JSON: %w", err)
	}
	return out, nil
}

func written(m map[string]string, key string) *string {
	if v, ok := m[key]; ok && v != "" {
		return &v
	}
	return nil
}

// TopologyFault says what of the annotations of pods about how near they want to be cannot be meant, and
// which annotation that is; "" if all can.
func TopologyFault(annotations map[string]string) (key, fault string) {
	const size = kueue.PodSetSliceSizeAnnotation
	if text, has := annotations[size]; has {
		if n, err := strconv.ParseInt(text, 10, 32); err != nil || n < 1 {
			return size, "it is a number of pods, 1 at least"
		}
		if annotations[kueue.PodSetSliceRequiredTopologyAnnotation] == "" {
			return size, "slices of that size need annotation " + kueue.PodSetSliceRequiredTopologyAnnotation +
				", the node label of which one value holds each"
		}
	}
	const nested = kueue.PodSetSliceRequiredTopologyConstraintsAnnotation
	layers, err := layersIn(annotations)
	if err != nil {
		return nested, err.Error()
	}
	if f := layersFault(layers); f != "" {
		return nested, f
	}
	return "", ""
}

// layersFault says why nested slices cannot be meant.
func layersFault(layers []kueue.PodsetSliceRequiredTopologyConstraint) string {
	for i, l := range layers {
		switch {
		case l.Topology == "" || l.Size < 1:
			return fmt.Sprintf("slice %d needs a topology, which is a node label, and a size of 1 pod at least", i+1)
		case i > 0 && layers[i-1].Size%l.Size != 0:
			return fmt.Sprintf(
				"slices go from coarse to fine: %d pods (slice %d) cannot be cut into %d (slice %d)",
				layers[i-1].Size, i, l.Size, i+1,
			)
		}
		for _, o := range layers[:i] {
			if o.Topology == l.Topology {
				return "each topology may appear once, and " + l.Topology + " does twice"
			}
		}
	}
	return ""
}

// topologyOf is how near to each other the pods of a set must be, of which so many are left; invalid
// says why they never can be.
func topologyOf(ps *kueue.PodSet, left int32) (out core.TopologyRequest, invalid string) {
	r := ps.TopologyRequest
	if r == nil {
		r = TopologyRequest(ps.Template.Annotations)
	}
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
	if f := layersFault(layers); f != "" {
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
	return out, ""
}
