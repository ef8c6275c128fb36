package jobs_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs"
)

// TestAJobIsNearAsAWhole: what a job's own annotations require holds for the pods of all sets together, in one
// domain, around the narrower ones that pods ask for themselves.
func TestAJobIsNearAsAWhole(t *testing.T) {
	rack := map[string]string{kueue.KAIRequiredAnnotation: "rack"}
	slices := &kueue.PodSetTopologyRequest{
		PodSetSliceRequiredTopology: new("host"),
		PodSetSliceSize:             new(int32(2)),
	}
	grouped := &kueue.PodSetTopologyRequest{Required: new("host"), PodSetGroupName: new("g")}
	own := &kueue.PodSetTopologyRequest{Required: new("block")}
	all := &kueue.PodSetTopologyRequest{Required: new("rack"), PodSetGroupName: new("all")}
	for _, tc := range []struct {
		why       string
		is        map[string]string
		has, want []*kueue.PodSetTopologyRequest
		groups    []string
	}{
		{"it says nothing", nil, []*kueue.PodSetTopologyRequest{nil}, []*kueue.PodSetTopologyRequest{nil}, nil},
		{
			"one set is a group of its own", rack,
			[]*kueue.PodSetTopologyRequest{nil},
			[]*kueue.PodSetTopologyRequest{{Required: new("rack")}},
			nil,
		},
		{
			"two sets are in one rack", rack,
			[]*kueue.PodSetTopologyRequest{nil, nil},
			[]*kueue.PodSetTopologyRequest{all, all},
			nil,
		},
		{
			"who says more of itself keeps it", rack,
			[]*kueue.PodSetTopologyRequest{nil, own.DeepCopy()},
			[]*kueue.PodSetTopologyRequest{all, own},
			[]string{"", "rack=all"},
		},
		{
			"a leader and its workers, in one domain of their own, are within that of the job", rack,
			[]*kueue.PodSetTopologyRequest{grouped.DeepCopy(), grouped.DeepCopy(), nil},
			[]*kueue.PodSetTopologyRequest{grouped, grouped, all},
			[]string{"rack=all", "rack=all", ""},
		},
		{
			"a wish of the pods and a rule of the job are two things", rack,
			[]*kueue.PodSetTopologyRequest{{Preferred: new("host")}},
			[]*kueue.PodSetTopologyRequest{{Required: new("rack"), Preferred: new("host")}},
			nil,
		},
		{
			"one set is in no other domain than its own", rack,
			[]*kueue.PodSetTopologyRequest{own.DeepCopy()},
			[]*kueue.PodSetTopologyRequest{own},
			nil,
		},
		{
			"slices are in the rack", rack,
			[]*kueue.PodSetTopologyRequest{slices.DeepCopy()},
			[]*kueue.PodSetTopologyRequest{{
				Required: new("rack"), PodSetSliceRequiredTopology: new("host"), PodSetSliceSize: new(int32(2)),
			}},
			nil,
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
			if in := sets[i].Template.Annotations[kueue.TopologyGroupsAnnotation]; len(tc.groups) > 0 &&
				in != tc.groups[i] ||
				len(tc.groups) == 0 && in != "" {
				t.Errorf("%s: set %d is in the groups %q", tc.why, i, in)
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.why, diff)
		}
	}
}
