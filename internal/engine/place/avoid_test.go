package place

import (
	"testing"

	"github.com/mlbatch/mlbatch/internal/core"
)

// TestAvoidedNodesAreTakenLast: pods go elsewhere if all of them have a place there, and where they failed if not: nothing
// waits for it, and nothing is worse than if nothing was avoided.
func TestAvoidedNodesAreTakenLast(t *testing.T) {
	for name, c := range map[string]struct {
		why    string
		avoid  []string
		level  string // of which one domain holds all
		count  int32
		want   string
		nodes  []core.Node
		refuse []core.NodeRefusal
	}{
		"another node": {
			why: "b has room, too", avoid: []string{"a"}, count: 1, want: "b*1",
			nodes: []core.Node{machine("a", 8, core.NodeReady), machine("b", 8, core.NodeReady)},
		},
		"no other node": {
			why: "a job must not make itself unplaceable", avoid: []string{"a", "b"}, count: 2, want: "a*1 b*1",
			nodes: []core.Node{machine("a", 8, core.NodeReady), machine("b", 8, core.NodeReady)},
		},
		"not room for all": {
			why: "a gang that needs both has both", avoid: []string{"a"}, count: 2, want: "a*1 b*1",
			nodes: []core.Node{machine("a", 8, core.NodeReady), machine("b", 8, core.NodeReady)},
		},
		"one domain": {
			why: "the other rack is nobody's fault", avoid: []string{"a"}, level: "rack", count: 2, want: "c*1 d*1",
			nodes: []core.Node{in("r1", machine("a", 8, core.NodeReady)), in("r1", machine("b", 8, core.NodeReady)), in("r2", machine("c", 8, core.NodeReady)), in("r2", machine("d", 8, core.NodeReady))},
		},
		"a node that refuses": {
			why: "what refuses stays refused", avoid: []string{"a"}, count: 1, want: "a*1", refuse: []core.NodeRefusal{{Node: "b", Why: "no"}},
			nodes: []core.Node{machine("a", 8, core.NodeReady), machine("b", 8, core.NodeReady)},
		},
		"a node that is gone": {
			why: "names of nodes that are gone mean nothing", avoid: []string{"z"}, count: 1, want: "a*1",
			nodes: []core.Node{machine("a", 8, core.NodeReady), machine("b", 8, core.NodeReady)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(core.GPU)
			for _, n := range c.nodes {
				s.Set(n)
			}
			topology := core.Topology{}
			if c.level != "" {
				topology.Levels = []string{c.level, core.HostnameLabel}
			}
			class := s.Class(gpus(8), core.Constraints{
				Filter:   core.Filter{Avoided: c.avoid, Refused: c.refuse},
				Topology: core.TopologyRequest{Required: c.level},
			}, topology)
			r := Request{Sets: []Set{{Class: class, Count: c.count}}}
			spots, short, ok := s.Place(r)
			if !ok {
				t.Fatalf("%s: no place: %+v", c.why, short)
			}
			if got := spotsText(spots[0]); got != c.want {
				t.Errorf("%s: %s, want %s", c.why, got, c.want)
			}
			if err := s.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

func in(rack string, n core.Node) core.Node {
	n.Labels["rack"] = rack
	return n
}
