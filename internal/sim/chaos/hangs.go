package chaos

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/progress"
	"github.com/mlbatch/mlbatch/internal/sim"
)

// HangingWorld is the world of a seed in which, in addition, things fail under jobs, and some of them hang. What it draws for
// that it draws apart: World of the same seed stays as it is. Jobs have no Workload objects in it.
func HangingWorld(seed uint64) sim.World {
	w := World(2*seed + 1) // without tenants, who need pods
	w.Lifecycle = nil
	r := rand.New(rand.NewPCG(seed, 27)) //nolint:gosec // not for secrets
	upTo := func(most time.Duration) time.Duration { return time.Duration(r.Int64N(int64(most) + 1)) }
	w.Recovery = &sim.Recovery{
		Whole:   r.IntN(4) == 0,
		One:     r.IntN(4) == 0,
		BySteps: r.IntN(5) > 0,
		Signal: map[sim.FaultKind]sim.Span{
			sim.FaultGPU: {Max: upTo(10 * time.Second)}, sim.FaultHost: {Min: time.Second, Max: 20 * time.Second},
		},
		Notice:   sim.Span{Max: upTo(3 * time.Second)},
		Watchdog: 20*time.Second + upTo(time.Minute),
		Evidence: sim.Span{
			Max: upTo(3 * time.Second),
		},
		Suspect: upTo(20 * time.Second),
		Tested:  r.IntN(2) == 0,
		Halt:    sim.Span{Max: time.Second},
		Pod:     sim.Span{Max: upTo(5 * time.Second)},
		Load:    sim.Span{Max: upTo(5 * time.Second)},
	}
	end, nodes := time.Duration(0), []string{}
	for i := range w.Script {
		op := &w.Script[i]
		end = max(end, op.At)
		if n, is := op.Object.(core.NodeSet); is && !slices.Contains(nodes, n.Node.Name) {
			nodes = append(nodes, n.Node.Name)
		}
		if op.Job == nil || r.IntN(4) == 0 {
			continue
		}
		every := 2*time.Second + upTo(4*time.Second)
		s := &sim.Steps{
			Rule:     progress.Rule{First: every + upTo(5*time.Second), Every: every},
			Restarts: 1 + r.IntN(3),
		}
		s.Takes = every/4 + upTo(every-every/4)
		if r.IntN(6) == 0 { // it states too short a time
			s.Takes = 2 * every
		}
		op.Job.Steps = s
	}
	kinds := []sim.FaultKind{
		sim.FaultHang, sim.FaultHang, sim.FaultHang, sim.FaultGPU, sim.FaultHost, sim.FaultSoftware,
	}
	for range 3 + r.IntN(10) {
		if len(nodes) == 0 {
			break
		}
		w.Script = append(w.Script, sim.Op{At: upTo(end + 30*time.Second), Fault: &sim.Fault{
			Node: nodes[r.IntN(len(nodes))], Kind: kinds[r.IntN(len(kinds))],
			Repair: time.Duration(r.IntN(2)) * (time.Second + upTo(20*time.Second)),
		}})
	}
	slices.SortStableFunc(w.Script, func(a, b sim.Op) int { return cmp.Compare(a.At, b.At) })
	return w
}
