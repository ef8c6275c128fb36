package metrics_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mlbatch/mlbatch/internal/kube/metrics"
)

// names collects the names of what is registered.
type names struct {
	prometheus.Registerer
	all []string
}

func (n *names) Register(c prometheus.Collector) error {
	ch := make(chan *prometheus.Desc)
	go func() {
		defer close(ch)
		c.Describe(ch)
	}()
	for d := range ch {
		_, rest, _ := strings.Cut(d.String(), `fqName: "`)
		name, _, _ := strings.Cut(rest, `"`)
		n.all = append(n.all, strings.TrimPrefix(name, "kueue_"))
	}
	return n.Registerer.Register(c)
}

// TestKueuesMetricsAreThereOrExplained looks for each of Kueue's metrics among those
// that are registered and among those that the page says are missing.
func TestKueuesMetricsAreThereOrExplained(t *testing.T) {
	const page = "../../../docs/metrics.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, missing, found := strings.Cut(string(text), "## What Kueue has and mlbatch has not")
	if !found {
		t.Fatalf("%s does not say what is missing", page)
	}
	n := &names{Registerer: prometheus.NewRegistry()}
	if _, err := metrics.New(n, metrics.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range kueues() {
		if !slices.Contains(n.all, name) && !strings.Contains(missing, "`"+name+"`") {
			t.Errorf("%s does not say why %s is missing", page, name)
		}
	}
}

// kueues are the metrics of Kueue 0.20.
func kueues() []string {
	out := strings.Fields(
		`admission_attempts_total admission_attempt_duration_seconds admission_cycle_preemption_skips
preemption_target_recomputations_total build_info pending_workloads local_queue_pending_workloads pending_scheduling_hashes
pods_ready_to_evicted_time_seconds workload_creation_latency_seconds pod_scheduling_gate_removal_seconds
evicted_workloads_total local_queue_evicted_workloads_total evicted_workloads_once_total preempted_workloads_total
workload_eviction_latency_seconds replaced_workload_slices_total cluster_queue_status local_queue_status
cluster_queue_resource_reservation cluster_queue_resource_usage cluster_queue_nominal_quota cluster_queue_borrowing_limit
cluster_queue_lending_limit cluster_queue_resource_pending local_queue_resource_reservation local_queue_resource_usage
local_queue_admission_fair_sharing_usage cluster_queue_weighted_share cohort_weighted_share cohort_subtree_quota
cohort_subtree_resource_reservations cohort_subtree_admitted_workloads_total cohort_subtree_admitted_active_workloads
cohort_info cluster_queue_info multikueue_workloads_dispatched_total multikueue_workloads_admitted_total`,
	)
	for twice := range strings.FieldsSeq(`finished_workloads quota_reserved_workloads_total admitted_workloads_total
finished_workloads_total execution_time_seconds quota_reserved_wait_time_seconds admission_wait_time_seconds
admission_checks_wait_time_seconds ready_wait_time_seconds admitted_until_ready_wait_time_seconds
reserving_active_workloads admitted_active_workloads unadmitted_workloads`) {
		out = append(out, twice, "local_queue_"+twice)
	}
	return out
}
