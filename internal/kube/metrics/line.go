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

// line is pending_workloads and admitted_active_workloads where labels of
// Workloads divide them: they are counted when they are asked for, which costs
// time proportional to what there is. An empty division has no series.
type line struct {
	custom            *custom
	pending, admitted *prometheus.Desc
	// waiting goes through all that wait, running through all that are admitted;
	// nil until it is known how.
	waiting atomic.Pointer[func(Visit)]
	running atomic.Pointer[func(func(queue string, key core.Key))]
}

func newLine(b *builder) *line {
	if len(b.custom.labels[SourceWorkload]) == 0 {
		return nil
	}
	names := b.custom.names(SourceWorkload)
	l := &line{
		custom: b.custom,
		pending: prometheus.NewDesc(
			prefix+pendingName,
			pendingHelp,
			append([]string{"cluster_queue", "status"}, names...),
			nil,
		),
		admitted: prometheus.NewDesc(
			prefix+admittedName,
			admittedHelp,
			append([]string{"cluster_queue"}, names...),
			nil,
		),
	}
	b.register(pendingName, l)
	return l
}

// SetWaiting says how to go through all workloads that wait. It is only done
// where labels of Workloads divide them.
func (m *Metrics) SetWaiting(each func(Visit)) {
	if m.line != nil {
		m.line.waiting.Store(&each)
	}
}

// SetRunning says how to go through all workloads that are admitted, likewise.
func (m *Metrics) SetRunning(each func(func(queue string, key core.Key))) {
	if m.line != nil {
		m.line.running.Store(&each)
	}
}

// Describe implements prometheus.Collector.
func (l *line) Describe(ch chan<- *prometheus.Desc) {
	ch <- l.pending
	ch <- l.admitted
}

// division is a series of line: the labels of its own, and those of Workloads.
// One of admitted workloads has no status.
type division struct {
	queue, status string
	values        [mostWorkloadLabels]string
}

// mostWorkloadLabels bounds how finely labels of Workloads divide a series.
const mostWorkloadLabels = 2

// Collect implements prometheus.Collector.
func (l *line) Collect(ch chan<- prometheus.Metric) {
	counts := map[division]int{}
	count := func(d division, key core.Key) {
		copy(
			d.values[:],
			l.custom.valuesOf(SourceWorkload, types.NamespacedName{Namespace: key.Namespace, Name: key.Name}),
		)
		counts[d]++
	}
	if each := l.waiting.Load(); each != nil {
		(*each)(func(queue string, key core.Key, parked bool) {
			d := division{queue: queue, status: statusActive}
			if parked {
				d.status = statusInadmissible
			}
			count(d, key)
		})
	}
	if each := l.running.Load(); each != nil {
		(*each)(func(queue string, key core.Key) { count(division{queue: queue}, key) })
	}
	n := len(l.custom.labels[SourceWorkload])
	for d, count := range counts {
		desc, values := l.pending, []string{d.queue, d.status}
		if d.status == "" {
			desc, values = l.admitted, values[:1]
		}
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(count), append(values, d.values[:n]...)...)
	}
}
