package chaos_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

// inheritances counts workloads that a new process is told of while something is held for them, and those of them that
// it admits just there.
type inheritances struct {
	held        map[core.Key]*core.Admission
	told, given int
	fresh       bool
}

func (n *inheritances) Began(cycle.Options) { n.held, n.fresh = map[core.Key]*core.Admission{}, true }

func (n *inheritances) Event(ev core.Event) {
	if set, is := ev.(core.WorkloadSet); is && n.fresh && set.Workload.Next != nil {
		n.held[set.Workload.Key] = set.Workload.Next
	}
}

func (n *inheritances) Decided(_ time.Time, p core.Plan) {
	if n.fresh {
		n.told += len(n.held)
	}
	n.fresh = false
	for _, d := range p {
		if a, is := d.(core.Admit); is && n.held[a.Key] != nil {
			if cmp.Equal(*n.held[a.Key], a.Admission) {
				n.given++
			}
			delete(n.held, a.Key)
		}
	}
}

// Processes that are killed again and again leave relocations half done; what they held is mostly given by the next, and
// nothing else becomes wrong by it.
func TestRelocationsOutliveTheProcess(t *testing.T) {
	const worlds, period = 60, 12
	var all inheritances
	for n := range uint64(worlds) {
		w := chaos.World(period*n + 5)
		w.Rules = kuberules.Rules{}
		w.Faults.Restarts = 30 * time.Second
		if run := sim.New(w, sim.Watch{Check: true, Log: &all}); run.Advance(20_000) || run.Err() != nil {
			t.Fatalf("seed %d: %v", w.Seed, run.Err())
		}
	}
	t.Logf("of %d that were told, %d got what was held for them", all.told, all.given)
	if all.given < 20 || all.given < all.told/2 {
		t.Errorf("of %d that were told, %d got what was held for them", all.told, all.given)
	}
}
