package packing_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/place"
	"github.com/mlbatch/mlbatch/internal/sim/packing"
)

// TestFullestPlacesAsTheEngineDoes plays lists of pods that share no GPU through engine/place as well.
func TestFullestPlacesAsTheEngineDoes(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		nodes := make([]packing.Node, 2+r.IntN(8))
		engine := place.New(core.GPU)
		var capacity int64
		for i := range nodes {
			n := packing.Node{CPU: 1000 * r.Int64N(64), Memory: 1, GPUs: uint8(1 + r.IntN(8))}
			for k := range n.GPUs {
				n.Free[k] = packing.Whole
			}
			nodes[i] = n
			capacity += n.Idle()
			engine.Set(core.Node{
				Name: fmt.Sprint("n-", i), State: core.NodeReady,
				Allocatable: core.MakeResources(map[string]core.Amount{
					core.GPU: core.Amount(n.GPUs), core.CPU: core.Amount(n.CPU), core.Pods: 1000,
				}),
			})
		}
		var pods []packing.Shape
		var used int64
		for range 60 {
			p := packing.Shape{GPUs: 1 + r.Int64N(4), Share: packing.Whole, CPU: 1000 * r.Int64N(12)}
			pods = append(pods, p)
			class := engine.Class(core.MakeResources(map[string]core.Amount{
				core.GPU: core.Amount(p.GPUs), core.CPU: core.Amount(p.CPU),
			}), core.Constraints{}, core.Topology{})
			if spots, _, ok := engine.Place(place.Request{Sets: []place.Set{{Class: class, Count: 1}}}); ok {
				holds := []place.Hold{{Node: spots[0][0].Node, Class: class, Count: 1}}
				engine.Take(core.Current, holds, 0)
				engine.Take(core.Projected, holds, 0)
				used += p.Demand()
			}
			want := 100 * float64(used) / float64(capacity)
			if got := packing.Play(nodes, pods, packing.Fullest{}).At(1 << 20); got != want {
				t.Fatalf("seed %d: %v %% is in use after %d pods, and %v %% in the engine", seed, got, len(pods), want)
			}
		}
	}
}
