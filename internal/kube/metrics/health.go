package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
)

// healths count nodes by how they are.
type healths struct {
	nodes, held *prometheus.GaugeVec
	into        *prometheus.CounterVec
}

func newHealths(b *builder) healths {
	return healths{
		nodes: b.gauge("nodes", "Nodes by the state that findings give them.", "state"),
		held: b.gauge(
			"nodes_held_in_service",
			"Nodes of a flavor that would be out of service if not too many were taken out within the hour.",
			"flavor",
		),
		into: b.counter("node_health_transitions_total", "Changes of the state of nodes, by the new one.", "state"),
	}
}

// NodeHealth says how many nodes are in which state, how many are held in service by flavor, and which states nodes came
// into.
func (m *Metrics) NodeHealth(states map[nodehealth.State]int, held map[string]int, into []nodehealth.State) {
	for _, s := range nodehealth.States() {
		m.health.nodes.WithLabelValues(string(s)).Set(float64(states[s]))
	}
	m.health.held.Reset()
	for flavor, n := range held {
		m.health.held.WithLabelValues(flavor).Set(float64(n))
	}
	for _, s := range into {
		m.health.into.WithLabelValues(string(s)).Inc()
	}
}
