package metrics_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/metrics"
	"github.com/mlbatch/mlbatch/internal/view"
)

func withLabels(
	t *testing.T,
	role func() metrics.Role,
	labels ...metrics.CustomLabel,
) (*metrics.Metrics, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	m, err := metrics.New(reg, metrics.Options{Role: role, Labels: labels})
	if err != nil {
		t.Fatal(err)
	}
	return m, reg
}

func described(o client.Object, namespace, name string, labels, annotations map[string]string) client.Object {
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
	return o
}

func team(name string) map[string]string { return map[string]string{"team": name, "tier": name} }

func TestTheRoleIsThatOfTheMoment(t *testing.T) {
	role := metrics.RoleFollower
	m, reg := withLabels(t, func() metrics.Role { return role })
	m.SetCohortShare("c", 1)
	for _, r := range []metrics.Role{metrics.RoleFollower, metrics.RoleLeader} {
		role = r
		expect(t, reg, "there is one series, with the role of now",
			`kueue_cohort_weighted_share{cohort="c",replica_role="`+string(r)+`"} 1
`, "kueue_cohort_weighted_share")
	}
}

func TestCustomLabels(t *testing.T) {
	m, reg := withLabels(
		t,
		standalone,
		metrics.CustomLabel{Name: "team", From: metrics.SourceClusterQueue, Label: "team"},
		metrics.CustomLabel{
			Name:       "budget",
			From:       metrics.SourceClusterQueue,
			Annotation: "budget",
			Tracked:    []string{"red"},
		},
		metrics.CustomLabel{Name: "tier", From: metrics.SourceLocalQueue, Label: "tier"},
		metrics.CustomLabel{Name: "org", From: metrics.SourceCohort, Label: "team"},
	)
	names := []string{
		"kueue_admitted_workloads_total",
		"kueue_local_queue_admitted_workloads_total",
		"kueue_preempted_workloads_total",
		"kueue_cohort_weighted_share",
	}
	m.Admitted(metrics.Workload{ClusterQueue: "q", Namespace: "n", LocalQueue: "l"}, 0)
	m.Preempted("q", "InClusterQueue")
	m.SetCohortShare("c", 1)
	series := func(team, budget, tier, org string) string {
		return `kueue_admitted_workloads_total{cluster_queue="q",custom_budget="` + budget + `",custom_team="` + team + `",priority_class="",replica_role="standalone"} 1
kueue_local_queue_admitted_workloads_total{custom_tier="` + tier + `",name="l",namespace="n",priority_class="",replica_role="standalone"} 1
kueue_preempted_workloads_total{custom_budget="` + budget + `",custom_team="` + team + `",preempting_cluster_queue="q",reason="InClusterQueue",replica_role="standalone"} 1
kueue_cohort_weighted_share{cohort="c",custom_org="` + org + `",replica_role="standalone"} 1
`
	}
	expect(t, reg, "nothing is known of the objects yet", series("", "", "", ""), names...)

	queues := m.Objects(metrics.SourceClusterQueue)
	queues.OnAdd(described(&kueue.ClusterQueue{}, "", "q", team("a"), map[string]string{"budget": "red"}), true)
	m.Objects(metrics.SourceLocalQueue).OnAdd(described(&kueue.LocalQueue{}, "n", "l", team("b"), nil), true)
	m.Objects(metrics.SourceCohort).OnAdd(described(&kueue.Cohort{}, "", "c", team("d"), nil), true)
	expect(t, reg, "series carry what their object says", series("a", "red", "b", "d"), names...)

	green := described(&kueue.ClusterQueue{}, "", "q", nil, map[string]string{"budget": "green"})
	queues.OnUpdate(nil, green)
	expect(
		t,
		reg,
		"a change takes the series along; what is not tracked is not shown",
		series("", metrics.Untracked, "b", "d"),
		names...)

	queues.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: green})
	expect(t, reg, "it is gone", series("", "", "b", "d"), names...)
}

