package sakkara_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/kube/jobs/sakkara"
)

const (
	required  = "kueue.x-k8s.io/podset-required-topology"
	preferred = "kueue.x-k8s.io/podset-preferred-topology"
	layers    = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
	scattered = "mlbatch.dev/podset-spread-topology"
	atMost    = "mlbatch.dev/podset-max-per-domain"

	rack = "sakkara.topology.rack"
	node = "kubernetes.io/hostname"
)

func group(t interface{ Fatal(...any) }, size, constraints string) sakkara.Group {
	g, err := sakkara.ReadGroup(map[string]string{"name": "g", "size": size, "constraints": constraints})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Constraints are the annotations that pods of all kinds have.
func TestNear(t *testing.T) {
	for name, tc := range map[string]struct {
		why, size, constraints string
		want                   map[string]string
	}{
		"nothing":         {"a group may ask for nothing", "8", `{}`, map[string]string{}},
		"pack":            {"pack is a wish by default", "8", `{"rack": {}}`, map[string]string{preferred: rack}},
		"pack hard":       {"one rack has all", "8", `{"rack": {"type": "pack", "hard": true}}`, map[string]string{required: rack}},
		"pack twice":      {"the narrower is in the wider", "8", `{"rack": {"hard": true}, "node": {"hard": true}}`, map[string]string{required: node}},
		"hard and soft":   {"in a rack, and on few nodes", "8", `{"rack": {"hard": true}, "node": {}}`, map[string]string{required: rack, preferred: node}},
		"another label":   {"a level may be called as its label", "8", `{"cloud.provider.com/topology-rack": {}}`, map[string]string{preferred: "cloud.provider.com/topology-rack"}},
		"spread":          {"as many nodes as there are", "8", `{"rack": {}, "node": {"type": "spread"}}`, map[string]string{preferred: rack, scattered: node}},
		"spread hard":     {"one each", "8", `{"node": {"type": "spread", "hard": true}}`, map[string]string{atMost: node + "=1"}},
		"story A":         {"two racks have four pods each, packed", "8", `{"rack": {"type": "spread", "partitions": 2}, "node": {"type": "pack"}}`, map[string]string{preferred: node, atMost: rack + "=4", layers: slices(rack, 4)}},
		"packed parts":    {"equal parts are parts", "8", `{"rack": {"partitions": 2}}`, map[string]string{atMost: rack + "=4", layers: slices(rack, 4)}},
		"one partition":   {"that is one rack", "8", `{"rack": {"type": "spread", "partitions": 1}}`, map[string]string{required: rack, layers: slices(rack, 8)}},
		"story B":         {"twos are from two to four", "6", `{"rack": {"hard": true}, "node": {"min": 2, "max": 4}}`, map[string]string{required: rack, layers: slices(rack, 2, node, 2), atMost: node + "=4"}},
		"exact range":     {"four are four", "12", `{"rack": {"min": 4, "max": 4}}`, map[string]string{layers: slices(rack, 4), atMost: rack + "=4"}},
		"tight range":     {"twelve are three fours, not two fives and two", "12", `{"rack": {"min": 4, "max": 5}}`, map[string]string{layers: slices(rack, 4), atMost: rack + "=5"}},
		"only a maximum":  {"half a range is meant as it is written", "8", `{"rack": {"type": "spread", "max": 4}}`, map[string]string{scattered: rack, atMost: rack + "=4"}},
		"factor":          {"nodes have pairs, and so have their racks", "8", `{"rack": {}, "node": {"factor": 2}}`, map[string]string{preferred: node, layers: slices(rack, 2, node, 2)}},
		"factor in range": {"fours are the least that are pairs", "12", `{"node": {"type": "spread", "factor": 2, "min": 3, "max": 6}}`, map[string]string{scattered: node, layers: slices(node, 4), atMost: node + "=6"}},
		"factors":         {"a rack of threes and nodes of pairs has sixes", "12", `{"rack": {"type": "spread", "factor": 3}, "node": {"type": "spread", "factor": 2}}`, map[string]string{scattered: rack, layers: slices(rack, 6, node, 2)}},
		"nesting":         {"levels nest as they are listed", "8", `{"zone": {}, "rack": {"type": "spread"}}`, map[string]string{preferred: "sakkara.topology.zone", scattered: rack, layers: slices("sakkara.topology.zone", 1, rack, 1)}},
	} {
		g := group(t, tc.size, tc.constraints)
		got, err := g.Near(nil)
		if d := cmp.Diff(tc.want, got); d != "" || err != nil {
			t.Errorf("%s: %s (-want +got):\n%s%v", name, tc.why, d, err)
		}
		if key, fault := kueue.TopologyRequestFault(got); fault != "" {
			t.Errorf("%s: annotation %s is at fault: %s", name, key, fault)
		}
	}
}

func slices(of ...any) string {
	var out []kueue.PodsetSliceRequiredTopologyConstraint
	for i := 0; i < len(of); i += 2 {
		label, _ := of[i].(string)
		size, _ := of[i+1].(int)
		out = append(out, kueue.PodsetSliceRequiredTopologyConstraint{Topology: label, Size: int32(size)})
	}
	text, err := json.Marshal(out)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// What has no place by the constraints, or none that can be said, is refused with the key.
func TestNearFaults(t *testing.T) {
	for name, tc := range map[string]struct{ why, size, constraints, want string }{
		"parts":            {"seven are no two equal parts", "7", `{"rack": {"partitions": 2}}`, "constraints.rack.partitions: 7 pods cannot be cut into 2"},
		"factor":           {"seven are no pairs", "7", `{"node": {"factor": 2}}`, "constraints.node.factor: 7 pods are no multiple of 2"},
		"huge factor":      {"it is far above all pods", "7", `{"rack": {"factor": 2147483647}, "node": {"factor": 7}}`, "constraints.rack.factor: "},
		"range":            {"no four or five are eleven", "11", `{"rack": {"min": 4, "max": 5}}`, "constraints.rack.min: no number of pods from 4 to 5 divides the 11"},
		"range of pairs":   {"three are no pair", "6", `{"rack": {"min": 3, "max": 3}, "node": {"factor": 2}}`, "constraints.rack.min: no number of pods from 3 to 3 divides the 6 of the group and is a multiple of 2"},
		"parts of factors": {"a part has three pods", "6", `{"rack": {"partitions": 2}, "node": {"factor": 2}}`, "constraints.rack.partitions: each of 2 has 3 pods, which are no multiple of 2"},
		"pairs alone":      {"a node has one, and pairs", "8", `{"node": {"type": "spread", "hard": true, "factor": 2}}`, "constraints.node: domains would have 1 pods at most, and a multiple of 2"},
		"together apart":   {"one node is in one rack", "8", `{"rack": {"type": "spread", "hard": true}, "node": {"hard": true}}`, "constraints.node: all pods are in one node, but one rack has 1 of the 8 at most"},
		"no label":         {"no node can have such a label", "8", `{"rack no": {}}`, `constraints: "rack no" is no name of a level`},
		"no name":          {"a level has a name", "8", `{"": {}}`, "constraints: "},
		"many levels":      {"an API has three layers of slices", "8", `{"a": {"factor": 2}, "b": {"factor": 2}, "c": {"factor": 2}, "node": {"factor": 2}}`, "constraints.node: pods can be counted at 3 levels"},
		"many bounds":      {"and three levels are bounded", "8", `{"a": {"max": 4}, "b": {"max": 4}, "c": {"max": 4}, "node": {"max": 4}}`, "constraints.node: pods can be counted at 3 levels"},
	} {
		g := group(t, tc.size, tc.constraints)
		if got, err := g.Near(nil); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: %s: %v, %v", name, tc.why, got, err)
		}
	}
}

// Whatever numbers of pods the annotations let a domain have, the constraint lets it have, too, and it can have some.
func TestNearKeepsConstraints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int32Range(1, 24).Draw(t, "size")
		c := sakkara.Constraint{
			Level: "rack", Type: rapid.SampledFrom([]string{"", "pack", "spread"}).Draw(t, "type"),
			Hard: rapid.Bool().Draw(t, "hard"), Partitions: rapid.Int32Range(0, 4).Draw(t, "partitions"),
			Min: rapid.Int32Range(0, 6).Draw(t, "min"), Factor: rapid.Int32Range(0, 4).Draw(t, "factor"),
		}
		if rapid.Bool().Draw(t, "bounded") {
			c.Max = rapid.Int32Range(max(1, c.Min), 8).Draw(t, "max")
		}
		g := sakkara.Group{Name: "g", Size: n, Constraints: []sakkara.Constraint{c}}
		notes, err := g.Near(nil)
		if err != nil {
			return
		}
		unit, most := int32(1), n
		r := kueue.TopologyRequestOf(notes)
		if r != nil && len(r.PodsetSliceRequiredTopologyConstraints) > 0 {
			unit = r.PodsetSliceRequiredTopologyConstraints[0].Size
		}
		for _, m := range kueue.MaxPerDomainOf(notes) {
			most = m.Most
		}
		if notes[required] != "" {
			unit = n
		}
		if n%unit != 0 || unit > most {
			t.Fatalf("%+v of %d pods: no place has multiples of %d up to %d", c, n, unit, most)
		}
		for k := unit; k <= most; k += unit {
			switch {
			case c.Min > 0 && k < c.Min, c.Max > 0 && k > c.Max:
				t.Fatalf("%+v of %d pods: a domain has %d", c, n, k)
			case c.Factor > 1 && k%c.Factor != 0:
				t.Fatalf("%+v of %d pods: a domain has %d", c, n, k)
			case c.Partitions > 0 && k*c.Partitions != n:
				t.Fatalf("%+v of %d pods: a domain has %d, so that there are not so many", c, n, k)
			case c.Hard && c.Type == "spread" && k > 1:
				t.Fatalf("%+v of %d pods: a domain has %d", c, n, k)
			case c.Hard && c.Type != "spread" && c.Partitions == 0 && k != n:
				t.Fatalf("%+v of %d pods: a domain has %d", c, n, k)
			}
		}
	})
}

