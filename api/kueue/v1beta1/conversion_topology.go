package v1beta1

import (
	"slices"

	"github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// expandSlices lists the domains that slices stand for, in order. There are
// none if the slices contradict themselves, e.g. have fewer values than domains;
// the schema does not rule that out.
func expandSlices(levels int, in []v1beta2.TopologyAssignmentSlice) []TopologyDomainAssignment {
	out := []TopologyDomainAssignment{}
	for _, s := range in {
		n := int(s.DomainCount)
		if len(s.ValuesPerLevel) != levels || (s.PodCounts.Universal == nil && len(s.PodCounts.Individual) != n) {
			return []TopologyDomainAssignment{}
		}
		for _, v := range s.ValuesPerLevel {
			if v.Universal == nil && (v.Individual == nil || len(v.Individual.Roots) != n) {
				return []TopologyDomainAssignment{}
			}
		}
		for i := range n {
			d := TopologyDomainAssignment{Values: make([]string, levels)}
			for l, v := range s.ValuesPerLevel {
				d.Values[l] = valueAt(v, i)
			}
			if s.PodCounts.Universal != nil {
				d.Count = *s.PodCounts.Universal
			} else {
				d.Count = s.PodCounts.Individual[i]
			}
			out = append(out, d)
		}
	}
	return out
}

// valueAt is the value of domain i.
func valueAt(v v1beta2.TopologyAssignmentSliceLevelValues, i int) string {
	if v.Universal != nil {
		return *v.Universal
	}
	s := v.Individual.Roots[i]
	if p := v.Individual.Prefix; p != nil {
		s = *p + s
	}
	if p := v.Individual.Suffix; p != nil {
		s += *p
	}
	return s
}

// compactDomains writes domains as one slice. What all domains have in common
// is written once.
func compactDomains(levels int, in []TopologyDomainAssignment) []v1beta2.TopologyAssignmentSlice {
	if len(in) == 0 {
		return nil
	}
	s := v1beta2.TopologyAssignmentSlice{
		DomainCount: int32(len(in)), //nolint:gosec // the schema bounds the list
	}
	for l := range levels {
		roots := make([]string, len(in))
		for i, d := range in {
			if l < len(d.Values) {
				roots[i] = d.Values[l]
			}
		}
		v := v1beta2.TopologyAssignmentSliceLevelValues{}
		if allEqual(roots) {
			v.Universal = &roots[0]
		} else {
			v.Individual = &v1beta2.TopologyAssignmentSliceLevelIndividualValues{Roots: roots}
		}
		s.ValuesPerLevel = append(s.ValuesPerLevel, v)
	}
	counts := make([]int32, len(in))
	for i, d := range in {
		counts[i] = d.Count
	}
	if allEqual(counts) {
		s.PodCounts.Universal = &counts[0]
	} else {
		s.PodCounts.Individual = counts
	}
	return []v1beta2.TopologyAssignmentSlice{s}
}

func allEqual[T comparable](in []T) bool {
	return !slices.ContainsFunc(in, func(v T) bool { return v != in[0] })
}

func sameDomains(a, b []TopologyDomainAssignment) bool {
	return slices.EqualFunc(a, b, func(x, y TopologyDomainAssignment) bool {
		return x.Count == y.Count && slices.Equal(x.Values, y.Values)
	})
}