func TestLongValuesAreCut(t *testing.T) {
	m, reg := withLabels(
		t,
		standalone,
		metrics.CustomLabel{Name: "x", From: metrics.SourceCohort, Annotation: "x"},
	)
	m.SetCohortShare("c", 1)
	long := "a" + strings.Repeat("é", 1000)
	m.Objects(metrics.SourceCohort).
		OnAdd(described(&kueue.Cohort{}, "", "c", nil, map[string]string{"x": long}), true)
	expect(
		t,
		reg,
		"an annotation may be a whole document; no character is cut in two",
		`kueue_cohort_weighted_share{cohort="c",custom_x="a`+strings.Repeat(
			"é",
			127,
		)+`",replica_role="standalone"} 1
`,
		"kueue_cohort_weighted_share",
	)
}

func TestWorkloadLabelsDivideThoseThatWait(t *testing.T) {
	m, reg := withLabels(t, standalone,
		metrics.CustomLabel{Name: "team", From: metrics.SourceClusterQueue, Label: "team"},
		metrics.CustomLabel{Name: "kind", From: metrics.SourceWorkload, Label: "kind", Tracked: []string{"train"}})
	m.Objects(metrics.SourceClusterQueue).OnAdd(described(&kueue.ClusterQueue{}, "", "q", team("a"), nil), true)
	works := m.Objects(metrics.SourceWorkload)
	for name, kind := range map[string]string{"one": "train", "two": "train", "three": "serve"} {
		works.OnAdd(described(&kueue.Workload{}, "n", name, map[string]string{"kind": kind}, nil), true)
	}
	m.SetQueue(view.ClusterQueue{Name: "q", Load: core.Load{Pending: 9}})
	m.SetWaiting(func(tell metrics.Visit) {
		for _, name := range []string{"one", "two", "three"} {
			tell("q", core.Key{Namespace: "n", Name: name}, name == "two")
		}
	})
	expect(
		t,
		reg,
		"each status and value has a series; labels of the queue are there too",
		`kueue_pending_workloads{cluster_queue="q",custom_kind="train",custom_team="a",replica_role="standalone",status="active"} 1
kueue_pending_workloads{cluster_queue="q",custom_kind="train",custom_team="a",replica_role="standalone",status="inadmissible"} 1
kueue_pending_workloads{cluster_queue="q",custom_kind="`+metrics.Untracked+`",custom_team="a",replica_role="standalone",status="active"} 1
`,
		"kueue_pending_workloads",
	)

	m.SetRunning(func(tell func(string, core.Key)) {
		tell("q", core.Key{Namespace: "n", Name: "two"})
		tell("q", core.Key{Namespace: "n", Name: "three"})
	})
	expect(
		t,
		reg,
		"those that run are divided likewise",
		`kueue_admitted_active_workloads{cluster_queue="q",custom_kind="train",custom_team="a",replica_role="standalone"} 1
kueue_admitted_active_workloads{cluster_queue="q",custom_kind="`+metrics.Untracked+`",custom_team="a",replica_role="standalone"} 1
`,
		"kueue_admitted_active_workloads",
	)

	done := &kueue.Workload{
		Status: kueue.WorkloadStatus{
			Conditions: []metav1.Condition{{Type: kueue.WorkloadFinished, Status: metav1.ConditionTrue}},
		},
	}
	works.OnUpdate(nil, described(done, "n", "one", map[string]string{"kind": "train"}, nil))
	m.SetWaiting(func(tell metrics.Visit) { tell("q", core.Key{Namespace: "n", Name: "one"}, false) })
	expect(
		t,
		reg,
		"nothing is kept of what finished",
		`kueue_pending_workloads{cluster_queue="q",custom_kind="",custom_team="a",replica_role="standalone",status="active"} 1
`,
		"kueue_pending_workloads",
	)
}

func TestLabelsOfWorkloadsAreFew(t *testing.T) {
	label := metrics.CustomLabel{From: metrics.SourceWorkload}
	if _, err := metrics.New(
		prometheus.NewRegistry(),
		metrics.Options{Labels: []metrics.CustomLabel{label, label, label}},
	); err == nil {
		t.Error("three labels of Workloads were taken")
	}
}
