package appwrapper

import (
	"strconv"

	aw "github.com/mlbatch/mlbatch/api/appwrapper/v1beta2"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// topologyRequest reads how near to each other the pods of a set want to be;
// nil if they do not say.
func topologyRequest(ps PodSet) *kueue.PodSetTopologyRequest {
	r := kueue.TopologyRequestOf(ps.Template.Annotations)
	if r == nil {
		return nil
	}
	r.PodIndexLabel = optional(ps.Annotations, aw.TASPodIndexLabelAnnotation)
	r.SubGroupIndexLabel = optional(ps.Annotations, aw.TASSubGroupIndexLabelAnnotation)
	if n, err := strconv.ParseInt(ps.Annotations[aw.TASSubGroupCountAnnotation], 10, 32); err == nil {
		r.SubGroupCount = new(int32(n))
	}
	return r
}

func optional(m map[string]string, key string) *string {
	if v, ok := m[key]; ok && v != "" {
		return &v
	}
	return nil
}
