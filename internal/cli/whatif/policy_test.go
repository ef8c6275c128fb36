package whatif

import (
	"slices"
	"testing"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/sim"
)

// TestFlavorsOfAPolicyHaveTheLevelsOfTheirTopology: a ResourceFlavor names its Topology; the levels are those of the
// policy's, or the recorded ones. Without, jobs that ask for a rack would be placed by other rules than they were.
func TestFlavorsOfAPolicyHaveTheLevelsOfTheirTopology(t *testing.T) {
	const flavor = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: gpus}\n" +
		"spec: {nodeLabels: {a: b}, topologyName: dc}\n"
	const topology = "---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: Topology\nmetadata: {name: dc}\n" +
		"spec: {levels: [{nodeLabel: hall}]}\n"
	recorded := []string{"block", "rack"}
	for _, tc := range []struct {
		why, text string
		want      []string
	}{
		{"as recorded", flavor, recorded},
		{"as the policy says", flavor + topology, []string{"hall"}},
		{"of recorded flavors, too", topology, []string{"hall"}},
	} {
		p, err := ReadPolicy("p.yaml", []byte(tc.text), nil)
		if err != nil {
			t.Fatal(err)
		}
		w := &sim.World{Objects: []core.Event{core.FlavorSet{Flavor: core.Flavor{
			Name: "gpus", Topology: core.Topology{Name: "dc", Levels: recorded},
		}}}}
		p.lay(w)
		if f, ok := w.Objects[0].(core.FlavorSet); !ok || !slices.Equal(f.Flavor.Topology.Levels, tc.want) {
			t.Errorf("%s: %+v, want levels %v", tc.why, w.Objects[0], tc.want)
		}
	}
	if _, err := ReadPolicy("p.yaml", []byte(topology+topology), nil); err == nil {
		t.Error("a Topology that is listed twice is no error")
	}
}
