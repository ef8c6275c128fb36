package v1beta2

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGroupsOfPodSetsAreReadWidestFirst(t *testing.T) {
	for text, want := range map[string][]TopologyGroup{
		"":                             nil,
		"block=all":                    {{"block", "all"}},
		"block=all, rack=stage-1":      {{"block", "all"}, {"rack", "stage-1"}},
		"rack":                         nil,
		"=all":                         nil,
		"one rack=all":                 nil,
		"block=all,":                   nil,
		"a=1,b=2,c=3,d=4,e=5":          nil,
		"x=" + strings.Repeat("n", 64): nil,
	} {
		is := map[string]string{TopologyGroupsAnnotation: text}
		if diff := cmp.Diff(want, TopologyGroupsOf(is)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
		if key, fault := TopologyRequestFault(is); (key != "") != (want == nil && text != "") {
			t.Errorf("%q: %q at %q", text, fault, key)
		}
	}
}

func TestAGroupIsAroundThoseThatWereNamedBefore(t *testing.T) {
	was := map[string]string{TopologyGroupsAnnotation: "rack=stage-1", "x": "y"}
	is := InTopologyGroup(was, TopologyGroup{"block", "all"})
	want := map[string]string{TopologyGroupsAnnotation: "block=all,rack=stage-1", "x": "y"}
	if diff := cmp.Diff(want, is); diff != "" {
		t.Error(diff)
	}
	if was[TopologyGroupsAnnotation] != "rack=stage-1" {
		t.Error("the annotations of the job were changed")
	}
}
