package v1beta2

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAnnotationsOfKAIAreTopologyRequests: what jobs ask KAI Scheduler for is what Kueue's annotations ask for, and
// those go before where both are there.
func TestAnnotationsOfKAIAreTopologyRequests(t *testing.T) {
	for _, tc := range []struct {
		why  string
		is   map[string]string
		want *PodSetTopologyRequest
	}{
		{"nothing is asked for", map[string]string{"kai.scheduler/topology": "dc"}, nil},
		{
			"a rack, or at least a block",
			map[string]string{KAIRequiredAnnotation: "block", KAIPreferredAnnotation: "rack"},
			&PodSetTopologyRequest{Required: new("block"), Preferred: new("rack")},
		},
		{
			"segments are slices",
			map[string]string{KAISegmentRequiredAnnotation: "rack", KAISegmentSizeAnnotation: "4"},
			&PodSetTopologyRequest{PodSetSliceRequiredTopology: new("rack"), PodSetSliceSize: new(int32(4))},
		},
		{
			"segments that prefer a level are as near as they can be",
			map[string]string{KAISegmentPreferredAnnotation: "rack", KAISegmentSizeAnnotation: "4"},
			&PodSetTopologyRequest{Preferred: new("rack")},
		},
		{
			"what Kueue was asked for goes before",
			map[string]string{KAIRequiredAnnotation: "block", PodSetRequiredTopologyAnnotation: "rack"},
			&PodSetTopologyRequest{Required: new("rack")},
		},
	} {
		if diff := cmp.Diff(tc.want, TopologyRequestOf(tc.is)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.why, diff)
		}
	}
	for says, is := range map[string]map[string]string{
		"is no label of nodes":                  {KAIRequiredAnnotation: "one rack"},
		"1 at least":                            {KAISegmentSizeAnnotation: "0"},
		"need annotation kai.scheduler/segment": {KAISegmentRequiredAnnotation: "rack"},
	} {
		if key, fault := TopologyRequestFault(is); key == "" || !strings.Contains(fault, says) {
			t.Errorf("%v: %q at %q, want it to say %q", is, fault, key, says)
		}
	}
}
