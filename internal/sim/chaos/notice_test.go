package chaos_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/sim"
	"github.com/mlbatch/mlbatch/internal/sim/chaos"
	"github.com/mlbatch/mlbatch/internal/sim/kuberules"
)

// broken are the controllers' rules with one of them broken.
type broken struct {
	kuberules.Rules
	takesPlace func(core.PodState) bool
	wakes      func(*sim.WatchEvent) bool
	reconcile  func(*core.Workload, *sim.Observation) bool
	workload   func(*core.Workload)
	// forEver leaves deleted pods the time that they were given.
	forEver bool
}

func (b broken) TimeToEnd(grace, ago, longest time.Duration) (time.Duration, bool) {
	left, shorten := b.Rules.TimeToEnd(grace, ago, longest)
	return left, shorten && !b.forEver
}

func (b broken) TakesPlace(p core.PodState) bool {
	return b.Rules.TakesPlace(p) && (b.takesPlace == nil || b.takesPlace(p))
}

func (b broken) Wakes(x *sim.WatchEvent, before *core.PodState) bool {
	return b.Rules.Wakes(x, before) && (b.wakes == nil || b.wakes(x))
}

func (b broken) NewWorkload(w *sim.World, j *sim.Job, now time.Time) sim.WorkloadObject {
	p := b.Rules.NewWorkload(w, j, now)
	if b.reconcile != nil || b.workload != nil {
		return brokenWorkload{p, b.reconcile, b.workload}
	}
	return p
}

type brokenWorkload struct {
	sim.WorkloadObject
	reconcile func(*core.Workload, *sim.Observation) bool
	workload  func(*core.Workload)
}

func (p brokenWorkload) Workload() core.Workload {
	w := p.WorkloadObject.Workload()
	if p.workload != nil {
		p.workload(&w)
	}
	return w
}

func (p brokenWorkload) Reconcile(f sim.Observation) (bool, time.Time) {
	if p.reconcile != nil {
		if w := p.WorkloadObject.Workload(); !p.reconcile(&w, &f) {
			return false, time.Time{}
		}
	}
	return p.WorkloadObject.Reconcile(f)
}

// TestForgottenRefusalsAreNoticed: the rules for nodes that refuse pods are broken on purpose.
func TestForgottenRefusalsAreNoticed(t *testing.T) {
	const worlds = 300
	cases := map[string]struct {
		why   string
		rules broken
		want  string
		// also is another rule that may notice it first; "" for none.
		also string
	}{
		"nodes that refused are planned again": {
			"a job is tried on the same node for ever",
			broken{workload: func(w *core.Workload) {
				for i := range w.PodSets {
					w.PodSets[i].Filter.Refused = nil
				}
			}},
			"P2: ",
			"",
		},
		"nobody calls the plan back": {
			"quota is held for nodes that take nothing",
			broken{reconcile: func(w *core.Workload, f *sim.Observation) bool {
				if !w.Evicting {
					f.Refused = nil
				}
				return true
			}},
			"P11: ",
			"P6: ", // a controller that starts, and is not broken, calls it back
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for seed := uint64(1); seed <= 2*worlds; seed += 2 {
				w := chaos.World(seed)
				w.Rules = c.rules
				err := chaos.Try(w)
				switch {
				case err == nil:
				case strings.Contains(err.Error(), c.want):
					return
				case c.also == "" || !strings.Contains(err.Error(), c.also):
					t.Fatalf("seed %d: %v, want %q", seed, err, c.want)
				}
			}
			t.Errorf("%s: none of %d worlds notices with %q", c.why, worlds, c.want)
		})
	}
}

// Each rule that tenants would like to see broken is broken on purpose: some
// world must notice, or the auditor watches nothing.
func TestBrokenRulesAreNoticed(t *testing.T) {
	const worlds = 300
	cases := map[string]struct {
		why   string
		rules broken
		want  string
	}{
		"places of deleted pods are given away": {
			"a job that ignores the signal to end runs twice",
			broken{takesPlace: func(p core.PodState) bool { return !p.Deleting }},
			"P2: ",
		},
		"the scheduler counts no pods": {
			"what is scaled up runs without quota",
			broken{takesPlace: func(core.PodState) bool { return false }},
			"P2: ",
		},
		"quota is released with its pods alive": {
			"an evicted job keeps its GPUs and another gets their quota",
			broken{
				reconcile: func(_ *core.Workload, f *sim.Observation) bool { f.Live, f.Pods = false, 0; return true },
			},
			"P10: ",
		},
		"deleted pods count as ended": {
			"quota goes to others before the grace is over",
			broken{reconcile: func(_ *core.Workload, f *sim.Observation) bool {
				if f.Live = f.Live && f.Standing > 0; !f.Live {
					f.Pods = 0
				}
				return true
			}},
			"P10: ",
		},
		"objects that finalizers keep count as pods": {
			"a finalizer holds quota without end",
			broken{reconcile: func(_ *core.Workload, f *sim.Observation) bool {
				f.Live = f.Live || f.Objects > 0
				f.Pods = f.Objects
				return true
			}},
			"P11: ",
		},
		"deleted pods go on for as long as their owner says": {
			"a tenant keeps what is borrowed for a day",
			broken{forEver: true},
			"P10: ",
		},
		"nobody watches jobs": {
			"the Workload of a job that was deleted is looked at before the job is seen to be",
			broken{wakes: func(x *sim.WatchEvent) bool { return x.Maker == nil }},
			"P11: ",
		},
		"nobody watches pods": {
			"the last pod ends and no controller gives back the quota",
			broken{wakes: func(x *sim.WatchEvent) bool { return x.Pod == nil }},
			"P11: ",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for seed := uint64(2); seed <= 2*worlds; seed += 2 {
				w := chaos.World(seed)
				w.Rules = c.rules
				if err := chaos.Try(w); err != nil {
					if !strings.Contains(err.Error(), c.want) {
						t.Fatalf("seed %d: %v, want %q", seed, err, c.want)
					}
					return
				}
			}
			t.Errorf("%s: none of %d worlds notices with %q", c.why, worlds, c.want)
		})
	}
}
