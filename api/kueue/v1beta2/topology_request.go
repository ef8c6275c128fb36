package v1beta2

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// TopologyRequestOf reads from the annotations of pods how near to each other they want to
// be, by the words of Kueue or, else, by those of KAI Scheduler; nil if they do not say. Nested slices that cannot be read are left out: see TopologyRequestFault.
func TopologyRequestOf(annotations map[string]string) *PodSetTopologyRequest {
	r := &PodSetTopologyRequest{
		Required:                    written(annotations, PodSetRequiredTopologyAnnotation),
		Preferred:                   written(annotations, PodSetPreferredTopologyAnnotation),
		PodSetSliceRequiredTopology: written(annotations, PodSetSliceRequiredTopologyAnnotation),
	}
	if v, err := strconv.ParseBool(annotations[PodSetUnconstrainedTopologyAnnotation]); err == nil {
		r.Unconstrained = &v
	}
	if n, err := strconv.ParseInt(annotations[PodSetSliceSizeAnnotation], 10, 32); err == nil && n > 0 {
		r.PodSetSliceSize = new(int32(n))
	}
	if layers, err := slicesIn(annotations); err == nil {
		r.PodsetSliceRequiredTopologyConstraints = layers
	}
	if r.Required == nil && r.Preferred == nil && r.Unconstrained == nil &&
		r.PodSetSliceRequiredTopology == nil && len(r.PodsetSliceRequiredTopologyConstraints) == 0 {
		return KAITopologyRequestOf(annotations)
	}
	r.PodSetGroupName = written(annotations, PodSetGroupNameAnnotation)
	return r
}

// DomainMaximum is how many pods of a set a domain of a level has at most.
//
// +kubebuilder:object:generate=false
type DomainMaximum struct {
	Level string
	Most  int32
}

// MaxPerDomainOf reads from the annotations of pods how many of their set domains have at most; none if they do
// not say, or what they say is not meant so: see TopologyRequestFault.
func MaxPerDomainOf(annotations map[string]string) []DomainMaximum {
	text, has := annotations[MaxPerDomainAnnotation]
	if !has {
		return nil
	}
	var out []DomainMaximum
	levels := 0
	for part := range strings.SplitSeq(text, ",") {
		level, number, _ := strings.Cut(strings.TrimSpace(part), "=")
		n, err := strconv.ParseInt(number, 10, 32)
		if err != nil || n < 1 || level == "" || levelFault(level) != "" {
			return nil
		}
		if level != corev1.LabelHostname {
			levels++
		}
		out = append(out, DomainMaximum{level, int32(n)})
	}
	if levels > mostLimitedLevels {
		return nil
	}
	return out
}

// TopologyGroup is a group of pod sets of a job that are in one domain of a level.
//
// +kubebuilder:object:generate=false
type TopologyGroup struct{ Level, Name string }

// TopologyGroupsOf reads from the annotations of pods in which groups their set is, the widest first; nil if what they
// say is not meant so: see TopologyRequestFault.
func TopologyGroupsOf(annotations map[string]string) []TopologyGroup {
	groups, fault := topologyGroupsIn(annotations[TopologyGroupsAnnotation])
	if fault != "" {
		return nil
	}
	return groups
}

func topologyGroupsIn(text string) (groups []TopologyGroup, fault string) {
	if text == "" {
		return nil, ""
	}
	for word := range strings.SplitSeq(text, ",") {
		level, name, _ := strings.Cut(strings.TrimSpace(word), "=")
		if level == "" || name == "" || levelFault(level) != "" || len(name) > longestLevel {
			return nil, fmt.Sprintf(
				"%q is not a label of nodes and the name of a group, such as cloud.provider.com/topology-block=all", word,
			)
		}
		groups = append(groups, TopologyGroup{level, name})
	}
	if len(groups) > mostTopologyGroups {
		return nil, fmt.Sprintf("a pod set is in %d groups at most", mostTopologyGroups)
	}
	return groups, ""
}

// InTopologyGroup are the annotations of pods whose set is in a group around all that they name.
func InTopologyGroup(annotations map[string]string, g TopologyGroup) map[string]string {
	out := maps.Clone(annotations)
	if out == nil {
		out = map[string]string{}
	}
	text := g.Level + "=" + g.Name
	if inner := out[TopologyGroupsAnnotation]; inner != "" {
		text += "," + inner
	}
	out[TopologyGroupsAnnotation] = text
	return out
}

