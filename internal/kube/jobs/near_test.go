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
			"what one set says of itself and what is said of it are two things as well", rack,
			[]*kueue.PodSetTopologyRequest{own.DeepCopy()},
			[]*kueue.PodSetTopologyRequest{own},
			[]string{"rack=all"},
		},
		{
			"who requires the same is with the others", rack,
			[]*kueue.PodSetTopologyRequest{nil, {Required: new("rack")}},
			[]*kueue.PodSetTopologyRequest{all, all},
			nil,
		},
		{
			"one set that requires the same is in its domain", rack,
			[]*kueue.PodSetTopologyRequest{{Required: new("rack"), PodSetGroupName: new("g")}},
			[]*kueue.PodSetTopologyRequest{{Required: new("rack"), PodSetGroupName: new("g")}},
			nil,
		},
		{
			"a leader and its workers that require the same are in that of all", rack,
			[]*kueue.PodSetTopologyRequest{nil, {Required: new("rack"), PodSetGroupName: new("g")}},
			[]*kueue.PodSetTopologyRequest{all, {Required: new("rack"), PodSetGroupName: new("g")}},
			[]string{"", "rack=all"},
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

// TestPodsAreWithinADomain: what an object says of all of its pods holds for the pods of all sets together, besides what
// they say of themselves; index is told where nothing was asked for yet.
func TestPodsAreWithinADomain(t *testing.T) {
	slices := &kueue.PodSetTopologyRequest{
		PodSetSliceRequiredTopology: new("host"),
		PodSetSliceSize:             new(int32(2)),
	}
	for why, tc := range map[string]struct {
		has, want []*kueue.PodSetTopologyRequest
	}{
		"one set": {
			[]*kueue.PodSetTopologyRequest{nil},
			[]*kueue.PodSetTopologyRequest{{Required: new("rack"), PodIndexLabel: new("index")}},
		},
		"sets are in one rack": {
			[]*kueue.PodSetTopologyRequest{nil, {Preferred: new("host")}},
			[]*kueue.PodSetTopologyRequest{
				{Required: new("rack"), PodIndexLabel: new("index"), PodSetGroupName: new("all")},
				{Required: new("rack"), Preferred: new("host"), PodSetGroupName: new("all")},
			},
		},
		"slices are in the rack": {
			[]*kueue.PodSetTopologyRequest{slices},
			[]*kueue.PodSetTopologyRequest{{
				Required: new("rack"), PodSetSliceRequiredTopology: new("host"), PodSetSliceSize: new(int32(2)),
			}},
		},
	} {
		sets := make([]kueue.PodSet, len(tc.has))
		for i := range tc.has {
			sets[i].TopologyRequest = tc.has[i]
		}
		jobs.Outer{Required: "rack", Group: "all", Index: "index"}.Around(sets)
		got := make([]*kueue.PodSetTopologyRequest, len(sets))
		for i := range sets {
			got[i] = sets[i].TopologyRequest
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", why, diff)
		}
	}
	if slices.Required != nil {
		t.Error("what was read has changed")
	}
}

// TestAnnotationsThatContradictADomain: pods that say that they may be anywhere, or are in too many groups already, are
// told by which annotation; all else goes with it.
func TestAnnotationsThatContradictADomain(t *testing.T) {
	const groups = kueue.TopologyGroupsAnnotation
	for why, tc := range map[string]struct {
		notes map[string]string
		want  string
	}{
		"nothing is said":     {nil, ""},
		"the same":            {map[string]string{kueue.PodSetRequiredTopologyAnnotation: "rack"}, ""},
		"nearer if it can be": {map[string]string{kueue.PodSetPreferredTopologyAnnotation: "host"}, ""},
		"another level":       {map[string]string{kueue.PodSetRequiredTopologyAnnotation: "host"}, ""},
		"three groups":        {map[string]string{groups: "zone=a,block=b,row=c"}, ""},
		"no fifth group":      {map[string]string{groups: "zone=a,block=b,row=c,host=d"}, groups},
		"it may be near":      {map[string]string{kueue.PodSetUnconstrainedTopologyAnnotation: "false"}, ""},
		"no matter where": {
			map[string]string{kueue.PodSetUnconstrainedTopologyAnnotation: "true"}, kueue.PodSetUnconstrainedTopologyAnnotation,
		},
	} {
		if got := (jobs.Outer{Required: "rack", Group: "all"}).Against(tc.notes); got != tc.want {
			t.Errorf("%s: %q", why, got)
		}
		if got := (jobs.Outer{Preferred: "rack"}).Against(tc.notes); got != "" {
			t.Errorf("%s: %q contradicts a wish", why, got)
		}
	}
}
