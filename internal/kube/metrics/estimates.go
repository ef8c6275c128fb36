package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mlbatch/mlbatch/internal/engine/forecast"
)

// estimates shows how right estimates of starts were.
type estimates struct {
	tally atomic.Pointer[func() forecast.Tally]
	total *prometheus.Desc
}

func newEstimates(b *builder) *estimates {
	out := &estimates{total: prometheus.NewDesc(
		prefix+"start_estimates_total",
		"Estimates of when a workload starts, once it was known whether it had started by then (result right) or not (late).",
		[]string{"quantile", "result"},
		nil,
	)}
	b.register("start_estimates_total", out)
	return out
}

// SetEstimates says how right estimates were since the process started.
func (m *Metrics) SetEstimates(tally func() forecast.Tally) { m.estimates.tally.Store(&tally) }

// Describe implements prometheus.Collector.
func (e *estimates) Describe(ch chan<- *prometheus.Desc) { ch <- e.total }

// Collect implements prometheus.Collector.
func (e *estimates) Collect(ch chan<- prometheus.Metric) {
	tally := e.tally.Load()
	if tally == nil {
		return
	}
	now := (*tally)()
	for i, quantile := range []string{"0.5", "0.9"} {
		ch <- prometheus.MustNewConstMetric(e.total, prometheus.CounterValue, float64(now.Right[i]), quantile, "right")
		ch <- prometheus.MustNewConstMetric(e.total, prometheus.CounterValue, float64(now.Wrong[i]), quantile, "late")
	}
}
