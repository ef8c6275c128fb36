package v1beta2

import "strconv"

// Annotations by which jobs ask KAI Scheduler, and Run:ai, to be near: those of a job are about all of its pods
// together, those of a pod template about its own pods. A level is a label of nodes.
const (
	// KAIRequiredAnnotation is the level all pods must share.
	KAIRequiredAnnotation = "kai.scheduler/topology-required-placement"
	// KAIPreferredAnnotation is the level all pods should share.
	KAIPreferredAnnotation = "kai.scheduler/topology-preferred-placement"
	// KAISegmentSizeAnnotation, of a pod template, is the number of pods of a segment, which Kueue calls a slice.
	KAISegmentSizeAnnotation = "kai.scheduler/segment-size"
	// KAISegmentRequiredAnnotation is the level each segment must share.
	KAISegmentRequiredAnnotation = "kai.scheduler/segment-topology-required-placement"
	// KAISegmentPreferredAnnotation is the level each segment should share.
	KAISegmentPreferredAnnotation = "kai.scheduler/segment-topology-preferred-placement"
)

// KAIAnnotations are those.
func KAIAnnotations() []string {
	return []string{
		KAIRequiredAnnotation, KAIPreferredAnnotation, KAISegmentSizeAnnotation, KAISegmentRequiredAnnotation,
		KAISegmentPreferredAnnotation,
	}
}

// KAITopologyRequestOf reads the annotations that KAI Scheduler knows; nil if there are none.
func KAITopologyRequestOf(annotations map[string]string) *PodSetTopologyRequest {
	r := &PodSetTopologyRequest{
		Required:                    written(annotations, KAIRequiredAnnotation),
		Preferred:                   written(annotations, KAIPreferredAnnotation),
		PodSetSliceRequiredTopology: written(annotations, KAISegmentRequiredAnnotation),
	}
	if r.Preferred == nil { // as near as can be is what segments that prefer a level get, too
		r.Preferred = written(annotations, KAISegmentPreferredAnnotation)
	}
	if n, err := strconv.ParseInt(annotations[KAISegmentSizeAnnotation], 10, 32); err == nil && n > 0 &&
		r.PodSetSliceRequiredTopology != nil {
		r.PodSetSliceSize = new(int32(n))
	}
	if r.Required == nil && r.Preferred == nil && r.PodSetSliceRequiredTopology == nil {
		return nil
	}
	return r
}

// KAITopologyRequestFault says what of these annotations cannot be meant, and which that is; "" if all can.
func KAITopologyRequestFault(annotations map[string]string) (key, fault string) {
	for _, level := range []string{
		KAIRequiredAnnotation, KAIPreferredAnnotation, KAISegmentRequiredAnnotation, KAISegmentPreferredAnnotation,
	} {
		if f := levelFault(annotations[level]); f != "" {
			return level, f
		}
	}
	text, has := annotations[KAISegmentSizeAnnotation]
	if n, err := strconv.ParseInt(text, 10, 32); has && (err != nil || n < 1) {
		return KAISegmentSizeAnnotation, "it is a number of pods, 1 at least"
	}
	if !has && annotations[KAISegmentRequiredAnnotation] != "" {
		return KAISegmentRequiredAnnotation, "segments need annotation " + KAISegmentSizeAnnotation +
			", the number of pods of each"
	}
	return "", ""
}
