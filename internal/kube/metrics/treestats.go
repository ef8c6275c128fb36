package metrics

import (
	"math"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// treeStats shows what the engine knows of cohorts and queues at the moment it is
// asked for; nothing is computed before.
type treeStats struct {
	choice Choice
	around *surroundings
	role   func() Role
	// take takes the stats; nil, or false, while there is none.
	take atomic.Pointer[func() (cycle.Stats, bool)]

	queueInfo, cohortInfo, hashes, pending *prometheus.Desc
	quota, reserved, admitted, standing    *prometheus.Desc
}

func newTreeStats(b *builder, c Choice, around *surroundings) *treeStats {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prefix+name, help, labels, nil)
	}
	out := &treeStats{
		choice: c,
		around: around,
		role:   b.role,
		queueInfo: desc(
			"cluster_queue_info",
			"1 for each ClusterQueue and its place in the tree.",
			"cluster_queue",
			"parent_cohort",
			"root_cohort",
		),
		cohortInfo: desc(
			"cohort_info",
			"1 for each cohort and its place in the tree.",
			"cohort",
			"parent_cohort",
			"root_cohort",
		),
		hashes: desc(
			"pending_scheduling_hashes",
			"Kinds of equal workloads that wait in the ClusterQueue; those of one kind are decided on together.",
			"cluster_queue",
			"status",
		),
		pending: desc(
			"cluster_queue_resource_pending",
			"What all waiting workloads of the ClusterQueue ask for together.",
			"cluster_queue",
			"resource",
		),
		quota: desc(
			"cohort_subtree_quota",
			"Quota of the cohort and all below it, without what is kept below and not lent.",
			"cohort",
			"flavor",
			"resource",
		),
		reserved: desc(
			"cohort_subtree_resource_reservations",
			"Quota reserved in all ClusterQueues below the cohort.",
			"cohort",
			"flavor",
			"resource",
		),
		admitted: desc(
			"cohort_subtree_admitted_active_workloads",
			"Admitted workloads below the cohort that have not finished.",
			"cohort",
		),
		standing: desc(
			"local_queue_admission_fair_sharing_usage",
			"Past usage of the LocalQueue by weight, by which LocalQueues of its ClusterQueue are ordered; +Inf if its weight is 0.",
			"name",
			"namespace",
			"cluster_queue",
		),
	}
	b.register("cohort_info", out)
	return out
}

// SetTreeStats says how the stats is taken: false means that it is not known yet.
func (m *Metrics) SetTreeStats(take func() (cycle.Stats, bool)) { m.treeStats.take.Store(&take) }

// Describe implements prometheus.Collector.
func (c *treeStats) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.queueInfo, c.cohortInfo, c.hashes, c.pending, c.quota, c.reserved, c.admitted, c.standing} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *treeStats) Collect(ch chan<- prometheus.Metric) {
	take := c.take.Load()
	if take == nil {
		return
	}
	now, ok := (*take)()
	if !ok {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	follows := c.role != nil && c.role() == RoleFollower // and does not know what is parked
	for _, q := range now.Queues {
		gauge(c.queueInfo, 1, q.Name, q.Cohort, q.Root)
		if !follows {
			gauge(c.hashes, float64(q.ActiveClasses), q.Name, statusActive)
			gauge(c.hashes, float64(q.ParkedClasses), q.Name, statusInadmissible)
		}
		if c.choice.NoQueueResources {
			continue
		}
		for _, r := range q.Pending {
			gauge(c.pending, units(r.Resource, r.Amount), q.Name, r.Resource)
		}
	}
	for _, h := range now.Cohorts {
		gauge(c.cohortInfo, 1, h.Name, h.Parent, h.Root)
		gauge(c.admitted, float64(h.Admitted), h.Name)
		for _, a := range h.Amounts {
			gauge(c.quota, units(a.Resource, a.Quota), h.Name, a.Flavor, a.Resource)
			gauge(c.reserved, units(a.Resource, a.Reserved), h.Name, a.Flavor, a.Resource)
		}
	}
	for _, s := range now.UsageRanks {
		if c.around.shows(s.Namespace, s.Name) {
			gauge(c.standing, past(s.UsageRank), s.Name, s.Namespace, s.Queue)
		}
	}
}

// past is a standing as a number in base units.
func past(s core.UsageRank) float64 {
	if s.Last {
		return math.Inf(1)
	}
	const thousandth = 1000 * (1 << 32)
	return (math.Ldexp(float64(s.Hi), 64) + float64(s.Lo)) / thousandth
}
