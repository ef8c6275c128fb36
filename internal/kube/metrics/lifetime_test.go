package metrics_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	history "github.com/mlbatch/mlbatch/api/history/v1alpha1"
	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/forecast"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
	"github.com/mlbatch/mlbatch/internal/kube/metrics"
	"github.com/mlbatch/mlbatch/internal/view"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// told is one Workload whose versions a handler is told one after the other.
type told struct {
	handler toolscache.ResourceEventHandler
	now     *kueue.Workload
	seconds int
}

func follow(m *metrics.Metrics) *told {
	h := &told{}
	h.handler = m.Workloads(func() time.Time { return start.Add(300 * time.Millisecond) })
	h.now = &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "blue", Name: "w", ResourceVersion: "0", CreationTimestamp: metav1.NewTime(start),
			Annotations:     map[string]string{kueue.SubmittedAtAnnotation: start.Format(time.RFC3339Nano)},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Controller: new(true)}},
		},
		Spec: kueue.WorkloadSpec{QueueName: "l"},
	}
	h.handler.OnAdd(h.now, false)
	return h
}

// write makes the next version, ten seconds after the last one.
func (h *told) write(
	change func(s *kueue.WorkloadStatus, set func(kind string, status metav1.ConditionStatus, reason string)),
) {
	h.seconds += 10
	next := h.now.DeepCopy()
	next.ResourceVersion += "0"
	set := func(kind string, status metav1.ConditionStatus, reason string) {
		c := metav1.Condition{
			Type:               kind,
			Status:             status,
			Reason:             reason,
			LastTransitionTime: metav1.NewTime(start.Add(time.Duration(h.seconds) * time.Second)),
		}
		i := slices.IndexFunc(next.Status.Conditions, func(c metav1.Condition) bool { return c.Type == kind })
		if i < 0 {
			next.Status.Conditions = append(next.Status.Conditions, c)
			return
		}
		if next.Status.Conditions[i].Status == status {
			c.LastTransitionTime = next.Status.Conditions[i].LastTransitionTime
		}
		next.Status.Conditions[i] = c
	}
	change(&next.Status, set)
	h.handler.OnUpdate(h.now, next)
	h.now = next
}

// live goes through two rounds of admission and eviction, and the end.
func live(h *told) {
	type status = kueue.WorkloadStatus
	type setter = func(kind string, status metav1.ConditionStatus, reason string)
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	for range 2 {
		h.write(func(s *status, set setter) { // reserved 10 s after it was made
			s.Admission = &kueue.Admission{ClusterQueue: "q"}
			s.AdmissionChecks = []kueue.AdmissionCheckState{{Name: "c"}}
			set(kueue.WorkloadQuotaReserved, yes, kueue.ReasonQuotaReserved)
			set(kueue.WorkloadAdmitted, no, kueue.ReasonUnsatisfiedAdmissionChecks)
			set(kueue.WorkloadEvicted, no, kueue.ReasonQuotaReserved)
		})
		h.write(func(_ *status, set setter) { set(kueue.WorkloadAdmitted, yes, kueue.ReasonAdmitted) })
		h.write(func(_ *status, set setter) { set(kueue.WorkloadPodsReady, yes, kueue.ReasonStarted) })
		h.write(func(s *status, set setter) {
			if s.SchedulingStats == nil {
				s.SchedulingStats = &kueue.SchedulingStats{
					Evictions: []kueue.WorkloadSchedulingStatsEviction{
						{Reason: kueue.ReasonPreempted, UnderlyingCause: "InClusterQueue"},
					},
				}
			}
			s.SchedulingStats.Evictions[0].Count++
			set(kueue.WorkloadEvicted, yes, kueue.ReasonPreempted)
		})
		h.write(func(s *status, set setter) {
			s.Admission = nil
			set(kueue.WorkloadPodsReady, no, kueue.ReasonWaitForStart)
			set(kueue.WorkloadQuotaReserved, no, kueue.ReasonPending)
			set(kueue.WorkloadAdmitted, no, kueue.ReasonNoReservation)
			set(kueue.WorkloadRequeued, yes, kueue.ReasonPreempted)
		})
	}
}

