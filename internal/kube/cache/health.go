package cache

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// healths are what is remembered of nodes, and what else is known of those that are there: one may
// change without the other.
type healths struct {
	remembered map[string]nodehealth.Health
	signals    map[string]signals
}

type signals struct {
	uid string
	nodehealth.Signals
}

func newHealths() healths {
	return healths{map[string]nodehealth.Health{}, map[string]signals{}}
}

// node translates a node with what is remembered of it.
func (h *healths) node(n *corev1.Node) core.Node {
	h.signals[n.Name] = signals{string(n.UID), convert.NodeSignals(n)}
	return convert.NodeWith(n, h.remembered[n.Name])
}

// state is that of a node that is there, why, and which faults it has.
func (h *healths) state(name string) (state core.NodeState, why string, faults int32) {
	s := h.signals[name]
	if is := h.remembered[name]; is.UID == s.uid {
		s.Health = is
	}
	state, why = nodehealth.Classify(s.Signals)
	return state, why, convert.Faults(s.Health)
}

// healths takes in what is remembered of all nodes, and has those told of which that is something else than before.
func (b *batch) healths(c ObjectUpdate) {
	m, _ := c.Object.(*corev1.ConfigMap)
	was := b.world.health.remembered
	b.world.health.remembered, _ = convert.Healths(m)
	for name, n := range b.world.nodes {
		if was[name].Equal(b.world.health.remembered[name]) {
			continue
		}
		state, why, faults := b.world.health.state(name)
		if state != n.State || why != n.Why || faults != n.Faults {
			n.State, n.Why, n.Faults = state, why, faults
			b.world.nodes[name] = n
			b.nodes[name] = true
		}
	}
}
