package inquiry_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
)

// crowded fills the nodes of two engines, of which the first decides, and returns who
// waits, in order.
func crowded(leads, follows *cycle.Engine, jobs, kinds int, at time.Time) (waiting []core.Key) {
	tell := func(ev core.Event) {
		leads.Apply(ev)
		follows.Apply(ev)
	}
	queues := cluster(tell)
	workloads := map[core.Key]core.Workload{}
	for i := range jobs {
		w := oneGPU(queues[i*7%len(queues)], i)
		w.PodSets[0].Count = int32(1 + i%3)
		w.PodSets[0].Requests = w.PodSets[0].Requests.With(core.CPU, core.Amount(500+i%kinds/10))
		workloads[w.Key] = w
		tell(core.WorkloadSet{Workload: w})
	}
	for _, d := range leads.Decide(at) {
		if a, is := d.(core.Admit); is {
			w := workloads[a.Key]
			w.Admission, w.Admitted, w.Reserved = &a.Admission, true, at
			tell(core.WorkloadSet{Workload: w})
		}
	}
	leads.Decide(at)
	follows.Follow(at)
	for _, q := range queues {
		waiting = append(waiting, leads.Positions(q)...)
	}
	slices.SortFunc(
		waiting,
		func(a, b core.Key) int { return workloads[a].Created.Compare(workloads[b].Created) },
	)
	return waiting
}

// cluster is 130 nodes with 8 GPUs, and 100 queues in five cohorts, each of 16 GPUs that it takes
// back from jobs of lower priority. It returns the queues.
func cluster(tell func(core.Event)) (queues []string) {
	tell(core.FlavorSet{Flavor: core.Flavor{Name: "f"}})
	for i := range 100 {
		name := fmt.Sprintf("q-%d-%d", i/20, i%20)
		queues = append(queues, name)
		tell(core.QueueSet{Queue: core.Queue{
			Name: name, Cohort: fmt.Sprintf("c-%d", i/20), Namespaces: &core.Selector{},
			Preemption:  core.Preemption{Reclaim: core.PreemptLowerPriority},
			Fungibility: core.Fungibility{PreemptTriesNext: true},
			Groups: []core.ResourceGroup{{
				Covered: []string{core.CPU, core.Memory, core.GPU},
				Flavors: []core.FlavorQuotas{{Flavor: "f", Quotas: []core.Quota{
					{
						Resource: core.CPU,
						Nominal:  16000,
					},
					{Resource: core.Memory, Nominal: 16 << 30},
					{Resource: core.GPU, Nominal: 16},
				}}},
			}},
		}})
		tell(core.LocalQueueSet{LocalQueue: core.LocalQueue{Namespace: name, Name: "q", Queue: name}})
	}
	for i := range 130 {
		tell(core.NodeSet{Node: core.Node{
			Name:  fmt.Sprintf("node-%d", i),
			State: core.NodeReady,
			Allocatable: core.MakeResources(
				map[string]core.Amount{core.CPU: 8000, core.Memory: 8 << 30, core.GPU: 8, core.Pods: 250},
			),
		}})
	}
	return queues
}

// oneGPU is a job of one pod with one CPU, 1 GiB and one GPU.
func oneGPU(queue string, n int) core.Workload {
	at, name := time.Unix(int64(n), 0), fmt.Sprintf("job-%d", n)
	return core.Workload{
		Key: core.Key{Namespace: queue, Name: name}, UID: name, Queue: "q", Created: at, QueueTime: at,
		PodSets: []core.PodSet{{Name: "main", Count: 1, Requests: core.MakeResources(map[string]core.Amount{
			core.CPU: 1000, core.Memory: 1 << 30, core.GPU: 1,
		})}},
	}
}
