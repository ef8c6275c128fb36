package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
)

// population counts Workloads by how they stand. It adds and subtracts as they
// change and keeps nothing of a single one, so that it costs little however many
// there are.
type population struct {
	around *surroundings

	finished, localFinished     *prometheus.Desc
	unadmitted, localUnadmitted *prometheus.Desc

	mu     sync.Mutex
	counts map[standing]int
}

// standing is how a Workload stands; the zero value is admitted and running.
type standing struct {
	finished, unadmitted  bool
	namespace, localQueue string
	// clusterQueue is the one that the Workload holds or held quota of.
	clusterQueue  string
	reason, cause string
}

func newPopulation(b *builder, around *surroundings) *population {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prefix+name, help, labels, nil)
	}
	const finished, unadmitted = "Finished workloads that have not been deleted", "Workloads that are not admitted, by why"
	p := &population{
		around:        around,
		finished:      desc("finished_workloads", finished+", by ClusterQueue.", "cluster_queue"),
		localFinished: desc("local_queue_finished_workloads", finished+", by LocalQueue.", "name", "namespace"),
		unadmitted: desc(
			"unadmitted_workloads",
			unadmitted+" and ClusterQueue.",
			"cluster_queue",
			"reason",
			"underlying_cause",
		),
		localUnadmitted: desc(
			"local_queue_unadmitted_workloads",
			unadmitted+" and LocalQueue.",
			"name",
			"namespace",
			"cluster_queue",
			"reason",
			"underlying_cause",
		),
		counts: map[standing]int{},
	}
	b.register("unadmitted_workloads", p)
	return p
}

// move counts a Workload as it is and no longer as it was; nil is not there.
func (p *population) move(was, is *kueue.Workload) {
	before, after := standingOf(was), standingOf(is)
	if before == after {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.counts[before]--; p.counts[before] <= 0 {
		delete(p.counts, before)
	}
	if after != (standing{}) {
		p.counts[after]++
	}
}

func standingOf(w *kueue.Workload) standing {
	if w == nil {
		return standing{}
	}
	s := standing{namespace: w.Namespace, localQueue: string(w.Spec.QueueName)}
	if w.Status.Admission != nil {
		s.clusterQueue = string(w.Status.Admission.ClusterQueue)
	}
	admitted := condition(w, kueue.WorkloadAdmitted)
	reserved := condition(w, kueue.WorkloadQuotaReserved)
	switch {
	case isTrue(condition(w, kueue.WorkloadFinished)):
		s.finished = true
	case isTrue(admitted):
		return standing{}
	case isTrue(reserved):
		s.unadmitted, s.reason = true, kueue.ReasonUnsatisfiedAdmissionChecks
		if admitted != nil {
			s.reason = admitted.Reason
		}
	default:
		s.unadmitted, s.reason, s.cause = true, kueue.ReasonNoReservation, kueue.ReasonPendingEvaluation
		if reserved != nil {
			s.cause = reserved.Reason
		}
	}
	return s
}

func isTrue(c *metav1.Condition) bool { return c != nil && c.Status == metav1.ConditionTrue }

// Describe implements prometheus.Collector.
func (p *population) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{p.finished, p.localFinished, p.unadmitted, p.localUnadmitted} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (p *population) Collect(ch chan<- prometheus.Metric) {
	for s, n := range p.sums() {
		ch <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, float64(n), s.labels[:s.size]...)
	}
}

// series is one series of a gauge that is counted at the moment it is asked for.
type series struct {
	desc   *prometheus.Desc
	labels [5]string
	size   int
}

func seriesOf(d *prometheus.Desc, labels ...string) series {
	s := series{desc: d, size: len(labels)}
	copy(s.labels[:], labels)
	return s
}

func (p *population) sums() map[series]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[series]int{}
	for s, n := range p.counts {
		queue := s.clusterQueue
		if queue == "" {
			queue = p.around.behind(s.namespace, s.localQueue)
		}
		local := p.around.shows(s.namespace, s.localQueue)
		switch {
		case s.finished:
			out[seriesOf(p.finished, queue)] += n
			if local {
				out[seriesOf(p.localFinished, s.localQueue, s.namespace)] += n
			}
		case s.unadmitted:
			out[seriesOf(p.unadmitted, queue, s.reason, s.cause)] += n
			if local {
				out[seriesOf(p.localUnadmitted, s.localQueue, s.namespace, queue, s.reason, s.cause)] += n
			}
		}
	}
	return out
}
