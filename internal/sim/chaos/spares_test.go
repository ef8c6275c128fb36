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

// spares counts nodes that are kept and evictions.
type spares struct{ kept, evicted int }

func (*spares) Began(cycle.Options) {}

func (s *spares) Event(ev core.Event) {
	if n, is := ev.(core.NodeSet); is && n.Node.Labels[core.SpareLabel] != "" {
		s.kept++
	}
}

func (s *spares) Decided(_ time.Time, p core.Plan) {
	for _, d := range p {
		if _, is := d.(core.Evict); is {
			s.evicted++
		}
	}
}

// TestWorldsWithSpares: the promises hold while nodes are kept for recovery: above all, no job is evicted for another that
// then loses its plan to that (P4).
func TestWorldsWithSpares(t *testing.T) {
	const worlds, period = 60, 6
	var all spares
	for n := range uint64(worlds) {
		w, is := chaos.SparesWorld(period*n + 2) // with pods
		if !is {
			continue
		}
		w.Rules = kuberules.Rules{}
		var found spares
		if run := sim.New(w, sim.Watch{Check: true, Log: &found}); run.Advance(20_000) || run.Err() != nil {
			t.Errorf("seed %d: %v", w.Seed, run.Err())
		}
		if found.kept > 0 && found.evicted > 0 {
			all.kept, all.evicted = all.kept+1, all.evicted+found.evicted
		}
	}
	if all.kept < worlds/12 {
		t.Errorf("in %d of %d worlds nodes are kept and jobs are evicted: they say little", all.kept, worlds)
	}
	t.Logf("in %d worlds nodes are kept and jobs are evicted, %d times", all.kept, all.evicted)
}
