// Package metrics counts what happens to workloads and shows how full queues
// are, under the names, labels and buckets that Kueue users know, so that their
// dashboards and alerts go on working. It decides nothing and keeps no history:
// what carries out a step says so, and the controller of the queues sets the
// gauges.
//
// All series carry the label replica_role, and labels of their objects where
// that is asked for. Amounts are in the units in which
// people write them: cores, bytes, pieces. A limit that is not set is +Inf.
package metrics

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Role is the value of the label replica_role.
type Role string

// The roles. Processes that compete for leadership are followers until one of
// them leads; one that does not compete is standalone.
const (
	RoleLeader     Role = "leader"
	RoleFollower   Role = "follower"
	RoleStandalone Role = "standalone"
)

const prefix = "kueue_"

// Metrics are the metrics of one process. Make it with New. Its methods may be
// called from any goroutine.
type Metrics struct {
	attempts        *prometheus.CounterVec
	attemptDuration *prometheus.HistogramVec

	reserved, admitted, finished             countedTwice
	reservedWait, admittedWait, finishedTime timedTwice
	preempted, cohortAdmitted                *prometheus.CounterVec
	lifetime                                 lifetime
	jobAttempts                              attempts
	health                                   healths

	around      *surroundings
	custom      *custom
	queues      queueGauges
	localQueues localQueueGauges
	population  *population
	treeStats   *treeStats
	estimates   *estimates
	// line is nil unless labels of Workloads divide the waiting ones.
	line *line

	// byQueue and byLocalQueue are what is forgotten with a queue.
	byQueue, byLocalQueue []forgetful
}

// Options say how metrics are shown.
type Options struct {
	// Role is the value of the label replica_role at the moment that series are
	// asked for; nil leaves it out.
	Role   func() Role
	Choice Choice
	// Labels are taken from objects; at most two from Workloads.
	Labels []CustomLabel
}

// New makes the metrics and registers them.
func New(reg prometheus.Registerer, o Options) (*Metrics, error) {
	around := newSurroundings(o.Choice)
	b := &builder{reg: reg, around: around, role: o.Role, custom: newCustom(o.Labels)}
	if n := len(b.custom.labels[SourceWorkload]); n > mostWorkloadLabels {
		return nil, fmt.Errorf("%d labels of metrics are from Workloads: at most %d may be", n, mostWorkloadLabels)
	}
	if err := reg.Register(newBuildInfo()); err != nil {
		return nil, fmt.Errorf("register metric build_info: %w", err)
	}
	m := &Metrics{
		attempts: b.counter("admission_attempts_total",
			"Attempts to admit workloads, by result: success means that at least one was admitted.", "result"),
		attemptDuration: b.histogram("admission_attempt_duration_seconds",
			"How long an attempt to admit workloads took.", prometheus.DefBuckets, "result"),

		reserved: b.countedTwice(
			"quota_reserved_workloads_total",
			"Workloads that quota was reserved for",
			"priority_class",
		),
		admitted: b.countedTwice("admitted_workloads_total", "Workloads that were admitted", "priority_class"),
		finished: b.countedTwice("finished_workloads_total", "Workloads that finished", "priority_class"),
		reservedWait: b.timedTwice(
			"quota_reserved_wait_time_seconds",
			"Time from creation or requeue to the reservation of quota",
			14,
			14,
		),
		admittedWait: b.timedTwice(
			"admission_wait_time_seconds",
			"Time from creation or requeue to admission",
			16,
			14,
		),
		finishedTime: b.timedTwice("execution_time_seconds", "Time from admission to the end", 16, 16),
		preempted: b.counter(
			"preempted_workloads_total",
			"Workloads that were evicted for another one, by the queue of that other one.",
			"preempting_cluster_queue",
			"reason",
		),
		cohortAdmitted: b.counter(
			"cohort_subtree_admitted_workloads_total",
			"Workloads that were admitted below the cohort.",
			"cohort",
			"priority_class",
		),
		lifetime:    newLifetime(b),
		jobAttempts: newAttempts(b),
		health:      newHealths(b),

		around:      around,
		custom:      b.custom,
		queues:      newQueueGauges(b),
		localQueues: newLocalQueueGauges(b),
		population:  newPopulation(b, around),
		treeStats:   newTreeStats(b, o.Choice, around),
		estimates:   newEstimates(b),
		line:        newLine(b),
	}
	m.byQueue, m.byLocalQueue = b.byQueue, b.byLocalQueue
	return m, b.err
}

// Workload says under which labels something is counted.
type Workload struct {
	ClusterQueue  string
	Namespace     string
	LocalQueue    string
	PriorityClass string
}

// Result is how an attempt to admit ended.
type Result string

// The results of attempts.
const (
	Success      Result = "success"
	Inadmissible Result = "inadmissible"
)

// Attempted counts one attempt to admit workloads.
func (m *Metrics) Attempted(result Result, took time.Duration) {
	m.attempts.WithLabelValues(string(result)).Inc()
	m.attemptDuration.WithLabelValues(string(result)).Observe(took.Seconds())
}

// QuotaReserved counts a reservation of quota, wait after the workload was
// created or queued again.
func (m *Metrics) QuotaReserved(w Workload, wait time.Duration) {
	m.reserved.inc(w, w.PriorityClass)
	m.reservedWait.observe(w, wait)
}

// Admitted counts an admission, wait after the workload was created or queued
// again.
func (m *Metrics) Admitted(w Workload, wait time.Duration) {
	m.admitted.inc(w, w.PriorityClass)
	m.admittedWait.observe(w, wait)
	for _, cohort := range m.around.above(w.ClusterQueue) {
		m.cohortAdmitted.WithLabelValues(cohort, w.PriorityClass).Inc()
	}
}

