package jobs_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// TestAJobIsNearAsAWhole: what a job's own annotations require holds for the pods of all sets together, in one
// domain, and what pods say for themselves stays.
func TestAJobIsNearAsAWhole(t *testing.T) {
	rack := map[string]string{kueue.KAIRequiredAnnotation: "rack"}
	slices := &kueue.PodSetTopologyRequest{
		PodSetSliceRequiredTopology: new("host"),
		PodSetSliceSize:             new(int32(2)),
	}
	own := &kueue.PodSetTopologyRequest{Required: new("block")}
	all := &kueue.PodSetTopologyRequest{Required: new("rack"), PodSetGroupName: new("all")}
	for _, tc := range []struct {
		why       string
		is        map[string]string
		has, want []*kueue.PodSetTopologyRequest
	}{
		{"it says nothing", nil, []*kueue.PodSetTopologyRequest{nil}, []*kueue.PodSetTopologyRequest{nil}},
		{
			"one set is a group of its own", rack,
			[]*kueue.PodSetTopologyRequest{nil},
			[]*kueue.PodSetTopologyRequest{{Required: new("rack")}},
		},
		{
			"two sets are in one rack", rack,
			[]*kueue.PodSetTopologyRequest{nil, nil},
			[]*kueue.PodSetTopologyRequest{all, all},
		},
		{
			"who says more of itself keeps it", rack,
			[]*kueue.PodSetTopologyRequest{nil, own.DeepCopy()},
			[]*kueue.PodSetTopologyRequest{all, own},
		},
		{
			"slices are in the rack", rack,
			[]*kueue.PodSetTopologyRequest{slices.DeepCopy()},
			[]*kueue.PodSetTopologyRequest{{
				Required: new("rack"), PodSetSliceRequiredTopology: new("host"), PodSetSliceSize: new(int32(2)),
			}},
		},
	} {
		sets := make([]kueue.PodSet, len(tc.has))
		for i := range tc.has {
			sets[i].TopologyRequest = tc.has[i]
		}
		jobs.NearAsJobSays(tc.is, sets)
		got := make([]*kueue.PodSetTopologyRequest, len(sets))
		for i := range sets {
			got[i] = sets[i].TopologyRequest
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.why, diff)
		}
	}
}
