package chaos_test

import (
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/cycle"
	"github.com/mlbatch/mlbatch/internal/sim"
	"github.com/mlbatch/mlbatch/internal/sim/chaos"
	"github.com/mlbatch/mlbatch/internal/sim/kuberules"
)

// relocations counts decisions to relocate.
type relocations int

func (*relocations) Began(cycle.Options) {}
func (*relocations) Event(core.Event)    {}
func (n *relocations) Decided(_ time.Time, p core.Plan) {
	for _, d := range p {
		if evict, is := d.(core.Evict); is && evict.Reason == core.Relocated {
			*n++
		}
	}
}

// Worlds in which racks are crowded relocate often enough that they say something about the rules for it.
func TestCrowdedWorldsRelocate(t *testing.T) {
	const worlds, period = 60, 12
	relocating := 0
	for n := range uint64(worlds) {
		w := chaos.World(period*n + 5)
		w.Rules = kuberules.Rules{}
		var found relocations
		if run := sim.New(w, sim.Watch{Check: true, Log: &found}); run.Advance(20_000) || run.Err() != nil {
			t.Fatalf("seed %d: %v", w.Seed, run.Err())
		}
		if found > 0 {
			relocating++
		}
	}
	if relocating < worlds/3 {
		t.Errorf("in %d of %d crowded worlds a workload is relocated", relocating, worlds)
	}
}
