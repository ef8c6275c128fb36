package cycle_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

func TestStats(t *testing.T) {
	e := cycle.New(cycle.Options{})
	all := core.Selector{}
	quota := func(nominal core.Amount, lending *core.Amount) []core.ResourceGroup {
		return []core.ResourceGroup{{
			Covered: []string{core.CPU},
			Flavors: []core.FlavorQuotas{{Flavor: "f", Quotas: []core.Quota{{Resource: core.CPU, Nominal: nominal * 1000, Lending: lending}}}},
		}}
	}
	one := core.Amount(1000)
	events := []core.Event{
		core.FlavorSet{Flavor: core.Flavor{Name: "f"}},
		core.CohortSet{Cohort: core.Cohort{Name: "team", Parent: "org", Groups: quota(2, nil)}},
		core.QueueSet{Queue: core.Queue{Name: "a", Cohort: "team", Namespaces: &all, Groups: quota(4, &one)}},
		core.QueueSet{Queue: core.Queue{Name: "b", Cohort: "org", Namespaces: &all, Groups: quota(3, nil)}},
		core.QueueSet{Queue: core.Queue{Name: "alone", Namespaces: &all, Groups: quota(1, nil)}},
		core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: "a", Name: "q", Queue: "a"}},
		core.WorkloadSet{Workload: cpuJob("runs", 1, 3)},
		core.WorkloadSet{Workload: cpuJob("big", 0, 100)},
		core.WorkloadSet{Workload: cpuJob("bigger", 0, 200)},
		core.WorkloadSet{Workload: cpuJob("twin", 0, 200)},
	}
	for _, ev := range events {
		e.Apply(ev)
	}
	steps(t, e, 200)
	if queue, local := e.Load("a"), e.LocalLoad("a", "q"); queue.Pending != local.Pending || queue.Inadmissible != local.Inadmissible || local.Inadmissible != 3 {
		t.Errorf("the queue has %d that wait and %d that are parked, its only LocalQueue %d and %d", queue.Pending, queue.Inadmissible, local.Pending, local.Inadmissible)
	}
	fr := core.FlavorResource{Flavor: "f", Resource: core.CPU}
	want := cycle.Stats{
		Cohorts: []cycle.CohortStats{
			// b's 3, team's 2 and the 1 that a lends.
			{Name: "org", Parent: "", Root: "org", Admitted: 1, Amounts: []cycle.SubtreeAmount{{FlavorResource: fr, Quota: 6000, Reserved: 3000}}},
			{Name: "team", Parent: "org", Root: "org", Admitted: 1, Amounts: []cycle.SubtreeAmount{{FlavorResource: fr, Quota: 3000, Reserved: 3000}}},
		},
		Queues: []cycle.QueueStats{
			{Name: "a", Cohort: "team", Root: "org", ParkedClasses: 2, Pending: core.MakeResources(map[string]core.Amount{core.CPU: 500_000, core.Pods: 3})},
			{Name: "alone", Pending: core.Resources{}},
			{Name: "b", Cohort: "org", Root: "org", Pending: core.Resources{}},
		},
	}
	if diff := cmp.Diff(want, e.Stats()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
