package cycle_test

import (
	"fmt"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/engine/explain"
)

// A whole decision: what there is goes in as events, and a plan comes out. The first
// job gets quota and nodes; for the second, which needs both of the two nodes as well,
// the plan has a reason.
func Example() {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	gpus := func(n core.Amount) core.Resources {
		return core.MakeResources(map[string]core.Amount{core.GPU: n})
	}
	e := cycle.New(cycle.Options{})
	e.Apply(core.FlavorSet{Flavor: core.Flavor{Name: "h100"}})
	e.Apply(
		core.QueueSet{Queue: core.Queue{Name: "blue", Namespaces: &core.Selector{}, Groups: []core.ResourceGroup{{
			Covered: []string{core.GPU},
			Flavors: []core.FlavorQuotas{{Flavor: "h100", Quotas: []core.Quota{{Resource: core.GPU, Nominal: 24}}}},
		}}}},
	)
	e.Apply(core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: "team", Name: "q", Queue: "blue"}})
	for _, name := range []string{"node-1", "node-2"} {
		e.Apply(
			core.NodeSet{
				Node: core.Node{Name: name, State: core.NodeReady, Allocatable: gpus(8).With(core.Pods, 100)},
			},
		)
	}
	for i, name := range []string{"train", "tune"} {
		e.Apply(core.WorkloadSet{Workload: core.Workload{
			Key: core.Key{Namespace: "team", Name: name}, UID: name, Queue: "q",
			Created: now, QueueTime: now.Add(time.Duration(i) * time.Second),
			PodSets: []core.PodSet{{Name: "worker", Count: 2, Requests: gpus(6)}},
		}})
	}

	for _, d := range e.Decide(now) {
		switch d := d.(type) {
		case core.Admit:
			fmt.Println(d.Key, "starts on", d.Admission.PodSets[0].Places)
		case core.Refuse:
			fmt.Println(d.Key, "waits:", explain.Sentence(d.Why))
		}
	}
	// Output:
	// team/train starts on [{node-1 1} {node-2 1}]
	// team/tune waits: couldn't assign flavors to pod set worker: nodes of flavor h100 have room for only 0 out of 2 pod(s). Total nodes: 2
}
