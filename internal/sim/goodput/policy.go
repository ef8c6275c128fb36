package goodput

import (
	"time"

	"github.com/mlbatch/mlbatch/internal/sim"
)

// Policy is a way to recover.
type Policy struct {
	Name      string
	KeepNodes time.Duration
	Recovery  sim.Recovery
}

// watchdog is after what time the collective operations of a job that hangs give up: PyTorch's default for NCCL.
const watchdog = 10 * time.Minute

// recovery are the times that are the same whoever recovers: the same checks look at nodes, and the same processes
// end and start.
func recovery() sim.Recovery {
	return sim.Recovery{
		Signal: map[sim.FaultKind]sim.Span{
			sim.FaultGPU:     {Min: time.Second, Max: 30 * time.Second},
			sim.FaultNetwork: {Min: time.Second, Max: 60 * time.Second},
			// A node counts as out of reach after 50 s, and its pods tolerate that for 30 s.
			sim.FaultHost: {Min: 75 * time.Second, Max: 85 * time.Second},
		},
		Notice: sim.Span{Min: time.Second, Max: 5 * time.Second},
		Halt:   sim.Span{Min: 5 * time.Second, Max: 10 * time.Second},
		Pod:    sim.Span{Min: 15 * time.Second, Max: 90 * time.Second},
		Load:   sim.Span{Min: 45 * time.Second, Max: 60 * time.Second},
	}
}

// Policies are what is compared.
func Policies() []Policy {
	full := Policy{Name: "full reset", Recovery: recovery()}
	full.Recovery.Whole, full.Recovery.Watchdog = true, watchdog
	one := Policy{Name: "one node, as Kueue 0.19", Recovery: recovery()}
	one.Recovery.One, one.Recovery.Watchdog = true, watchdog
	slow := one
	slow.Name, slow.Recovery.Watchdog = "one node, watchdog of 30 min", 30*time.Minute
	ours := Policy{Name: "mlbatch", KeepNodes: 5 * time.Minute, Recovery: recovery()}
	ours.Recovery.BySteps = true
	ours.Recovery.Evidence = sim.Span{Min: 2 * time.Second, Max: 30 * time.Second}
	ours.Recovery.Suspect = time.Hour
	blind := ours
	blind.Name, blind.Recovery.Suspect = "mlbatch, no node named", 0
	tested := ours
	tested.Name = "mlbatch, suspects tested"
	tested.Recovery.Suspect, tested.Recovery.Tested = 30*time.Minute, true
	return []Policy{full, one, slow, ours, blind, tested}
}
