package place

import (
	"fmt"
	"testing"

	"github.com/mlbatch/mlbatch/internal/core"
)

// BenchmarkGroups is one question about a gang of several pod sets that each need a rack, all in one block, on 10,000
// nodes in 625 racks of 40 blocks. In vain, one rack of each block lacks a node that another has too many: all choices of
// the others are in the way.
func BenchmarkGroups(b *testing.B) {
	for _, is := range []struct {
		name  string
		sets  int
		alike bool
		fits  bool
	}{
		{"4 sets", 4, true, true},
		{"16 sets", 16, true, true},
		{"16 sets in vain", 16, true, false},
		{"16 different sets in vain", 16, false, false},
	} {
		b.Run(is.name, func(b *testing.B) {
			s := New(core.GPU)
			for i := range 10000 {
				n := machine(fmt.Sprint("node-", i), 8, core.NodeReady)
				rack := i / 16
				if !is.fits && rack%16 == 1 && i%16 == 0 {
					rack--
				}
				n.Labels = map[string]string{"block": fmt.Sprint(rack / 16), "rack": fmt.Sprint(rack)}
				s.Set(n)
			}
			topology := core.Topology{Levels: []string{"block", "rack"}}
			near := core.Constraints{Topology: core.TopologyRequest{Parents: []string{"block"}, Required: "rack"}}
			r := Request{View: Free}
			for i := range is.sets {
				requests := gpus(8)
				if !is.alike {
					requests = requests.With(core.CPU, core.Amount(i+1))
				}
				r.Sets = append(r.Sets, Set{
					Index: i, Class: s.Class(requests, near, topology), Count: 16, Parents: []string{"all"},
				})
			}
			for b.Loop() {
				if _, _, ok := s.Place(r); ok != is.fits {
					b.Fatalf("it has a place: %v", ok)
				}
			}
		})
	}
}
