package convert

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
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

// together is how near the pods of a role must be to each other by their own required podAffinity: in one domain of the
// label that it names. A term about pods of several roles, each of which has it, joins these: group then names them.
// Of several terms the first counts; the scheduler observes all.
func together(roles []role, i int) (level, group string) {
	r := roles[i]
	if r.spec.Affinity == nil || r.spec.Affinity.PodAffinity == nil {
		return "", ""
	}
	for _, t := range r.spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		s, ok := selects(t.LabelSelector, r, t.MatchLabelKeys, t.MismatchLabelKeys)
		if !ok || !inOwnNamespace(&t, r.namespace) || !s.Matches(r.labels) {
			continue
		}
		sharing := 0
		for _, o := range roles {
			if s.Matches(o.labels) && nearBy(o, &t) {
				sharing++
			}
		}
		if sharing > 1 {
			text, _ := worded(s, r)
			group = "podAffinity over " + text
		}
		if r.count > 1 || group != "" {
			return t.TopologyKey, group
		}
	}
	return "", ""
}

// nearBy reports whether a role's pods have a term of affinity themselves.
func nearBy(r role, t *corev1.PodAffinityTerm) bool {
	return r.spec.Affinity != nil && r.spec.Affinity.PodAffinity != nil &&
		slices.ContainsFunc(
			r.spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
			func(o corev1.PodAffinityTerm) bool { return sameTerm(&o, t) },
		)
}

// topologyOf is how near to each other the pods of a set must be, of which so many are left; invalid
// says why they never can be.
func topologyOf(ps *kueue.PodSet, left int32) (out core.TopologyRequest, invalid string) {
	said := kueue.TopologyRequestOf(ps.Template.Annotations)
	out.Balanced = ps.Template.Annotations[kueue.BalancedTopologyAnnotation]
	for _, g := range kueue.TopologyGroupsOf(ps.Template.Annotations) {
		out.Parents = append(out.Parents, g.Level)
	}
	out.Spread = ps.Template.Annotations[kueue.SpreadTopologyAnnotation]
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
	out.Optional = len(out.Slices) > 0 && said == nil && r.Required == nil && r.Preferred == nil &&
		out.Balanced == "" && out.Spread == "" && len(out.Parents) == 0
	return out, ""
}