func TestLifetime(t *testing.T) {
	m, reg := newMetrics(t)
	live(follow(m))
	got := map[string]string{}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, s := range f.GetMetric() {
			switch h := s.GetHistogram(); {
			case h != nil:
				got[f.GetName()] = time.Duration(
					h.GetSampleSum()*float64(time.Second),
				).String() + " in " + strings.Repeat(
					"I",
					int(h.GetSampleCount()),
				)
			case s.GetCounter().GetValue() > 0:
				got[f.GetName()] += strings.Repeat("I", int(s.GetCounter().GetValue()))
			}
		}
	}
	want := map[string]string{
		"kueue_admission_checks_wait_time_seconds":                 "20s in II",
		"kueue_local_queue_admission_checks_wait_time_seconds":     "20s in II",
		"kueue_admitted_until_ready_wait_time_seconds":             "20s in II",
		"kueue_local_queue_admitted_until_ready_wait_time_seconds": "20s in II",
		// 30 s after it was made, and 30 s after it was queued again.
		"kueue_ready_wait_time_seconds":             "1m0s in II",
		"kueue_local_queue_ready_wait_time_seconds": "1m0s in II",
		"kueue_pods_ready_to_evicted_time_seconds":  "20s in II",
		"kueue_workload_eviction_latency_seconds":   "20s in II",
		"kueue_evicted_workloads_total":             "II",
		"kueue_local_queue_evicted_workloads_total": "II",
		"kueue_evicted_workloads_once_total":        "I",
		"kueue_workload_creation_latency_seconds":   "300ms in I",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sums and numbers of what was measured (-want +got):\n%s", diff)
	}
}

func TestPopulation(t *testing.T) {
	m, reg := newMetrics(t)
	m.SetLocalQueue(view.LocalQueue{Namespace: "blue", Name: "l", Queue: "q"})
	names := []string{
		"kueue_unadmitted_workloads",
		"kueue_local_queue_unadmitted_workloads",
		"kueue_finished_workloads",
		"kueue_local_queue_finished_workloads",
	}
	h := follow(m)
	expect(
		t,
		reg,
		"the scheduler has not looked at it, but its LocalQueue is known",
		`kueue_local_queue_unadmitted_workloads{cluster_queue="q",name="l",namespace="blue",reason="NoReservation",replica_role="standalone",underlying_cause="PendingEvaluation"} 1
kueue_unadmitted_workloads{cluster_queue="q",reason="NoReservation",replica_role="standalone",underlying_cause="PendingEvaluation"} 1
`,
		names...)
	live(h)
	expect(
		t,
		reg,
		"it was queued again",
		`kueue_local_queue_unadmitted_workloads{cluster_queue="q",name="l",namespace="blue",reason="NoReservation",replica_role="standalone",underlying_cause="Pending"} 1
kueue_unadmitted_workloads{cluster_queue="q",reason="NoReservation",replica_role="standalone",underlying_cause="Pending"} 1
`,
		names...)
	h.write(func(s *kueue.WorkloadStatus, set func(string, metav1.ConditionStatus, string)) {
		s.Admission = &kueue.Admission{ClusterQueue: "q"}
		set(kueue.WorkloadQuotaReserved, metav1.ConditionTrue, kueue.ReasonQuotaReserved)
		set(kueue.WorkloadAdmitted, metav1.ConditionFalse, kueue.ReasonUnsatisfiedAdmissionChecks)
	})
	expect(
		t,
		reg,
		"it waits for checks",
		`kueue_local_queue_unadmitted_workloads{cluster_queue="q",name="l",namespace="blue",reason="UnsatisfiedAdmissionChecks",replica_role="standalone",underlying_cause=""} 1
kueue_unadmitted_workloads{cluster_queue="q",reason="UnsatisfiedAdmissionChecks",replica_role="standalone",underlying_cause=""} 1
`,
		names...)
	h.write(func(_ *kueue.WorkloadStatus, set func(string, metav1.ConditionStatus, string)) {
		set(kueue.WorkloadAdmitted, metav1.ConditionTrue, kueue.ReasonAdmitted)
	})
	expect(t, reg, "it runs", "", names...)
	h.write(func(_ *kueue.WorkloadStatus, set func(string, metav1.ConditionStatus, string)) {
		set(kueue.WorkloadFinished, metav1.ConditionTrue, kueue.ReasonSucceeded)
	})
	expect(t, reg, "it ended",
		`kueue_finished_workloads{cluster_queue="q",replica_role="standalone"} 1
kueue_local_queue_finished_workloads{name="l",namespace="blue",replica_role="standalone"} 1
`, names...)
	h.handler.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: h.now})
	expect(t, reg, "it was deleted", "", names...)
}

