package core

import (
	"slices"
	"testing"
)

// Groups of pod sets go from wide to narrow, and what a set requires itself is within them: by a topology in which it is
// the other way round both levels are named.
func TestLevelsThatNestTheOtherWayRound(t *testing.T) {
	levels := Topology{Levels: []string{"zone", "block", "rack"}}
	for why, tc := range map[string]struct {
		topology     Topology
		asks         TopologyRequest
		outer, inner string
	}{
		"nothing":                         {levels, TopologyRequest{}, "", ""},
		"a rack in a block":               {levels, TopologyRequest{Parents: []string{"block"}, Required: "rack"}, "", ""},
		"a rack in its own":               {levels, TopologyRequest{Parents: []string{"rack"}, Required: "rack"}, "", ""},
		"groups in groups":                {levels, TopologyRequest{Parents: []string{"zone", "block"}}, "", ""},
		"a block in a rack":               {levels, TopologyRequest{Parents: []string{"rack"}, Required: "block"}, "rack", "block"},
		"groups the other way":            {levels, TopologyRequest{Parents: []string{"block", "zone"}}, "block", "zone"},
		"a zone in a block in a zone":     {levels, TopologyRequest{Parents: []string{"zone", "block"}, Required: "zone"}, "block", "zone"},
		"nodes are the narrowest":         {levels, TopologyRequest{Parents: []string{"rack"}, Required: HostnameLabel}, "", ""},
		"nothing is within a node":        {levels, TopologyRequest{Parents: []string{HostnameLabel}, Required: "rack"}, HostnameLabel, "rack"},
		"a wish is none":                  {levels, TopologyRequest{Required: "rack", Preferred: "block"}, "", ""},
		"nothing says how they nest":      {Topology{}, TopologyRequest{Parents: []string{"rack"}, Required: "block"}, "", ""},
		"nor does it of nodes in nothing": {Topology{}, TopologyRequest{Parents: []string{HostnameLabel}, Required: "rack"}, "", ""},
	} {
		parents := append([]string(nil), tc.asks.Parents...)
		outer, inner := tc.topology.Reversed(tc.asks)
		if outer != tc.outer || inner != tc.inner {
			t.Errorf("%s: %q around %q", why, outer, inner)
		}
		for i := range parents {
			if tc.asks.Parents[i] != parents[i] {
				t.Errorf("%s: what was read has changed", why)
			}
		}
	}
}

// Pod sets that are together are loosened together, and named: one domain holds all of them.
func TestLoosenedTogether(t *testing.T) {
	require := func(name, group, level string) PodSet {
		return PodSet{Name: name, Group: group, Topology: TopologyRequest{Required: level}}
	}
	sets := []PodSet{
		require("leader", "g", "rack"), require("workers", "g", "rack"), require("block", "g", "block"),
		require("other", "h", "rack"), require("alone", "", "rack"), require("too", "", "rack"),
	}
	for name, want := range map[string][]string{
		"leader": {"workers"}, "workers": {"leader"}, "block": nil, "other": nil, "alone": nil, "none": nil,
	} {
		with := LoosenedWith(sets, name)
		if !slices.Equal(with, want) {
			t.Errorf("%s: with %v, want %v", name, with, want)
		}
		for _, p := range Loosen(sets, name, Advice{Kind: RequireLevel, Level: "zone"}) {
			if is := p.Topology.Required == "zone"; is != (p.Name == name || slices.Contains(want, p.Name)) {
				t.Errorf("%s: %s is loosened: %v", name, p.Name, is)
			}
		}
	}
}
