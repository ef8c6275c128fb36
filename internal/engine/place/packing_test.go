package place

import (
	"fmt"
	"testing"

	"github.com/mlbatch/mlbatch/internal/core"
)

// The example of packing: the pod that is placed first makes way for one that fits nowhere
// else, and takes the fuller of the others.
func TestPackingMovesTheFirst(t *testing.T) {
	s := New(core.GPU)
	for name, free := range map[string][2]core.Amount{"a": {2, 4}, "b": {3, 1}, "c": {5, 1}} {
		s.Set(core.Node{Name: name, State: core.NodeReady, Allocatable: core.MakeResources(map[string]core.Amount{
			core.GPU: free[0], core.CPU: free[1], core.Pods: 10,
		})})
	}
	class := func(gpu, cpu core.Amount) *Class {
		return s.Class(
			core.MakeResources(map[string]core.Amount{core.GPU: gpu, core.CPU: cpu}),
			core.Constraints{},
			core.Topology{},
		)
	}
	spots, _, ok := s.Place(
		Request{
			View: Free,
			Sets: []Set{{Index: 0, Class: class(2, 1), Count: 1}, {Index: 1, Class: class(1, 4), Count: 1}},
		},
	)
	if !ok || spots[0][0].Node.Name() != "b" || spots[1][0].Node.Name() != "a" {
		t.Errorf("%t %v", ok, spots)
	}
}

// BenchmarkPacking asks for what does not fit and cannot be proved not to: the bounds of the
// search are what it costs, for every workload that could be evicted.
func BenchmarkPacking(b *testing.B) {
	for _, c := range []struct {
		nodes    int
		distinct bool
	}{{40, true}, {400, false}, {400, true}, {1000, true}} {
		b.Run(fmt.Sprintf("nodes=%d/distinct=%t", c.nodes, c.distinct), func(b *testing.B) {
			s := New(core.GPU)
			for i := range c.nodes {
				n := machine(fmt.Sprint("n", i), 8, core.NodeReady)
				if c.distinct {
					n.Allocatable = n.Allocatable.With(core.Memory, core.Amount(1000+i))
				}
				s.Set(n)
			}
			half := int32(c.nodes / 2)
			sets := []Set{
				{Index: 0, Class: s.Class(gpus(5), core.Constraints{}, core.Topology{}), Count: half + 1},
				{Index: 1, Class: s.Class(gpus(4), core.Constraints{}, core.Topology{}), Count: 2*half - 1},
			}
			for b.Loop() {
				if s.Fits(Request{View: After, Sets: sets}) {
					b.Fatal("it does not fit")
				}
			}
		})
	}
}
