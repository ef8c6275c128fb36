package cycle_test

import (
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// A gang that was stopped because a node failed goes on within what its queue was promised, also while that is cut: it
// holds its quota, and a cut takes nothing from what runs. A quota that somebody lowered does.
func TestACutHoldsUpNoInterruptedGang(t *testing.T) {
	for why, c := range map[string]struct {
		nominal, cut core.Amount
		goesOn       bool
	}{
		"nothing is cut":               {16, 0, true},
		"some of it is cut":            {11, 5, true},
		"all of it is cut":             {0, 16, true},
		"somebody lowered it":          {11, 0, false},
		"it was lowered, and then cut": {6, 5, false},
	} {
		now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		gpus := func(n core.Amount) core.Resources {
			return core.MakeResources(map[string]core.Amount{core.GPU: n, core.Pods: 100})
		}
		e := cycle.New(cycle.Options{KeepNodes: true})
		queue := func(nominal, cut core.Amount) {
			e.Apply(core.QueueSet{Queue: core.Queue{
				Name: "q", Namespaces: &core.Selector{}, Groups: []core.ResourceGroup{{
					Covered: []string{core.GPU}, Flavors: []core.FlavorQuotas{{
						Flavor: "h100", Quotas: []core.Quota{{Resource: core.GPU, Nominal: nominal, Cut: cut}},
					}},
				}},
			}})
		}
		node := func(name string, state core.NodeState) {
			e.Apply(core.NodeSet{Node: core.Node{Name: name, State: state, Allocatable: gpus(8)}})
		}
		e.Apply(core.FlavorSet{Flavor: core.Flavor{Name: "h100"}})
		queue(16, 0)
		e.Apply(core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: "t", Name: "q", Queue: "q"}})
		e.Apply(core.NamespaceSet{Namespace: core.Namespace{Name: "t"}})
		node("n1", core.NodeReady)
		node("n2", core.NodeReady)
		w := core.Workload{
			Key: core.Key{Namespace: "t", Name: "g"}, UID: "g", Queue: "q", Created: now, QueueTime: now,
			PodSets: []core.PodSet{{
				Name: "worker", Count: 2, Requests: core.MakeResources(map[string]core.Amount{core.GPU: 8}),
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
		queue(c.nominal, c.cut)
		step()
		node("n3", core.NodeReady)
		step()
		if !interrupted || resumed != c.goesOn {
			t.Errorf("%s: it is interrupted: %t, and goes on: %t, want %t", why, interrupted, resumed, c.goesOn)
		}
	}
}
