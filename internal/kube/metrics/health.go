package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// healths count nodes by how they are.
type healths struct {
	nodes, held *prometheus.GaugeVec
	lemons      *prometheus.GaugeVec
	overdue     *prometheus.GaugeVec
	into        *prometheus.CounterVec
	capacity    *prometheus.GaugeVec
}

func newHealths(b *builder) healths {
	return healths{
		nodes: b.gauge("nodes", "Nodes by the state that findings give them.", "state"),
		held: b.gauge(
			"nodes_held_in_service",
			"Nodes of a flavor that would be out of service if not too many were taken out within the hour.",
			"flavor",
		),
		lemons: b.gauge("nodes_lemons", "Nodes that failed again and again in the last weeks."),
		overdue: b.gauge(
			"nodes_deep_test_overdue",
			"Nodes of a flavor in service whose last deep test is longer ago than the configuration says, or that had none.",
			"flavor",
		),
		capacity: b.gauge(
			"flavor_capacity",
			"Capacity of a flavor: planned, present, healthy, promised, or short, which is promised and not healthy.",
			"flavor", "resource", "kind",
		),
		into: b.counter("node_health_transitions_total", "Changes of the state of nodes, by the new one.", "state"),
	}
}

// NodeHealth says how many nodes are in which state, how many are held in service by flavor, which states nodes came
// into, and how many are lemons.
func (m *Metrics) NodeHealth(
	states map[nodehealth.State]int,
	held map[string]int,
	into []nodehealth.State,
	lemons int,
) {
	m.health.lemons.WithLabelValues().Set(float64(lemons))
	for _, s := range nodehealth.States() {
		m.health.nodes.WithLabelValues(string(s)).Set(float64(states[s]))
		m.health.into.WithLabelValues(string(s)) // the growth of a series that begins at 1 is not known
	}
	m.health.held.Reset()
	for flavor, n := range held {
		m.health.held.WithLabelValues(flavor).Set(float64(n))
	}
	for _, s := range into {
		m.health.into.WithLabelValues(string(s)).Inc()
	}
}

// DeepTests says how many nodes were not tested for too long, by flavor.
func (m *Metrics) DeepTests(overdue map[string]int) {
	m.health.overdue.Reset()
	for flavor, n := range overdue {
		m.health.overdue.WithLabelValues(flavor).Set(float64(n))
	}
}

// Capacity says how the capacity of all flavors stands, by name.
func (m *Metrics) Capacity(flavors map[string][]nodehealth.Capacity) {
	m.health.capacity.Reset()
	for flavor, all := range flavors {
		for _, c := range all {
			short := core.Amount(0)
			if !c.ShortSince.IsZero() {
				short = c.Short()
			}
			for kind, a := range map[string]core.Amount{
				"planned": c.Planned, "present": c.Present, "healthy": c.Healthy, "promised": c.Promised, "short": short,
			} {
				q := convert.Quantity(c.Resource, a)
				m.health.capacity.WithLabelValues(flavor, c.Resource, kind).Set(q.AsApproximateFloat64())
			}
		}
	}
}
