package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Visit is told of each workload that waits, and whether it is parked until
// something that it waits for changes.
type Visit func(queue string, key core.Key, parked bool)

// line is pending_workloads where labels of Workloads divide it: it is counted
// when it is asked for, which costs time proportional to what waits. A division
// in which nobody waits has no series.
type line struct {
	custom  *custom
	pending *prometheus.Desc
	// each goes through all that wait; nil until it is known how.
	each atomic.Pointer[func(Visit)]
}

func newLine(b *builder) *line {
	if len(b.custom.labels[SourceWorkload]) == 0 {
		return nil
	}
	l := &line{custom: b.custom, pending: prometheus.NewDesc(prefix+pendingName, pendingHelp,
		append([]string{"cluster_queue", "status"}, b.custom.names(SourceWorkload)...), nil)}
	b.register(pendingName, l)
	return l
}

// SetWaiting says how to go through all workloads that wait. It is only done
// where labels of Workloads divide them.
func (m *Metrics) SetWaiting(each func(Visit)) {
	if m.line != nil {
		m.line.each.Store(&each)
	}
}

// Describe implements prometheus.Collector.
func (l *line) Describe(ch chan<- *prometheus.Desc) { ch <- l.pending }

// division is a series of line: two labels and those of Workloads.
type division struct {
	queue, status string
	values        [mostWorkloadLabels]string
}

// mostWorkloadLabels bounds how finely labels of Workloads divide a series.
const mostWorkloadLabels = 2

// Collect implements prometheus.Collector.
func (l *line) Collect(ch chan<- prometheus.Metric) {
	each := l.each.Load()
	if each == nil {
		return
	}
	counts := map[division]int{}
	(*each)(func(queue string, key core.Key, parked bool) {
		d := division{queue: queue, status: statusActive}
		if parked {
			d.status = statusInadmissible
		}
		copy(d.values[:], l.custom.valuesOf(SourceWorkload, types.NamespacedName{Namespace: key.Namespace, Name: key.Name}))
		counts[d]++
	})
	n := len(l.custom.labels[SourceWorkload])
	for d, count := range counts {
		values := append([]string{d.queue, d.status}, d.values[:n]...)
		ch <- prometheus.MustNewConstMetric(l.pending, prometheus.GaugeValue, float64(count), values...)
	}
}
