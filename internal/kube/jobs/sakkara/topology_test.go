package sakkara_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mlbatch/mlbatch/internal/kube/jobs/sakkara"
)

// A tree is labels of nodes: the level of nodes is the label that they have anyway, unless it is called otherwise.
func TestReadTree(t *testing.T) {
	for name, tc := range map[string]struct {
		why  string
		data map[string]string
		want sakkara.Tree
	}{
		"racks": {"these are the levels if none are named", map[string]string{
			"tree": `{"r1": {"n1": {}, "n2": {}}, "r2": {"n3": {}}, "r3": {}}`, "resource-names": `["cpu"]`,
		}, sakkara.Tree{
			Name: "default-tree", Levels: []string{rack},
			Nodes: map[string]map[string]string{"n1": {rack: "r1"}, "n2": {rack: "r1"}, "n3": {rack: "r2"}},
		}},
		"three levels": {"names are of level-names, from the widest on", map[string]string{
			"name": "Tree", "level-names": `["zone", "cloud.provider.com/topology-rack", "server"]`, "tree": `{"z": {"r1": {"n1": {}}}}`,
		}, sakkara.Tree{
			Name: sakkara.GroupName("Tree"), Levels: []string{"sakkara.topology.zone", "cloud.provider.com/topology-rack"},
			Nodes: map[string]map[string]string{"n1": {
				"sakkara.topology.zone": "z", "cloud.provider.com/topology-rack": "r1", "sakkara.topology.server": "n1",
			}},
		}},
		"flat": {"there may be nodes alone", map[string]string{"level-names": `["node"]`, "tree": `{"n1": {}}`}, sakkara.Tree{
			Name: "default-tree", Nodes: map[string]map[string]string{"n1": {}},
		}},
	} {
		got, err := sakkara.ReadTree(tc.data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(&tc.want, got); d != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, tc.why, d)
		}
	}
}

// What is no tree is refused, and the answer says where.
func TestReadTreeFaults(t *testing.T) {
	for name, tc := range map[string]struct{ why, levels, tree, want string }{
		"no tree":    {"nothing says where nodes are", "", "", "tree: "},
		"levels":     {"they are a list", "rack", `{}`, "level-names: write a JSON list"},
		"none":       {"nodes are a level", "[]", `{}`, "level-names: name one level"},
		"level":      {"no node can have such a label", `["a b", "node"]`, `{}`, `level-names: "a b"`},
		"same level": {"nothing is in itself", `["rack", "rack"]`, `{}`, `level-names: "rack"`},
		"deep":       {"there is one level too many", "", `{"z": {"r1": {"n1": {}}}}`, "tree.z.r1: it is a node by level-names"},
		"a text":     {"domains are objects", "", `{"r1": "n1"}`, "tree.r1: it is an object"},
		"value":      {"no label has such a value", "", `{"r 1": {"n1": {}}}`, `tree.r 1: "r 1" cannot be`},
		"twice":      {"it is in one rack", "", `{"r1": {"n1": {}}, "r2": {"n1": {}}}`, "tree.r2.n1: node n1 is in the tree twice"},
	} {
		_, err := sakkara.ReadTree(map[string]string{"level-names": tc.levels, "tree": tc.tree})
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: %s: %v", name, tc.why, err)
		}
	}
}
