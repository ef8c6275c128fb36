package metrics

import (
	"math"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/view"
)

// SetQueue makes the gauges show the state of a ClusterQueue.
func (m *Metrics) SetQueue(q view.ClusterQueue) {
	m.noteCohorts(q.Name, q.Cohorts)
	if m.around.choice.NoQueueResources {
		q.Flavors = nil
	}
	m.queues.set(q)
}

// noteCohorts notes the cohorts above a ClusterQueue. What was counted below a cohort
// goes with the last queue below it: nothing tells of the end of a cohort that is
// only named.
func (m *Metrics) noteCohorts(queue string, cohorts []string) {
	for _, cohort := range m.around.noteCohorts(queue, cohorts) {
		m.cohortAdmitted.DeletePartialMatch(prometheus.Labels{"cohort": cohort})
	}
}

// SetCohortShare makes a gauge show the weighted share of a cohort.
func (m *Metrics) SetCohortShare(name string, v float64) {
	m.queues.cohortShare.WithLabelValues(name).Set(v)
}

// ForgetCohort drops what was shown of a cohort.
func (m *Metrics) ForgetCohort(name string) {
	m.queues.cohortShare.DeleteLabelValues(name)
	m.cohortAdmitted.DeletePartialMatch(prometheus.Labels{"cohort": name})
}

// SetLocalQueue makes the gauges show the state of a LocalQueue, or drops it if
// it is not, or no longer, among the chosen.
func (m *Metrics) SetLocalQueue(q view.LocalQueue) {
	if !m.around.set(q) {
		m.hideLocalQueue(q.Namespace, q.Name)
		return
	}
	m.localQueues.set(q)
}

type queueGauges struct {
	pending, reserving, admitted, status            *prometheus.GaugeVec
	reservation, usage, nominal, borrowing, lending *prometheus.GaugeVec
	share, cohortShare                              *prometheus.GaugeVec
	shown                                           *shown
}

const (
	pendingName = "pending_workloads"
	pendingHelp = "Workloads that wait, by ClusterQueue: active ones are looked at, inadmissible ones are parked until something changes."

	admittedName = "admitted_active_workloads"
	admittedHelp = "Admitted workloads that have not finished, by ClusterQueue."

	statusActive, statusInadmissible = "active", "inadmissible"
)

// undivided is a gauge that is shown unless labels of Workloads divide it: see
// line.
func undivided(b *builder, name, help string, labels ...string) *prometheus.GaugeVec {
	if len(b.custom.labels[SourceWorkload]) > 0 {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name}, labels)
	}
	return b.gauge(name, help, labels...)
}

func newQueueGauges(b *builder) queueGauges {
	resource := func(name, help string) *prometheus.GaugeVec {
		return b.gauge("cluster_queue_"+name, help, "cohort", "cluster_queue", "flavor", "resource")
	}
	return queueGauges{
		pending: undivided(b, pendingName, pendingHelp, "cluster_queue", "status"),
		reserving: b.gauge(
			"reserving_active_workloads",
			"Workloads that hold quota and have not finished, by ClusterQueue.",
			"cluster_queue",
		),
		admitted: undivided(b, admittedName, admittedHelp, "cluster_queue"),
		status: b.gauge(
			"cluster_queue_status",
			"1 for the status that the ClusterQueue has, 0 for the others.",
			"cluster_queue",
			"status",
		),
		reservation: resource("resource_reservation", "Quota reserved in the ClusterQueue."),
		usage:       resource("resource_usage", "Quota used by admitted workloads of the ClusterQueue."),
		nominal:     resource("nominal_quota", "Quota that the ClusterQueue owns."),
		borrowing: resource(
			"borrowing_limit",
			"How much above its quota the ClusterQueue may use; +Inf if there is no limit.",
		),
		lending: resource(
			"lending_limit",
			"How much of its quota the ClusterQueue lends; +Inf if there is no limit.",
		),
		share: b.gauge(
			"cluster_queue_weighted_share",
			"The ClusterQueue's dominant resource share by weight, in thousandths; NaN if its weight is 0 and it borrows.",
			"cluster_queue",
			"cohort",
		),
		cohortShare: b.gauge(
			"cohort_weighted_share",
			"The Cohort's dominant resource share by weight, in thousandths; NaN if its weight is 0 and it borrows.",
			"cohort",
		),
		shown: newShown(),
	}
}

func (g queueGauges) set(q view.ClusterQueue) {
	g.pending.WithLabelValues(q.Name, statusActive).Set(float64(q.Pending))
	g.pending.WithLabelValues(q.Name, statusInadmissible).Set(float64(q.Inadmissible))
	g.reserving.WithLabelValues(q.Name).Set(float64(q.Reserving))
	g.admitted.WithLabelValues(q.Name).Set(float64(q.Admitted))
	for _, s := range []view.QueueState{view.QueuePending, view.QueueActive, view.QueueTerminating} {
		g.status.WithLabelValues(q.Name, string(s)).Set(oneIfEqual(s, q.State))
	}
	var shares []row
	if q.Share != nil {
		shares = []row{{q.Name, q.Cohort()}}
		g.share.WithLabelValues(q.Name, q.Cohort()).Set(q.Share.Exact)
	}
	for _, stale := range g.shown.replace("share of "+q.Name, shares) {
		g.share.DeleteLabelValues(stale[:2]...)
	}
	var rows []row
	for _, f := range q.Flavors {
		for _, r := range f.Quotas {
			of := core.FlavorResource{Flavor: f.Flavor, Resource: r.Resource}
			labels := row{q.Cohort(), q.Name, f.Flavor, r.Resource}
			rows = append(rows, labels)
			g.reservation.WithLabelValues(labels[:]...).Set(units(r.Resource, q.Reserved[of]))
			g.usage.WithLabelValues(labels[:]...).Set(units(r.Resource, q.Used[of]))
			g.nominal.WithLabelValues(labels[:]...).Set(units(r.Resource, r.Nominal))
			g.borrowing.WithLabelValues(labels[:]...).Set(limit(r.Resource, r.Borrowing))
			g.lending.WithLabelValues(labels[:]...).Set(limit(r.Resource, r.Lending))
		}
	}
	for _, stale := range g.shown.replace(q.Name, rows) {
		for _, v := range g.perResource() {
			v.DeleteLabelValues(stale[:]...)
		}
	}
}

