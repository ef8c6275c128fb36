package cycle_test

import (
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// A gang that was stopped because a node failed goes on within what its queue was promised, also while that is cut: it
// holds its quota, and a cut takes nothing from what runs. A quota that somebody lowered does, whatever else is cut.
func TestACutHoldsUpNoInterruptedGang(t *testing.T) {
	for why, c := range map[string]struct {
		nominal, cut core.Amount
		goesOn       bool
		// other is the quota of a queue that uses 8, and cpus are what is cut of the CPUs.
		other, cpus core.Amount
	}{
		"nothing is cut":                            {16, 0, true, 8, 0},
		"some of it is cut":                         {11, 5, true, 8, 0},
		"all of it is cut":                          {0, 16, true, 8, 0},
		"somebody lowered it":                       {11, 0, false, 8, 0},
		"it was lowered, and then cut":              {6, 5, false, 8, 0},
		"CPUs are cut":                              {16, 0, true, 8, 100},
		"others have lost theirs, and CPUs are cut": {16, 0, false, 0, 100},
	} {
		now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		gpus := func(n core.Amount) core.Resources {
			return core.MakeResources(map[string]core.Amount{core.CPU: 1000, core.GPU: n, core.Pods: 100})
		}
		e := cycle.New(cycle.Options{KeepNodes: true})
		queue := func(name string, nominal, cut, cpus core.Amount) {
			e.Apply(core.QueueSet{Queue: core.Queue{
				Name: name, Cohort: "tree", Namespaces: &core.Selector{}, Groups: []core.ResourceGroup{{
					Covered: []string{core.CPU, core.GPU}, Flavors: []core.FlavorQuotas{{
						Flavor: "h100", Quotas: []core.Quota{
							{Resource: core.CPU, Nominal: 1000 - cpus, Cut: cpus},
							{Resource: core.GPU, Nominal: nominal, Cut: cut},
						},
					}},
				}},
			}})
			e.Apply(core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: "t", Name: name, Queue: name}})
		}
		node := func(name string, state core.NodeState) {
			e.Apply(core.NodeSet{Node: core.Node{Name: name, State: state, Allocatable: gpus(8)}})
		}
		e.Apply(core.FlavorSet{Flavor: core.Flavor{Name: "h100"}})
		queue("q", 16, 0, 0)
		queue("s", 8, 0, 0)
		e.Apply(core.NamespaceSet{Namespace: core.Namespace{Name: "t"}})
		asks := core.MakeResources(map[string]core.Amount{core.CPU: 1, core.GPU: 8})
		node("n0", core.NodeReady)
		e.Apply(core.WorkloadSet{Workload: core.Workload{
			Key: core.Key{
				Namespace: "t",
				Name:      "other",
			},
			UID:       "o",
			Queue:     "s",
			Created:   now,
			QueueTime: now,
			Reserved:  now,
			PodSets:   []core.PodSet{{Name: "worker", Count: 1, Requests: asks}},
			Admitted:  true,
			Admission: &core.Admission{Queue: "s", PodSets: []core.PodSetAdmission{{
				Name: "worker", Count: 1, Usage: asks, Places: []core.Place{{Node: "n0", Count: 1}},
				Flavors: []core.FlavorChoice{
					{Resource: core.CPU, Flavor: "h100"}, {Resource: core.GPU, Flavor: "h100"},
				},
			}}},
		}})
		node("n1", core.NodeReady)
		node("n2", core.NodeReady)
		w := core.Workload{
			Key: core.Key{Namespace: "t", Name: "g"}, UID: "g", Queue: "q", Created: now, QueueTime: now,
			PodSets: []core.PodSet{{
				Name: "worker", Count: 2, Requests: asks,
			}},
		}
		resumed, interrupted := false, false
		step := func() {
			now = now.Add(time.Minute)
			for _, d := range e.Decide(now) {
				switch d := d.(type) {
				case core.Admit:
					w.Admission, w.Admitted, w.Reserved = &d.Admission, true, now
					resumed = resumed || d.Resumes
				case core.Evict:
					interrupted = interrupted || d.Interrupts
				case core.Refuse, core.Replace:
				}
			}
		}
		show := func() {
			w.Seq++
			e.Apply(core.WorkloadSet{Workload: w})
		}
		show()
		step()
		show()
		node("n2", core.NodeLost)
		step()
		w.Evicting, w.Interruption = true, core.InterruptedStopped
		show()
		queue("q", c.nominal, c.cut, c.cpus)
		queue("s", c.other, 0, 0)
		step()
		node("n3", core.NodeReady)
		step()
		if !interrupted || resumed != c.goesOn {
			t.Errorf("%s: it is interrupted: %t, and goes on: %t, want %t", why, interrupted, resumed, c.goesOn)
		}
	}
}
