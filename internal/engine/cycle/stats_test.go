package cycle_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// TestHeldWorkloadsAreNotCountedAsWaiting: nothing lets them start but their users.
func TestHeldWorkloadsAreNotCountedAsWaiting(t *testing.T) {
	e := cycle.New(cycle.Options{})
	all := core.Selector{}
	quota := []core.ResourceGroup{
		{
			Covered: []string{core.CPU},
			Flavors: []core.FlavorQuotas{{Flavor: "f", Quotas: []core.Quota{{Resource: core.CPU, Nominal: 4000}}}},
		},
	}
	e.Apply(core.FlavorSet{Flavor: core.Flavor{Name: "f"}})
	e.Apply(core.QueueSet{Queue: core.Queue{Name: "a", Namespaces: &all, Groups: quota}})
	for _, name := range []string{"q", "r"} {
		e.Apply(core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: "a", Name: name, Queue: "a"}})
	}
	job := func(held, queue string) core.WorkloadSet {
		w := cpuJob("job", 0, 100)
		w.Held, w.Queue = held, queue
		return core.WorkloadSet{Workload: w}
	}
	expect := func(when string, waiting, q, r int) {
		t.Helper()
		steps(t, e, 200)
		if err := e.Check(); err != nil {
			t.Fatal(err)
		}
		told := 0
		e.EachWaiting(func(string, core.Key, bool) { told++ })
		if told != waiting {
			t.Errorf("%s: told of %d that wait, want %d", when, told, waiting)
		}
		if got := [3]int{
			e.Load("a").Waiting(),
			e.LocalLoad("a", "q").Waiting(),
			e.LocalLoad("a", "r").Waiting(),
		}; got != [3]int{
			waiting,
			q,
			r,
		} {
			t.Errorf("%s: %v wait in the queue and its LocalQueues, want %d, %d, %d", when, got, waiting, q, r)
		}
	}
	e.Apply(job("", "q"))
	expect("it waits", 1, 1, 0)
	e.Apply(job("its user wants it so", "q"))
	expect("it is held", 0, 0, 0)
	e.Apply(job("its user wants it so", "r"))
	expect("and moved", 0, 0, 0)
	e.Apply(job("", "r"))
	expect("and released", 1, 0, 1)
	e.Apply(job("its user wants it so", "r"))
	e.Apply(core.WorkloadGone{Key: core.Key{Namespace: "a", Name: "job"}})
	expect("it is gone", 0, 0, 0)
	e.Apply(job("", "r"))
	expect("another one comes", 1, 0, 1)
}

func TestStats(t *testing.T) {
	e := cycle.New(cycle.Options{})
	all := core.Selector{}
	quota := func(nominal core.Amount, lending *core.Amount) []core.ResourceGroup {
		return []core.ResourceGroup{
			{
				Covered: []string{core.CPU},
				Flavors: []core.FlavorQuotas{
					{Flavor: "f", Quotas: []core.Quota{{Resource: core.CPU, Nominal: nominal * 1000, Lending: lending}}},
				},
			},
		}
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
	if queue, local := e.Load(
		"a",
	), e.LocalLoad(
		"a",
		"q",
	); queue.Pending != local.Pending || queue.Inadmissible != local.Inadmissible ||
		local.Inadmissible != 3 {
		t.Errorf(
			"the queue has %d that wait and %d that are parked, its only LocalQueue %d and %d",
			queue.Pending,
			queue.Inadmissible,
			local.Pending,
			local.Inadmissible,
		)
	}
	fr := core.FlavorResource{Flavor: "f", Resource: core.CPU}
	want := cycle.Stats{
		Cohorts: []cycle.CohortStats{
			// b's 3, team's 2 and the 1 that a lends.
			{
				Name:     "org",
				Parent:   "",
				Root:     "org",
				Admitted: 1,
				Amounts:  []cycle.SubtreeAmount{{FlavorResource: fr, Quota: 6000, Reserved: 3000}},
			},
			{
				Name:     "team",
				Parent:   "org",
				Root:     "org",
				Admitted: 1,
				Amounts:  []cycle.SubtreeAmount{{FlavorResource: fr, Quota: 3000, Reserved: 3000}},
			},
		},
		Queues: []cycle.QueueStats{
			{
				Name:          "a",
				Cohort:        "team",
				Root:          "org",
				ParkedClasses: 2,
				Pending:       core.MakeResources(map[string]core.Amount{core.CPU: 500_000, core.Pods: 3}),
			},
			{Name: "alone", Pending: core.Resources{}},
			{Name: "b", Cohort: "org", Root: "org", Pending: core.Resources{}},
		},
	}
	if diff := cmp.Diff(want, e.Stats()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
