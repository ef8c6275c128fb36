package metrics_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/metrics"
	"github.com/mlbatch/mlbatch/internal/view"
)

func standalone() metrics.Role { return metrics.RoleStandalone }

func newMetrics(t *testing.T) (*metrics.Metrics, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	m, err := metrics.New(reg, metrics.Options{Role: standalone})
	if err != nil {
		t.Fatal(err)
	}
	return m, reg
}

// expect compares the series of the named metrics, without help and type lines.
func expect(t *testing.T, reg *prometheus.Registry, why, want string, names ...string) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range families {
		for _, n := range names {
			if f.GetName() == n {
				text.WriteString(
					"# HELP " + n + " " + f.GetHelp() + "\n# TYPE " + n + " " + strings.ToLower(f.GetType().String()) + "\n",
				)
			}
		}
		for line := range strings.Lines(want) {
			if name, _, _ := strings.Cut(line, "{"); name == f.GetName() ||
				f.GetType().String() == "HISTOGRAM" && strings.HasPrefix(name, f.GetName()+"_") {
				text.WriteString(line)
			}
		}
	}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(text.String()), names...); err != nil {
		t.Errorf("%s: %v", why, err)
	}
}

func TestCounters(t *testing.T) {
	m, reg := newMetrics(t)
	w := metrics.Workload{
		ClusterQueue:  "blue-cluster-queue",
		Namespace:     "blue",
		LocalQueue:    "default-queue",
		PriorityClass: "p",
	}
	m.Admitted(w, time.Second)
	m.Admitted(w, -time.Second)
	m.Preempted("red-cluster-queue", "InCohortReclamation")
	m.Attempted(metrics.Success, time.Millisecond)
	expect(
		t,
		reg,
		"each admission counts once for each kind of queue",
		`kueue_admitted_workloads_total{cluster_queue="blue-cluster-queue",priority_class="p",replica_role="standalone"} 2
kueue_local_queue_admitted_workloads_total{name="default-queue",namespace="blue",priority_class="p",replica_role="standalone"} 2
`,
		"kueue_admitted_workloads_total",
		"kueue_local_queue_admitted_workloads_total",
	)
	expect(
		t,
		reg,
		"attempts name their result, preemptions whom they were for",
		`kueue_preempted_workloads_total{preempting_cluster_queue="red-cluster-queue",reason="InCohortReclamation",replica_role="standalone"} 1
kueue_admission_attempts_total{replica_role="standalone",result="success"} 1
`,
		"kueue_preempted_workloads_total",
		"kueue_admission_attempts_total",
	)
}

func TestWaitBuckets(t *testing.T) {
	m, reg := newMetrics(t)
	m.Admitted(metrics.Workload{ClusterQueue: "q"}, 3*time.Second)
	m.QuotaReserved(metrics.Workload{ClusterQueue: "q"}, 3*time.Second)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]struct {
		why     string
		buckets int
		last    float64
	}{
		"kueue_admission_wait_time_seconds":                  {"16 buckets from 1, 2.5, 5", 16, 2.5 * (1 << 14)},
		"kueue_local_queue_admission_wait_time_seconds":      {"14 for local queues", 14, 2.5 * (1 << 12)},
		"kueue_quota_reserved_wait_time_seconds":             {"14 for reservations", 14, 2.5 * (1 << 12)},
		"kueue_local_queue_quota_reserved_wait_time_seconds": {"14 for local queues", 14, 2.5 * (1 << 12)},
	}
	for _, f := range families {
		w, ok := want[f.GetName()]
		if !ok {
			continue
		}
		delete(want, f.GetName())
		b := f.GetMetric()[0].GetHistogram().GetBucket()
		if len(b) != w.buckets || b[0].GetUpperBound() != 1 || b[len(b)-1].GetUpperBound() != w.last ||
			b[1].GetCumulativeCount() != 0 ||
			b[2].GetCumulativeCount() != 1 {
			t.Errorf("%s has buckets %v; want %s", f.GetName(), b, w.why)
		}
	}
	if len(want) != 0 {
		t.Errorf("no series for %v", want)
	}
}