// Finished counts the end of a workload that was admitted for the given time.
func (m *Metrics) Finished(w Workload, ran time.Duration) {
	m.finished.inc(w, w.PriorityClass)
	m.finishedTime.observe(w, ran)
}

// Preempted counts an eviction for a workload of the queue named preempting,
// by the reason of the Preempted condition.
func (m *Metrics) Preempted(preempting, reason string) {
	m.preempted.WithLabelValues(preempting, reason).Inc()
}

// ForgetQueue drops every series of a ClusterQueue that is gone.
func (m *Metrics) ForgetQueue(name string) {
	labels := prometheus.Labels{"cluster_queue": name}
	for _, v := range m.byQueue {
		v.DeletePartialMatch(labels)
	}
	m.preempted.DeletePartialMatch(prometheus.Labels{"preempting_cluster_queue": name})
	m.queues.forget(name)
	m.noteCohorts(name, nil)
}

// ForgetLocalQueue drops every series of a LocalQueue that is gone.
func (m *Metrics) ForgetLocalQueue(namespace, name string) {
	m.hideLocalQueue(namespace, name)
	m.around.forget(namespace, name)
}

func (m *Metrics) hideLocalQueue(namespace, name string) {
	labels := prometheus.Labels{"namespace": namespace, "name": name}
	for _, v := range m.byLocalQueue {
		v.DeletePartialMatch(labels)
	}
	m.localQueues.forget(namespace, name)
}

// countedTwice counts by ClusterQueue and by LocalQueue.
type countedTwice struct {
	queue, local *prometheus.CounterVec
	around       *surroundings
}

func (c countedTwice) inc(w Workload, labels ...string) {
	c.queue.WithLabelValues(append([]string{w.ClusterQueue}, labels...)...).Inc()
	if c.around.shows(w.Namespace, w.LocalQueue) {
		c.local.WithLabelValues(append([]string{w.LocalQueue, w.Namespace}, labels...)...).Inc()
	}
}

// expect makes the series, at 0 if nothing was counted yet.
func (c countedTwice) expect(w Workload, labels ...string) {
	c.queue.WithLabelValues(append([]string{w.ClusterQueue}, labels...)...)
	if c.around.shows(w.Namespace, w.LocalQueue) {
		c.local.WithLabelValues(append([]string{w.LocalQueue, w.Namespace}, labels...)...)
	}
}

// timedTwice observes durations by ClusterQueue and by LocalQueue.
type timedTwice struct {
	queue, local *prometheus.HistogramVec
	around       *surroundings
}

func (h timedTwice) observe(w Workload, d time.Duration) {
	seconds := max(d, 0).Seconds()
	h.queue.WithLabelValues(w.ClusterQueue, w.PriorityClass).Observe(seconds)
	if h.around.shows(w.Namespace, w.LocalQueue) {
		h.local.WithLabelValues(w.LocalQueue, w.Namespace, w.PriorityClass).Observe(seconds)
	}
}

// builder makes and registers metrics and keeps the first error.
type builder struct {
	reg    prometheus.Registerer
	around *surroundings
	role   func() Role
	custom *custom
	err    error
	// byQueue and byLocalQueue are what has labels of a ClusterQueue or a LocalQueue.
	byQueue, byLocalQueue []forgetful
}

// forgetful can drop series.
type forgetful interface {
	DeletePartialMatch(prometheus.Labels) int
}

func (b *builder) register(name string, c prometheus.Collector) {
	if err := b.reg.Register(dressed{c, b.role, b.custom}); err != nil && b.err == nil {
		b.err = fmt.Errorf("register metric %s: %w", name, err)
	}
}

func (b *builder) counter(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
	b.register(name, v)
	return v
}

func (b *builder) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: help}, labels)
	b.register(name, v)
	return v
}

func (b *builder) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(
		prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets},
		labels,
	)
	b.register(name, v)
	return v
}

// queueCounter is a counter with the label cluster_queue.
func (b *builder) queueCounter(name, help string, labels ...string) *prometheus.CounterVec {
	v := b.counter(name, help, labels...)
	b.byQueue = append(b.byQueue, v)
	return v
}

// queueHistogram is a histogram with the label cluster_queue.
func (b *builder) queueHistogram(
	name, help string,
	buckets []float64,
	labels ...string,
) *prometheus.HistogramVec {
	v := b.histogram(name, help, buckets, labels...)
	b.byQueue = append(b.byQueue, v)
	return v
}

func (b *builder) countedTwice(name, help string, labels ...string) countedTwice {
	c := countedTwice{
		queue: b.queueCounter(name, help+", by ClusterQueue.", append([]string{"cluster_queue"}, labels...)...),
		local: b.counter(
			"local_queue_"+name,
			help+", by LocalQueue.",
			append([]string{"name", "namespace"}, labels...)...),
		around: b.around,
	}
	b.byLocalQueue = append(b.byLocalQueue, c.local)
	return c
}

func (b *builder) timedTwice(name, help string, queueBuckets, localBuckets int) timedTwice {
	h := timedTwice{
		queue: b.queueHistogram(
			name,
			help+", by ClusterQueue.",
			waits(queueBuckets),
			"cluster_queue",
			"priority_class",
		),
		local: b.histogram(
			"local_queue_"+name,
			help+", by LocalQueue.",
			waits(localBuckets),
			"name",
			"namespace",
			"priority_class",
		),
		around: b.around,
	}
	b.byLocalQueue = append(b.byLocalQueue, h.local)
	return h
}

// waits are n buckets: 1 s, then 2.5 s doubled again and again.
func waits(n int) []float64 {
	return append([]float64{1}, prometheus.ExponentialBuckets(2.5, 2, n-1)...)
}