// everything makes all metrics show something.
func everything(m *metrics.Metrics) {
	quotas := []core.FlavorQuotas{{Flavor: "f", Quotas: []core.Quota{{Resource: core.CPU, Nominal: 1000}}}}
	m.SetQueue(view.ClusterQueue{
		Name:    "q",
		Cohorts: []string{"c", "root"},
		State:   view.QueueActive,
		Flavors: quotas,
		Load:    core.Load{Share: &core.Share{}},
	})
	m.SetCohortShare("c", 5)
	m.SetLocalQueue(view.LocalQueue{Namespace: "blue", Name: "l", Queue: "q", Active: "True", Flavors: quotas})
	w := metrics.Workload{ClusterQueue: "q", Namespace: "blue", LocalQueue: "l", PriorityClass: "p"}
	m.JobEnded(&history.JobRecord{
		ClusterQueue:  "q",
		AttemptsTotal: &history.AttemptSum{Attempts: 1, Start: new(metav1.Unix(0, 0))},
	})
	m.NodeHealth(
		map[nodehealth.State]int{nodehealth.Healthy: 1},
		map[string]int{"f": 1},
		[]nodehealth.State{nodehealth.Healthy},
		1,
	)
	m.DeepTests(map[string]int{"f": 1})
	m.Capacity(
		map[string][]nodehealth.Capacity{"f": {{Resource: "r", Planned: 1, Promised: 1, ShortSince: start}}},
	)
	m.Hung(&kueue.Workload{Status: kueue.WorkloadStatus{Admission: &kueue.Admission{ClusterQueue: "q"}}}, true)
	m.Attempted(metrics.Success, time.Millisecond)
	m.QuotaReserved(w, time.Second)
	m.Admitted(w, time.Second)
	m.Finished(w, time.Second)
	m.Preempted("q", "InClusterQueue")
	m.SetTreeStats(func() (cycle.Stats, bool) {
		return cycle.Stats{
			Queues: []cycle.QueueStats{
				{
					Name:          "q",
					Cohort:        "c",
					Root:          "root",
					ActiveClasses: 2,
					Pending:       core.Resources{{Resource: core.CPU, Amount: 1500}},
				},
			},
			Cohorts: []cycle.CohortStats{
				{
					Name:     "c",
					Parent:   "root",
					Root:     "root",
					Admitted: 3,
					Amounts: []cycle.SubtreeAmount{
						{FlavorResource: core.FlavorResource{Flavor: "f", Resource: core.CPU}, Quota: 2500, Reserved: 500},
					},
				},
			},
			UsageRanks: []cycle.LocalUsageRank{
				{Namespace: "blue", Name: "l", Queue: "q", UsageRank: core.UsageRank{Lo: 2500 << 32}},
			},
		}, true
	})
	m.SetEstimates(func() forecast.Tally { return forecast.Tally{Right: [2]int{5, 9}, Wrong: [2]int{4, 1}} })
	h := follow(m)
	live(h)
	end := h.now.DeepCopy()
	end.Name = "ended"
	end.Status.Conditions = []metav1.Condition{{Type: kueue.WorkloadFinished, Status: metav1.ConditionTrue}}
	h.handler.OnAdd(end, true)
}