func TestQueueGauges(t *testing.T) {
	m, reg := newMetrics(t)
	six := core.Amount(6)
	cpu, gpu := core.FlavorResource{
		Flavor:   "f",
		Resource: core.CPU,
	}, core.FlavorResource{
		Flavor:   "f",
		Resource: core.GPU,
	}
	gpus := []core.FlavorQuotas{{Flavor: "f", Quotas: []core.Quota{{Resource: core.GPU, Nominal: 8}}}}
	m.SetQueue(view.ClusterQueue{
		Name: "q", Cohorts: []string{"c"}, State: view.QueueActive,
		Flavors: []core.FlavorQuotas{{Flavor: "f", Quotas: []core.Quota{
			{Resource: core.CPU, Nominal: 2500}, {Resource: core.GPU, Nominal: 8, Lending: &six},
		}}},
		Load: core.Load{
			Pending:      2,
			Inadmissible: 1,
			Reserving:    4,
			Admitted:     3,
			Reserved: map[core.FlavorResource]core.Amount{
				cpu: 500,
			},
			Used: map[core.FlavorResource]core.Amount{cpu: 400},
		},
	})
	names := []string{
		"kueue_pending_workloads",
		"kueue_cluster_queue_status",
		"kueue_cluster_queue_nominal_quota",
		"kueue_cluster_queue_lending_limit",
		"kueue_cluster_queue_resource_reservation",
		"kueue_cluster_queue_resource_usage",
	}
	expect(
		t,
		reg,
		"cpu is shown in cores, no limit as infinity",
		`kueue_cluster_queue_lending_limit{cluster_queue="q",cohort="c",flavor="f",replica_role="standalone",resource="cpu"} +Inf
kueue_cluster_queue_lending_limit{cluster_queue="q",cohort="c",flavor="f",replica_role="standalone",resource="nvidia.com/gpu"} 6
kueue_cluster_queue_nominal_quota{cluster_queue="q",cohort="c",flavor="f",replica_role="standalone",resource="cpu"} 2.5
kueue_cluster_queue_nominal_quota{cluster_queue="q",cohort="c",flavor="f",replica_role="standalone",resource="nvidia.com/gpu"} 8
kueue_cluster_queue_resource_reservation{cluster_queue="q",cohort="c",flavor="f",replica_role="standalone",resource="cpu"} 0.5
kueue_cluster_queue_resource_reservation{cluster_queue="q",cohort="c",flavor="f",replica_role="standalone",resource="nvidia.com/gpu"} 0
kueue_cluster_queue_resource_usage{cluster_queue="q",cohort="c",flavor="f",replica_role="standalone",resource="cpu"} 0.4
kueue_cluster_queue_resource_usage{cluster_queue="q",cohort="c",flavor="f",replica_role="standalone",resource="nvidia.com/gpu"} 0
kueue_cluster_queue_status{cluster_queue="q",replica_role="standalone",status="active"} 1
kueue_cluster_queue_status{cluster_queue="q",replica_role="standalone",status="pending"} 0
kueue_cluster_queue_status{cluster_queue="q",replica_role="standalone",status="terminating"} 0
kueue_pending_workloads{cluster_queue="q",replica_role="standalone",status="active"} 2
kueue_pending_workloads{cluster_queue="q",replica_role="standalone",status="inadmissible"} 1
`,
		names...)
	m.SetQueue(view.ClusterQueue{Name: "q", Cohorts: []string{"d"}, State: view.QueuePending, Flavors: gpus})
	expect(
		t,
		reg,
		"what the queue no longer has is no longer shown",
		`kueue_cluster_queue_nominal_quota{cluster_queue="q",cohort="d",flavor="f",replica_role="standalone",resource="nvidia.com/gpu"} 8
`,
		"kueue_cluster_queue_nominal_quota",
	)
	m.Admitted(metrics.Workload{ClusterQueue: "q", Namespace: "n", LocalQueue: "l"}, 0)
	m.SetLocalQueue(view.LocalQueue{
		Namespace: "n",
		Name:      "l",
		Active:    "True",
		Flavors:   gpus,
		Load: core.Load{
			Reserved: map[core.FlavorResource]core.Amount{gpu: 2},
			Used:     map[core.FlavorResource]core.Amount{gpu: 1},
		},
	})
	expect(
		t,
		reg,
		"a LocalQueue has the quotas of its ClusterQueue",
		`kueue_local_queue_resource_reservation{flavor="f",name="l",namespace="n",replica_role="standalone",resource="nvidia.com/gpu"} 2
kueue_local_queue_resource_usage{flavor="f",name="l",namespace="n",replica_role="standalone",resource="nvidia.com/gpu"} 1
`,
		"kueue_local_queue_resource_reservation",
		"kueue_local_queue_resource_usage",
	)
	m.ForgetQueue("q")
	m.ForgetLocalQueue("n", "l")
	// What was built is shown always.
	if n, err := testutil.GatherAndCount(reg); n != 1 || err != nil {
		t.Errorf("%d series left of forgotten queues (error %v), want one", n, err)
	}
}

