package sim_test

import (
	"fmt"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/sim"
)

// A small world: one queue of 8 GPUs and two jobs that want all of them, for an hour
// each. Virtual time passes at once; the second job waits for the first.
func Example() {
	gpus := core.MakeResources(map[string]core.Amount{core.GPU: 8})
	job := func(name string, submit time.Duration) sim.Job {
		return sim.Job{
			Key: core.Key{Namespace: "team", Name: name}, UID: name, Queue: "q", Submit: submit, Work: time.Hour,
			PodSets: []core.PodSet{{Name: "main", Count: 1, Requests: gpus}},
		}
	}
	world := sim.World{
		Name: "small", Seed: 1, Start: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC),
		Objects: []core.Event{
			core.FlavorSet{Flavor: core.Flavor{Name: "h100"}},
			core.QueueSet{Queue: core.Queue{Name: "blue", Namespaces: &core.Selector{}, Groups: []core.ResourceGroup{{
				Covered: []string{core.GPU},
				Flavors: []core.FlavorQuotas{{Flavor: "h100", Quotas: []core.Quota{{Resource: core.GPU, Nominal: 8}}}},
			}}}},
			core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: "team", Name: "q", Queue: "blue"}},
			core.NodeSet{
				Node: core.Node{Name: "node-1", State: core.NodeReady, Allocatable: gpus.With(core.Pods, 100)},
			},
		},
		Teams: []sim.Team{{Name: "blue", Queue: "blue"}},
		Jobs:  []sim.Job{job("first", 0), job("second", 10*time.Minute)},
	}
	result, err := sim.New(world, sim.Watch{Check: true}).Finish()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, j := range result.Jobs() {
		seconds := func(s float64) time.Duration { return time.Duration(s) * time.Second }
		fmt.Printf("%v waited %v, ended after %v: %s\n", j.Key, seconds(j.Wait), seconds(j.Ended), j.State)
	}
	// Output:
	// team/first waited 0s, ended after 1h0m0s: Finished
	// team/second waited 50m0s, ended after 2h0m0s: Finished
}