func (g queueGauges) forget(name string) {
	g.shown.replace(name, nil)
	g.shown.replace("share of "+name, nil)
	for _, v := range append(g.perResource(), g.pending, g.reserving, g.admitted, g.status, g.share) {
		v.DeletePartialMatch(prometheus.Labels{"cluster_queue": name})
	}
}

func (g queueGauges) perResource() []*prometheus.GaugeVec {
	return []*prometheus.GaugeVec{g.reservation, g.usage, g.nominal, g.borrowing, g.lending}
}

type localQueueGauges struct {
	pending, reserving, admitted, status, reservation, usage *prometheus.GaugeVec
	shown                                                    *shown
}

func newLocalQueueGauges(b *builder) localQueueGauges {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return b.gauge("local_queue_"+name, help, append([]string{"name", "namespace"}, labels...)...)
	}
	return localQueueGauges{
		pending: gauge(
			"pending_workloads",
			"Workloads that wait, by LocalQueue: active ones are looked at, inadmissible ones are parked until something changes.",
			"status",
		),
		reserving: gauge(
			"reserving_active_workloads",
			"Workloads that hold quota and have not finished, by LocalQueue.",
		),
		admitted: gauge(
			"admitted_active_workloads",
			"Admitted workloads that have not finished, by LocalQueue.",
		),
		status: gauge(
			"status",
			"1 for the status of the LocalQueue's Active condition, 0 for the others.",
			"active",
		),
		reservation: gauge("resource_reservation", "Quota reserved through the LocalQueue.", "flavor", "resource"),
		usage: gauge(
			"resource_usage",
			"Quota used by admitted workloads of the LocalQueue.",
			"flavor",
			"resource",
		),
		shown: newShown(),
	}
}

func (g localQueueGauges) set(q view.LocalQueue) {
	g.pending.WithLabelValues(q.Name, q.Namespace, statusActive).Set(float64(q.Pending))
	g.pending.WithLabelValues(q.Name, q.Namespace, statusInadmissible).Set(float64(q.Inadmissible))
	g.reserving.WithLabelValues(q.Name, q.Namespace).Set(float64(q.Reserving))
	g.admitted.WithLabelValues(q.Name, q.Namespace).Set(float64(q.Admitted))
	for _, s := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown} {
		g.status.WithLabelValues(q.Name, q.Namespace, string(s)).Set(oneIfEqual(s, q.Active))
	}
	var rows []row
	for _, f := range q.Flavors {
		for _, r := range f.Quotas {
			of := core.FlavorResource{Flavor: f.Flavor, Resource: r.Resource}
			labels := row{q.Name, q.Namespace, f.Flavor, r.Resource}
			rows = append(rows, labels)
			g.reservation.WithLabelValues(labels[:]...).Set(units(r.Resource, q.Reserved[of]))
			g.usage.WithLabelValues(labels[:]...).Set(units(r.Resource, q.Used[of]))
		}
	}
	for _, stale := range g.shown.replace(q.Namespace+"/"+q.Name, rows) {
		g.reservation.DeleteLabelValues(stale[:]...)
		g.usage.DeleteLabelValues(stale[:]...)
	}
}

func (g localQueueGauges) forget(namespace, name string) {
	g.shown.replace(namespace+"/"+name, nil)
	for _, v := range []*prometheus.GaugeVec{g.pending, g.reserving, g.admitted, g.status, g.reservation, g.usage} {
		v.DeletePartialMatch(prometheus.Labels{"namespace": namespace, "name": name})
	}
}

// row is the label values of a series per flavor and resource.
type row [4]string

// shown remembers which rows exist, so that rows that went away can be
// dropped without a moment in which the others are missing.
type shown struct {
	mu   sync.Mutex
	rows map[string][]row
}

func newShown() *shown { return &shown{rows: map[string][]row{}} }

// replace notes the rows of an owner and returns the rows that it had before and
// has no more.
func (s *shown) replace(owner string, now []row) []row {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := make(map[row]bool, len(now))
	for _, r := range now {
		kept[r] = true
	}
	var stale []row
	for _, r := range s.rows[owner] {
		if !kept[r] {
			stale = append(stale, r)
		}
	}
	s.rows[owner] = now
	if len(now) == 0 {
		delete(s.rows, owner)
	}
	return stale
}

// units is an amount as people write it.
func units(resource string, a core.Amount) float64 {
	if a == core.Unlimited {
		return math.Inf(1)
	}
	if resource == core.CPU {
		return float64(a) / 1000
	}
	return float64(a)
}

func limit(resource string, a *core.Amount) float64 {
	if a == nil {
		return math.Inf(1)
	}
	return units(resource, *a)
}

func oneIfEqual[T comparable](a, b T) float64 {
	if a == b {
		return 1
	}
	return 0
}