// A level is that of a Topology, if one alone is called so, and else the label that Sakkara itself falls back to.
func TestLevelsOfTopologies(t *testing.T) {
	for name, tc := range map[string]struct {
		why, constraints, want string
		known                  []string
	}{
		"last part":  {"racks are called so there", `{"rack": {}}`, "cloud.provider.com/topology-rack", []string{"a/block", "cloud.provider.com/topology-rack"}},
		"its own":    {"nobody means another", `{"rack": {}}`, rack, []string{"cloud.provider.com/topology-rack", rack}},
		"several":    {"nothing says which", `{"rack": {}}`, rack, []string{"a/rack", "b/rack"}},
		"the same":   {"two Topologies have it", `{"rack": {}}`, "a/rack", []string{"a/rack", "a/rack"}},
		"none":       {"it is no level of any", `{"rack": {}}`, rack, []string{"a/block"}},
		"node":       {"nodes are nodes", `{"node": {}}`, node, []string{"a/node"}},
		"as written": {"a label is one", `{"b/rack": {}}`, "b/rack", []string{"a/rack"}},
	} {
		g := group(t, "8", tc.constraints)
		got, err := g.Near(tc.known)
		if got[preferred] != tc.want || err != nil {
			t.Errorf("%s: %s: %v, %v", name, tc.why, got, err)
		}
	}
}

// Only constraints that count pods want them to be alike.
func TestAlike(t *testing.T) {
	for constraints, want := range map[string]string{
		`{"rack": {"hard": true}, "node": {"type": "spread"}}`: "",
		`{"rack": {"partitions": 2}}`:                          "constraints.rack.partitions",
		`{"rack": {}, "node": {"factor": 2}}`:                  "constraints.node.factor",
		`{"node": {"min": 1}}`:                                 "constraints.node.min",
		`{"node": {"max": 1}}`:                                 "constraints.node.max",
	} {
		if g := group(t, "8", constraints); g.Alike() != want {
			t.Errorf("%s: %q", constraints, g.Alike())
		}
	}
}