func TestEstimatesAreCounted(t *testing.T) {
	m, reg := newMetrics(t)
	everything(m)
	expect(t, reg, "half and nine in ten are to be right",
		`kueue_start_estimates_total{quantile="0.5",replica_role="standalone",result="late"} 4
kueue_start_estimates_total{quantile="0.5",replica_role="standalone",result="right"} 5
kueue_start_estimates_total{quantile="0.9",replica_role="standalone",result="late"} 1
kueue_start_estimates_total{quantile="0.9",replica_role="standalone",result="right"} 9
`, "kueue_start_estimates_total")
}

func TestTreeStatsAreShown(t *testing.T) {
	m, reg := newMetrics(t)
	everything(m)
	expect(
		t,
		reg,
		"amounts are in cores, standings in what weighs one",
		`kueue_cluster_queue_info{cluster_queue="q",parent_cohort="c",replica_role="standalone",root_cohort="root"} 1
kueue_cluster_queue_resource_pending{cluster_queue="q",replica_role="standalone",resource="cpu"} 1.5
kueue_cohort_info{cohort="c",parent_cohort="root",replica_role="standalone",root_cohort="root"} 1
kueue_cohort_subtree_admitted_active_workloads{cohort="c",replica_role="standalone"} 3
kueue_cohort_subtree_admitted_workloads_total{cohort="c",priority_class="p",replica_role="standalone"} 1
kueue_cohort_subtree_admitted_workloads_total{cohort="root",priority_class="p",replica_role="standalone"} 1
kueue_cohort_subtree_quota{cohort="c",flavor="f",replica_role="standalone",resource="cpu"} 2.5
kueue_cohort_subtree_resource_reservations{cohort="c",flavor="f",replica_role="standalone",resource="cpu"} 0.5
kueue_local_queue_admission_fair_sharing_usage{cluster_queue="q",name="l",namespace="blue",replica_role="standalone"} 2.5
kueue_pending_scheduling_hashes{cluster_queue="q",replica_role="standalone",status="active"} 2
kueue_pending_scheduling_hashes{cluster_queue="q",replica_role="standalone",status="inadmissible"} 0
`,
		"kueue_cluster_queue_info",
		"kueue_cluster_queue_resource_pending",
		"kueue_cohort_info",
		"kueue_cohort_subtree_admitted_active_workloads",
		"kueue_cohort_subtree_admitted_workloads_total",
		"kueue_cohort_subtree_quota",
		"kueue_cohort_subtree_resource_reservations",
		"kueue_local_queue_admission_fair_sharing_usage",
		"kueue_pending_scheduling_hashes",
	)
}

// TestDocumented compares what is exposed with the table in docs/metrics.md:
// name, type and labels, which dashboards and alerts depend on.
func TestDocumented(t *testing.T) {
	m, reg := newMetrics(t)
	everything(m)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range families {
		got[strings.TrimPrefix(f.GetName(), "kueue_")] = strings.ToLower(
			f.GetType().String(),
		) + " of " + labelsOf(
			f.GetMetric()[0],
		)
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\w+) \\| ([^|]*) \\|").FindAllStringSubmatch(string(page), -1) {
		labels := strings.Fields(strings.ReplaceAll(row[3], ",", " "))
		if row[1] != "build_info" {
			labels = append(labels, "replica_role")
		}
		slices.Sort(labels)
		want[row[1]] = row[2] + " of " + strings.Join(labels, " ")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/metrics.md and what is exposed (-documented +exposed):\n%s", diff)
	}
}

func labelsOf(m *dto.Metric) string {
	var names []string
	for _, l := range m.GetLabel() {
		names = append(names, l.GetName())
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}
