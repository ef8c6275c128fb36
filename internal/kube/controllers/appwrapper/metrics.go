package appwrapper

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/mlbatch/mlbatch/internal/engine/lifecycle"
)

// counters count what happened to AppWrappers.
type counters struct {
	phases *prometheus.CounterVec
	resets *prometheus.CounterVec
}

func newCounters(registry prometheus.Registerer) (*counters, error) {
	if registry == nil {
		registry = crmetrics.Registry
	}
	c := &counters{
		phases: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "appwrapper_phase_total",
			Help: "Number of times AppWrappers entered each phase",
		}, []string{"namespace", "phase"}),
		resets: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "appwrapper_resets_total",
			Help: "Number of times AppWrappers were reset, by the reason of the reset",
		}, []string{"namespace", "reason"}),
	}
	for _, v := range []**prometheus.CounterVec{&c.phases, &c.resets} {
		err := registry.Register(*v)
		if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
			// Another manager of the same process counts in the same place.
			if existing, ok := already.ExistingCollector.(*prometheus.CounterVec); ok {
				*v, err = existing, nil
			}
		}
		if err != nil {
			return nil, fmt.Errorf("register AppWrapper metrics: %w", err)
		}
	}
	return c, nil
}

func (c *counters) phase(namespace string, p lifecycle.Phase) {
	c.phases.WithLabelValues(namespace, string(p)).Inc()
}

func (c *counters) reset(namespace, reason string) { c.resets.WithLabelValues(namespace, reason).Inc() }