func TestShares(t *testing.T) {
	m, reg := newMetrics(t)
	share := func(name, cohort string, exact float64) view.ClusterQueue {
		return view.ClusterQueue{
			Name:    name,
			Cohorts: []string{cohort},
			Load:    core.Load{Share: &core.Share{Exact: exact}},
		}
	}
	m.SetQueue(share("q", "c", 125.25))
	m.SetQueue(share("z", "c", math.NaN()))
	m.SetCohortShare("c", 250)
	names := []string{"kueue_cluster_queue_weighted_share", "kueue_cohort_weighted_share"}
	expect(t, reg, "shares are exact, and that of weight 0 is no number",
		`kueue_cluster_queue_weighted_share{cluster_queue="q",cohort="c",replica_role="standalone"} 125.25
kueue_cluster_queue_weighted_share{cluster_queue="z",cohort="c",replica_role="standalone"} NaN
kueue_cohort_weighted_share{cohort="c",replica_role="standalone"} 250
`, names...)
	m.SetQueue(share("q", "d", 7))
	m.SetQueue(view.ClusterQueue{Name: "z", Cohorts: []string{"c"}})
	m.ForgetCohort("c")
	expect(t, reg, "a queue that moved, fair sharing off, a cohort gone",
		`kueue_cluster_queue_weighted_share{cluster_queue="q",cohort="d",replica_role="standalone"} 7
`, names...)
}

// What was counted below a cohort that is only named goes with its last queue.
func TestNamedCohortsEnd(t *testing.T) {
	m, reg := newMetrics(t)
	admitted := func(queue string) { m.Admitted(metrics.Workload{ClusterQueue: queue}, 0) }
	m.SetQueue(view.ClusterQueue{Name: "q", Cohorts: []string{"c", "root"}})
	m.SetQueue(view.ClusterQueue{Name: "r", Cohorts: []string{"root"}})
	admitted("q")
	const name = "kueue_cohort_subtree_admitted_workloads_total"
	below := func(cohort string) string {
		return name + `{cohort="` + cohort + `",priority_class="",replica_role="standalone"} 1
`
	}
	expect(t, reg, "both are above it", below("c")+below("root"), name)
	m.SetQueue(view.ClusterQueue{Name: "q", Cohorts: []string{"root"}})
	expect(t, reg, "nothing is left below one of them", below("root"), name)
	m.ForgetQueue("q")
	expect(t, reg, "another queue is below the other", below("root"), name)
	m.ForgetQueue("r")
	expect(t, reg, "none is", "", name)
}

func TestSecondRegistrationFails(t *testing.T) {
	_, reg := newMetrics(t)
	if _, err := metrics.New(reg, metrics.Options{Role: standalone}); err == nil {
		t.Error("two sets of metrics were registered in one place")
	}
}
