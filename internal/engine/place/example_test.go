package place_test

import (
	"fmt"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/place"
)

// A gang gets nodes for all of its pods or for none. The smallest node that will do is
// filled first, so that whole large ones stay free.
func Example() {
	nodes := place.New(core.GPU)
	for name, gpus := range map[string]core.Amount{"node-1": 8, "node-2": 8, "node-3": 2} {
		nodes.Set(core.Node{
			Name: name, State: core.NodeReady,
			Allocatable: core.MakeResources(map[string]core.Amount{core.GPU: gpus, core.Pods: 100}),
		})
	}
	pod := nodes.Class(
		core.MakeResources(map[string]core.Amount{core.GPU: 2}),
		core.Constraints{},
		core.Topology{},
	)

	spots, _, _ := nodes.Place(place.Request{Sets: []place.Set{{Class: pod, Count: 4}}})
	for _, s := range spots[0] {
		fmt.Println(s.Node.Name(), s.Count)
	}
	_, short, ok := nodes.Place(place.Request{Sets: []place.Set{{Class: pod, Count: 10}}})
	fmt.Println(ok, short.Cause, short.Fit, "of", short.Wanted)
	// Output:
	// node-1 3
	// node-3 1
	// false GangTooLarge 9 of 10
}
