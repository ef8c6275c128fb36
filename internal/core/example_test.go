package core_test

import (
	"fmt"

	"github.com/mlbatch/mlbatch/internal/core"
)

// Requests are sorted lists of integers in base units: thousandths of a core, bytes,
// whole GPUs. What has no bound stays without one.
func ExampleResources() {
	pod := core.MakeResources(map[string]core.Amount{core.GPU: 4, core.CPU: 500})
	gang := pod.Times(3).With(core.Pods, 3)
	for _, q := range gang {
		fmt.Println(q.Resource, q.Amount)
	}
	fmt.Println(core.Unlimited.Sub(gang.Of(core.GPU)) == core.Unlimited)
	// Output:
	// cpu 1500
	// nvidia.com/gpu 12
	// pods 3
	// true
}

// A reason is facts. A caller that only wants to know which kind of wait it is asks that.
func ExampleReason() {
	why := core.Reason{
		Code: core.WaitingForQuota, Cause: core.QuotaShort, Queue: "blue",
		Flavor: "h100", Resource: core.GPU, Need: 8, Have: 2, Limit: 16,
	}
	fmt.Println(why.LacksQuota(), why.LacksNodes(), why.Need-why.Have)
	// Output: true false 6
}

// A job holds quota as long as one of its pods uses a node, or may come to.
func ExampleHolds() {
	stopped := []core.MakerState{{Stopped: true}}
	deleted := core.PodState{Bound: true, Deleting: true}
	ended := core.PodState{Bound: true, Deleting: true, Ended: true}
	fmt.Println(core.Holds(stopped, []core.PodState{ended, deleted}))
	fmt.Println(core.Holds(stopped, []core.PodState{ended, ended}))
	// Output:
	// true
	// false
}
