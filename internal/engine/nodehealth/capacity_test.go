package nodehealth_test

import (
	"testing"
	"time"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/engine/nodehealth"
)

// What is missing of what is promised is no more than what is lost: what was over-promised was somebody's choice.
func TestShortIsWhatIsLostOfWhatIsPromised(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	gpus := func(n core.Amount) core.Resources { return core.MakeResources(map[string]core.Amount{core.GPU: n}) }
	broken := func(n core.Amount) func(*nodehealth.Signals) {
		return func(s *nodehealth.Signals) { s.Broken = gpus(n) }
	}
	for why, c := range map[string]struct {
		pool     nodehealth.Pool
		machines []nodehealth.Machine
		promised core.Amount
		left     core.Amount
		short    bool
	}{
		"all is well":               {nodehealth.Pool{}, []nodehealth.Machine{machine("a", 8), machine("b", 8)}, 16, 16, false},
		"more is lost than left":    {nodehealth.Pool{}, []nodehealth.Machine{machine("a", 8), machine("b", 8, cordon)}, 12, 8, true},
		"the slack is lost":         {nodehealth.Pool{}, []nodehealth.Machine{machine("a", 8), machine("b", 8, cordon)}, 8, 8, false},
		"over-promised":             {nodehealth.Pool{}, []nodehealth.Machine{machine("a", 8), machine("b", 8)}, 32, 32, false},
		"over-promised, one breaks": {nodehealth.Pool{}, []nodehealth.Machine{machine("a", 8), machine("b", 8, broken(1))}, 32, 31, true},
		"planned, and none came":    {nodehealth.Pool{Planned: gpus(256)}, nil, 240, 0, true},
		"planned, and some came":    {nodehealth.Pool{Planned: gpus(16)}, []nodehealth.Machine{machine("a", 8)}, 12, 8, true},
	} {
		fr := core.FlavorResource{Flavor: "a", Resource: core.GPU}
		_, inventory := nodehealth.Account([]core.Flavor{flavorA}, c.machines, nil)
		s := nodehealth.Supply{
			Flavor: "a", Pool: c.pool, Machines: c.machines, Inventory: inventory, Cut: true,
			Promised: map[core.FlavorResource]nodehealth.Promises{fr: {Teams: c.promised}},
		}
		var is nodehealth.Capacity
		for _, x := range s.Capacities(nil, now) {
			if x.Resource == core.GPU {
				is = x
			}
		}
		if is.Promised != c.promised || is.Left(is.Promised) != c.left || is.ShortSince.IsZero() == c.short {
			t.Errorf("%s: %+v with %d left, want %d", why, is, is.Left(is.Promised), c.left)
		}
	}
}

// A node whose device plugin did not come back after a restart has lost its devices: they are not forgotten. One whose
// GPUs were divided has others.
func TestDevicesThatNobodyTellsOfAreLost(t *testing.T) {
	flavors := []core.Flavor{flavorA}
	with := func(resource string, n core.Amount) func(*nodehealth.Signals) {
		return func(s *nodehealth.Signals) { s.Capacity = s.Capacity.With(resource, n) }
	}
	for why, c := range map[string]struct {
		is   nodehealth.Machine
		lost core.Amount
	}{
		"as it was":              {machine("n1", 8), 0},
		"it says 0":              {machine("n1", 0), 8},
		"it was restarted":       {nodehealth.Machine{Name: "n1", Signals: nodehealth.Signals{Ready: "True"}}, 8},
		"it was divided":         {machine("n1", 0, with("nvidia.com/mig-1g.10gb", 56)), 0},
		"some were taken out":    {machine("n1", 4), 0},
		"it was given more CPUs": {machine("n1", 0, with(core.CPU, 20000)), 8},
	} {
		_, inventory := nodehealth.Account(flavors, []nodehealth.Machine{machine("n1", 8)}, nil)
		losses, inventory := nodehealth.Account(flavors, []nodehealth.Machine{c.is}, inventory)
		fr := core.FlavorResource{Flavor: "a", Resource: core.GPU}
		if got := nodehealth.Find(losses, fr).Amount; got != c.lost {
			t.Errorf("%s: %d GPUs are lost, want %d", why, got, c.lost)
		}
		back, _ := nodehealth.Account(flavors, []nodehealth.Machine{machine("n1", 8)}, inventory)
		if got := nodehealth.Find(back, fr).Amount; got != 0 {
			t.Errorf("%s: %d GPUs are lost when all are back", why, got)
		}
	}
}
