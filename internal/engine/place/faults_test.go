package place

import (
	"maps"
	"testing"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Of places that are otherwise as good that on the nodes with the fewest faults is taken, and nothing else gives way to it.
func TestNodesWithFewerFaultsComeFirst(t *testing.T) {
	rack := core.TopologyRequest{Required: "rack"}
	for name, c := range map[string]struct {
		why   string
		nodes string
		is    core.TopologyRequest
		gpus  core.Amount
		pods  int32
		want  string
	}{
		"alone":              {"the first has failed, the second is as free", "//a~1 //b", core.TopologyRequest{}, 8, 1, "b*1"},
		"the fewest":         {"", "//a~3 //b~1 //c~2", core.TopologyRequest{}, 8, 2, "b*1 c*1"},
		"no others":          {"faults keep nothing from starting", "//a~3 //b~3", core.TopologyRequest{}, 8, 2, "a*1 b*1"},
		"a node in use":      {"a whole node stays whole", "//a=2~3 //b", core.TopologyRequest{}, 2, 1, "a*1"},
		"a warned one":       {"what is wrong now counts more than what was", "//a~3 //b!", core.TopologyRequest{}, 8, 1, "a*1"},
		"in a rack":          {"", "x/r/a~1 x/r/b x/r/c", rack, 8, 2, "b*1 c*1"},
		"the better rack":    {"both are as free", "x/r1/a~1 x/r1/b x/r2/c x/r2/d", rack, 8, 2, "c*1 d*1"},
		"of two with faults": {"", "x/r1/a~1 x/r1/b~1 x/r2/c x/r2/d~1", rack, 8, 2, "c*1 d*1"},
		"the rack that just does": {
			"the other stays whole", "x/r1/a~3 x/r1/b~3 x/r2/c x/r2/d x/r2/e", rack, 8, 2, "a*1 b*1",
		},
		"a block in use": {
			"the other stays whole, though it is better", "x/r1/a~3 x/r2/b=4 y/r3/c y/r4/d", rack, 8, 1, "a*1",
		},
		"one pod on a node in use":        {"as little is left", "x/r1/a=4~1 x/r2/b=4", rack, 2, 1, "b*1"},
		"one pod, the first rack as good": {"", "x/r1/a=4 x/r2/b=4~1", rack, 2, 1, "a*1"},
		"fewer domains": {
			"one rack is better than two", "x/r1/a~3 x/r1/b~3 x/r2/c=4 x/r3/d=4",
			core.TopologyRequest{Preferred: "rack"},
			4, 4, "a*2 b*2",
		},
	} {
		s := inRacks(t, c.nodes)
		levels := blocks
		if c.is.Empty() {
			levels = core.Topology{}
		}
		set := Set{Class: s.Class(gpus(c.gpus), core.Constraints{Topology: c.is}, levels), Count: c.pods}
		spots, short, ok := s.Place(Request{View: Free, Sets: []Set{set}})
		if !ok {
			t.Fatalf("%s: it has no place: %+v", name, short)
		}
		if got := spotsText(spots[0]); got != c.want {
			t.Errorf("%s: placed on %s, want %s: %s", name, got, c.want, c.why)
		}
		if err := s.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Two sets of a group heed faults, too: the leader and its workers.
func TestGroupsHeedFaults(t *testing.T) {
	s := inRacks(t, "x/r1/a~1 x/r1/b x/r2/c x/r2/d")
	is := core.Constraints{Topology: core.TopologyRequest{Required: "rack"}}
	sets := []Set{
		{Class: s.Class(gpus(4), is, blocks), Count: 1, Group: "g"},
		{Index: 1, Class: s.Class(gpus(8), is, blocks), Count: 1, Group: "g"},
	}
	spots, _, ok := s.Place(Request{View: Free, Sets: sets})
	if text := spotsText(spots[0]) + " " + spotsText(spots[1]); !ok || text != "c*1 d*1" && text != "d*1 c*1" {
		t.Errorf("placed on %s, want c and d", text)
	}
}

// Nodes whose faults change are sought in another order, and what is held on them stays.
func TestFaultsChange(t *testing.T) {
	s := inRacks(t, "/r/a /r/b")
	set := Set{Class: s.Class(gpus(8), core.Constraints{}, core.Topology{}), Count: 1}
	first := func() string {
		spots, _, _ := s.Place(Request{View: Free, Sets: []Set{set}})
		return spotsText(spots[0])
	}
	tell := func(name string, faults int32) {
		n := *s.Get(name).Spec()
		n.Faults = faults
		if better, lost := s.Set(n); better || lost {
			t.Errorf(
				"%s has %d faults: better %t, lost %t, want neither: nothing that waits could start",
				name,
				faults,
				better,
				lost,
			)
		}
	}
	for _, c := range []struct {
		node   string
		faults int32
		want   string
	}{{"a", 1, "b*1"}, {"b", 2, "a*1"}, {"b", 0, "b*1"}, {"a", 0, "a*1"}} {
		tell(c.node, c.faults)
		if got := first(); got != c.want {
			t.Errorf("%s has %d faults, and pods go to %s, want %s", c.node, c.faults, got, c.want)
		}
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	}
}

// A search that takes too long with what faults nodes have is made without: a gang is as near as it would be.
func TestFaultsCostNoNearness(t *testing.T) {
	place := func(one, two string, merges int) map[string]int32 {
		s := inRacks(
			t,
			"x/r1/a=4 x/r1/b"+one+" x/r1/c"+two+" x/r2/d=4 x/r2/e"+two+" x/r2/f"+one+" x/r3/g x/r3/h"+one,
		)
		s.merges = merges
		set := Set{
			Class: s.Class(
				gpus(4),
				core.Constraints{Topology: core.TopologyRequest{Required: "block"}},
				blocks,
			),
			Count: 7,
		}
		spots, _, ok := s.Place(Request{View: Free, Sets: []Set{set}})
		if !ok {
			t.Fatal("it has no place")
		}
		out := map[string]int32{}
		for _, sp := range spots[0] {
			out[sp.Node.Spec().Labels["rack"]] += sp.Count
		}
		return out
	}
	best := place("", "", maxMerges)
	least := 0
	for !maps.Equal(place("", "", least), best) { // without faults so many sums do
		least++
	}
	if got := place("~1", "~2", least); !maps.Equal(got, best) {
		t.Errorf("with %d sums it has %v pods by rack, want %v", least, got, best)
	}
}

// A search that will be made anew without faults ends as soon as that is known.
func TestNoSearchInVain(t *testing.T) {
	for name, is := range map[string]core.TopologyRequest{
		"in a block": {Required: "block"}, "anywhere": {Preferred: "block"},
	} {
		for _, faults := range []bool{false, true} {
			text := "x/r1/a=4 x/r1/b x/r2/c=4 x/r2/d y/r3/e=4 y/r3/f y/r4/g=4 y/r4/h"
			if faults {
				text += "~1"
			}
			s := inRacks(t, text)
			s.merges = 0
			set := Set{Class: s.Class(gpus(4), core.Constraints{Topology: is}, blocks), Count: 5}
			f := &finder{
				s: s, ix: s.index(set.Class, Free), class: set.Class, near: set.Class.near, view: Free,
			}
			if _, ok := f.search(set, -1); ok == faults || !f.tired {
				t.Errorf("%s, with faults %t: found %t, tired %t", name, faults, ok, f.tired)
			}
			if _, _, ok := s.Place(Request{View: Free, Sets: []Set{set}}); !ok {
				t.Errorf("%s, with faults %t: it has no place", name, faults)
			}
		}
	}
}
