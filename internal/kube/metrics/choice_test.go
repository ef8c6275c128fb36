package metrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/view"
)

func TestChoice(t *testing.T) {
	yes := map[string]string{"metrics": "yes"}
	cases := map[string]struct {
		why    string
		choice Choice
		labels map[string]string
		want   int // series: one of quotas, three of LocalQueues
	}{
		"all":           {"nothing is left out", Choice{}, nil, 4},
		"no quotas":     {"a series for each flavor and resource is many", Choice{NoQueueResources: true}, nil, 3},
		"no LocalQueue": {"there may be thousands", Choice{NoLocalQueues: true}, yes, 1},
		"selected":      {"its labels match", Choice{LocalQueues: labels.SelectorFromSet(yes)}, yes, 4},
		"not selected":  {"its labels do not", Choice{LocalQueues: labels.SelectorFromSet(yes)}, nil, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			reg := prometheus.NewRegistry()
			show, err := New(reg, Options{Choice: c.choice})
			if err != nil {
				t.Fatal(err)
			}
			show.SetQueue(
				view.ClusterQueue{
					Name:    "q",
					State:   view.QueueActive,
					Flavors: []core.FlavorQuotas{{Flavor: "f", Quotas: []core.Quota{{Resource: "cpu"}}}},
				},
			)
			show.SetLocalQueue(view.LocalQueue{Namespace: "n", Name: "l", Active: "True", Labels: c.labels})
			show.Admitted(Workload{ClusterQueue: "q", Namespace: "n", LocalQueue: "l"}, 0)
			n, err := testutil.GatherAndCount(
				reg,
				"kueue_cluster_queue_nominal_quota",
				"kueue_local_queue_admitted_active_workloads",
				"kueue_local_queue_admitted_workloads_total",
				"kueue_local_queue_admission_wait_time_seconds",
			)
			if err != nil || n != c.want {
				t.Errorf("%s: %d series, want %d (%v)", c.why, n, c.want, err)
			}
		})
	}
}

func TestALocalQueueThatIsNoLongerChosenGoes(t *testing.T) {
	reg := prometheus.NewRegistry()
	show, err := New(
		reg,
		Options{Choice: Choice{LocalQueues: labels.SelectorFromSet(map[string]string{"a": "b"})}},
	)
	if err != nil {
		t.Fatal(err)
	}
	show.SetLocalQueue(
		view.LocalQueue{Namespace: "n", Name: "l", Active: "True", Labels: map[string]string{"a": "b"}},
	)
	w := Workload{ClusterQueue: "q", Namespace: "n", LocalQueue: "l"}
	show.Admitted(w, 0)
	show.SetLocalQueue(view.LocalQueue{Namespace: "n", Name: "l", Active: "True"})
	show.Admitted(w, 0)
	show.Finished(Workload{ClusterQueue: "q", Namespace: "n", LocalQueue: "never seen"}, 0)
	if n, err := testutil.GatherAndCount(
		reg,
		"kueue_local_queue_admitted_active_workloads",
		"kueue_local_queue_admitted_workloads_total",
		"kueue_local_queue_finished_workloads_total",
	); err != nil || n != 0 {
		t.Errorf("%d series are left (%v)", n, err)
	}
}
