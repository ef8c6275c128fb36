package metrics

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/types"
)

// dressed adds to every series of a collector what it does not count by: the role
// of the process, and labels of the object that the series is about. Both may
// change, so they are looked up when the series are asked for; nothing is left
// of how they were.
type dressed struct {
	prometheus.Collector
	// role is nil where series have none.
	role   func() Role
	custom *custom
}

// Collect implements prometheus.Collector.
func (d dressed) Collect(ch chan<- prometheus.Metric) {
	role := ""
	if d.role != nil {
		role = string(d.role())
	}
	bare := make(chan prometheus.Metric)
	go func() {
		defer close(bare)
		d.Collector.Collect(bare)
	}()
	for m := range bare {
		ch <- dressedMetric{m, d.custom, role}
	}
}

// dressedMetric is one series with its further labels.
type dressedMetric struct {
	prometheus.Metric
	custom *custom
	role   string
}

// Write implements prometheus.Metric.
func (m dressedMetric) Write(out *dto.Metric) error {
	if err := m.Metric.Write(out); err != nil {
		return err
	}
	labels := slices.Clone(out.GetLabel()) // the series owns the slice
	if m.role != "" {
		labels = append(labels, pair("replica_role", m.role))
	}
	kind, object := subject(out.GetLabel())
	labels = append(labels, m.custom.of(kind, object)...)
	slices.SortFunc(labels, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
	out.Label = labels
	return nil
}

func pair(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }

// subject is the object that a series is about, by its labels: a LocalQueue by
// name and namespace, else a ClusterQueue, else a Cohort; "" is none of them.
func subject(labels []*dto.LabelPair) (Source, types.NamespacedName) {
	var queue, cohort string
	var localQueue types.NamespacedName
	for _, l := range labels {
		switch l.GetName() {
		case "name":
			localQueue.Name = l.GetValue()
		case "namespace":
			localQueue.Namespace = l.GetValue()
		case "cluster_queue", "preempting_cluster_queue":
			queue = l.GetValue()
		case "cohort":
			cohort = l.GetValue()
		}
	}
	switch {
	case localQueue.Name != "" && localQueue.Namespace != "":
		return SourceLocalQueue, localQueue
	case queue != "":
		return SourceClusterQueue, types.NamespacedName{Name: queue}
	case cohort != "":
		return SourceCohort, types.NamespacedName{Name: cohort}
	}
	return "", localQueue
}
