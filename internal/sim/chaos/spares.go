package chaos

import (
	"math/rand/v2"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/sim"
)

// SparesWorld is the world of a seed in which, in addition, nodes are kept for recovery; false if it has no pods, without
// which nobody knows which nodes are free. What it draws for that it draws apart: World of the same seed stays as it is.
func SparesWorld(seed uint64) (sim.World, bool) {
	w := World(seed)
	if w.Lifecycle == nil || !w.Lifecycle.Pods {
		return w, false
	}
	r := rand.New(rand.NewPCG(seed, 31)) //nolint:gosec // not for secrets
	w.Spares = map[string]nodehealth.Spares{}
	keeps := func(ev core.Event) core.Event {
		f, is := ev.(core.FlavorSet)
		if !is {
			return ev
		}
		if _, drawn := w.Spares[f.Flavor.Name]; !drawn {
			w.Spares[f.Flavor.Name] = nodehealth.Spares{Nodes: 1 + r.IntN(2)}
		}
		f.Flavor.KeepsSpares = true
		return f
	}
	for i, ev := range w.Objects {
		w.Objects[i] = keeps(ev)
	}
	for i := range w.Script {
		if ev := w.Script[i].Object; ev != nil {
			w.Script[i].Object = keeps(ev)
		}
	}
	return w, true
}
