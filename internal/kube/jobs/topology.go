package jobs

import (
	"strconv"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// TopologyRequest reads from the annotations of pods how near to each other they want to
// be; nil if they do not say.
func TopologyRequest(annotations map[string]string) *kueue.PodSetTopologyRequest {
	r := &kueue.PodSetTopologyRequest{
		Required:  written(annotations, kueue.PodSetRequiredTopologyAnnotation),
		Preferred: written(annotations, kueue.PodSetPreferredTopologyAnnotation),
	}
	if v, err := strconv.ParseBool(annotations[kueue.PodSetUnconstrainedTopologyAnnotation]); err == nil {
		r.Unconstrained = &v
	}
	if r.Required == nil && r.Preferred == nil && r.Unconstrained == nil {
		return nil
	}
	r.PodSetGroupName = written(annotations, kueue.PodSetGroupNameAnnotation)
	return r
}

func written(m map[string]string, key string) *string {
	if v, ok := m[key]; ok && v != "" {
		return &v
	}
	return nil
}