func slicesIn(annotations map[string]string) ([]PodsetSliceRequiredTopologyConstraint, error) {
	text := annotations[PodSetSliceRequiredTopologyConstraintsAnnotation]
	if text == "" {
		return nil, nil
	}
	var out []PodsetSliceRequiredTopologyConstraint
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

// LevelsNamed are the levels that a word means: the one that is called so or, if none is, those that have it as their
// last part, as rack is for cloud.provider.com/topology-rack.
func LevelsNamed(levels []string, word string) (found []string) {
	for _, level := range levels {
		switch last := level[strings.LastIndexAny(level, "/.-")+1:]; {
		case level == word:
			return []string{level}
		case last == word && !slices.Contains(found, level):
			found = append(found, level)
		}
	}
	return found
}

// NearAnnotations are those of pods that say how near to each other they want to be, in our words.
func NearAnnotations() []string {
	return []string{
		PodSetRequiredTopologyAnnotation, PodSetPreferredTopologyAnnotation, PodSetUnconstrainedTopologyAnnotation,
		PodSetSliceRequiredTopologyAnnotation, PodSetSliceSizeAnnotation,
		PodSetSliceRequiredTopologyConstraintsAnnotation, BalancedTopologyAnnotation, SpreadTopologyAnnotation,
		MaxPerDomainAnnotation, TopologyGroupsAnnotation,
	}
}

// TopologyRequestFault says what of the annotations of pods about how near they want to be cannot be meant, and
// which annotation that is; "" if all can.
func TopologyRequestFault(annotations map[string]string) (key, fault string) {
	if f := ComputeDomainFault(annotations); f != "" {
		return ComputeDomainAnnotation, f
	}
	for _, level := range []string{
		PodSetRequiredTopologyAnnotation, PodSetPreferredTopologyAnnotation, PodSetSliceRequiredTopologyAnnotation,
		BalancedTopologyAnnotation, SpreadTopologyAnnotation,
	} {
		if f := levelFault(annotations[level]); f != "" {
			return level, f
		}
	}
	if text, has := annotations[MaxPerDomainAnnotation]; has {
		if MaxPerDomainOf(annotations) == nil {
			return MaxPerDomainAnnotation,
				fmt.Sprintf(
					"%q is not a label of nodes and a number of pods, such as cloud.provider.com/topology-rack=16, or up to %d of them with commas",
					text,
					mostLimitedLevels,
				)
		}
	}
	if _, fault := topologyGroupsIn(annotations[TopologyGroupsAnnotation]); fault != "" {
		return TopologyGroupsAnnotation, fault
	}
	const size = PodSetSliceSizeAnnotation
	if text, has := annotations[size]; has {
		if n, err := strconv.ParseInt(text, 10, 32); err != nil || n < 1 {
			return size, "it is a number of pods, 1 at least"
		}
		if annotations[PodSetSliceRequiredTopologyAnnotation] == "" {
			return size, "slices of that size need annotation " + PodSetSliceRequiredTopologyAnnotation +
				", the node label of which one value holds each"
		}
	}
	const nested = PodSetSliceRequiredTopologyConstraintsAnnotation
	layers, err := slicesIn(annotations)
	if err != nil {
		return nested, err.Error()
	}
	if f := SlicesFault(layers); f != "" {
		return nested, f
	}
	return KAITopologyRequestFault(annotations)
}

// Limits of the API.
const (
	mostSliceLayers    = 3
	mostTopologyGroups = 4
	mostLimitedLevels  = 3 // beside nodes
	longestLevel       = 63
)

// levelFault says why a text is no level, "" if it is one or there is none.
func levelFault(text string) string {
	switch errs := validation.IsQualifiedName(text); {
	case text == "":
		return ""
	case len(errs) > 0:
		return fmt.Sprintf("%q is no label of nodes: %s", text, strings.Join(errs, "; "))
	case len(text) > longestLevel:
		return fmt.Sprintf("a level has %d characters at most", longestLevel)
	}
	return ""
}

// SlicesFault says why nested slices cannot be meant; "" if they can.
func SlicesFault(layers []PodsetSliceRequiredTopologyConstraint) string {
	if len(layers) > mostSliceLayers {
		return fmt.Sprintf("slices have %d layers at most", mostSliceLayers)
	}
	for i, l := range layers {
		if f := levelFault(l.Topology); f != "" {
			return f
		}
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
