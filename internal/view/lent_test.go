package view_test

import (
	"testing"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/view"
)

// TestLending: what is lent is told exactly where only one can have lent it, and as a bound where
// several can.
func TestLending(t *testing.T) {
	of := core.FlavorResource{Flavor: "f", Resource: core.GPU}
	quota := func(nominal core.Amount, lending ...core.Amount) []core.FlavorQuotas {
		own := core.Quota{Resource: core.GPU, Nominal: nominal}
		if len(lending) > 0 {
			own.Lending = &lending[0]
		}
		return []core.FlavorQuotas{
			{Flavor: "other", Quotas: []core.Quota{{Resource: core.GPU, Nominal: 100}}},
			{Flavor: "f", Quotas: []core.Quota{own}},
		}
	}
	queue := func(name, cohort string, used core.Amount, flavors []core.FlavorQuotas) view.ClusterQueue {
		q := view.ClusterQueue{
			Name:    name,
			Flavors: flavors,
			Load:    core.Load{Reserved: map[core.FlavorResource]core.Amount{of: used}},
		}
		if cohort != "" {
			q.Cohorts = []string{cohort}
		}
		return q
	}
	cohort := func(name, parent string, flavors []core.FlavorQuotas) core.Cohort {
		return core.Cohort{Name: name, Parent: parent, Groups: []core.ResourceGroup{{Flavors: flavors}}}
	}
	exactly := func(a core.Amount) view.Lent { return view.Lent{Least: a, Most: a} }
	for name, tc := range map[string]struct {
		why      string
		queues   []view.ClusterQueue
		cohorts  []core.Cohort
		red      view.Lent
		above    view.Lent // of cohort c
		borrowed core.Amount
	}{
		"nobody borrows":  {"what is unused is not lent", []view.ClusterQueue{queue("blue", "c", 8, quota(8)), queue("red", "c", 0, quota(8))}, nil, exactly(0), exactly(0), 0},
		"one lender":      {"nobody else has anything", []view.ClusterQueue{queue("blue", "c", 12, quota(8)), queue("red", "c", 0, quota(8))}, nil, exactly(4), exactly(0), 0},
		"no cohort":       {"there is nobody to lend to", []view.ClusterQueue{queue("blue", "", 12, quota(8)), queue("red", "", 0, quota(8))}, nil, exactly(0), exactly(0), 0},
		"two lenders":     {"either can have", []view.ClusterQueue{queue("blue", "c", 12, quota(8)), queue("red", "c", 0, quota(8)), queue("slack", "c", 0, quota(8))}, nil, view.Lent{Most: 4}, exactly(0), 0},
		"hardly":          {"the other has not enough for all of it", []view.ClusterQueue{queue("blue", "c", 14, quota(8)), queue("red", "c", 0, quota(8)), queue("slack", "c", 0, quota(4))}, nil, view.Lent{Least: 2, Most: 6}, exactly(0), 0},
		"all of both":     {"all that there is was lent", []view.ClusterQueue{queue("blue", "c", 24, quota(8)), queue("red", "c", 0, quota(8)), queue("slack", "c", 0, quota(8))}, nil, exactly(8), exactly(0), 0},
		"limit":           {"it lends nothing", []view.ClusterQueue{queue("blue", "c", 12, quota(8)), queue("red", "c", 0, quota(8, 0)), queue("slack", "c", 0, quota(8))}, nil, exactly(0), exactly(0), 0},
		"uses its own":    {"what it uses it has not lent", []view.ClusterQueue{queue("blue", "c", 12, quota(8)), queue("red", "c", 6, quota(8)), queue("slack", "c", 0, quota(2))}, nil, exactly(2), exactly(0), 0},
		"of the cohort":   {"the cohort itself can have lent it", []view.ClusterQueue{queue("blue", "c", 12, quota(8)), queue("red", "c", 0, quota(8))}, []core.Cohort{cohort("c", "", quota(8))}, view.Lent{Most: 4}, exactly(0), 0},
		"outside":         {"what the cohort's own members leave over is lent to others", []view.ClusterQueue{queue("blue", "top", 12, quota(8)), queue("red", "c", 2, quota(8))}, []core.Cohort{cohort("c", "top", nil)}, exactly(4), exactly(4), 0},
		"near before far": {"members are covered from their own cohort before others lend to it", []view.ClusterQueue{queue("blue", "c", 12, quota(8)), queue("red", "c", 0, quota(8)), queue("slack", "top", 0, quota(8))}, []core.Cohort{cohort("c", "top", nil)}, exactly(4), exactly(0), 0},
		"from outside":    {"a cohort that borrows has lent all that its members have", []view.ClusterQueue{queue("blue", "c", 20, quota(8)), queue("red", "c", 0, quota(8)), queue("slack", "top", 0, quota(8))}, []core.Cohort{cohort("c", "top", nil)}, exactly(8), exactly(0), 4},
		"kept inside":     {"a cohort that lends nothing keeps what its members have", []view.ClusterQueue{queue("blue", "top", 12, quota(8)), queue("red", "c", 0, quota(8)), queue("slack", "top", 0, quota(8))}, []core.Cohort{cohort("c", "top", quota(0, 0))}, exactly(0), exactly(0), 0},
		"in a circle":     {"cohorts that are above themselves lend inside of each at least", []view.ClusterQueue{queue("blue", "c", 12, quota(8)), queue("red", "c", 0, quota(8))}, []core.Cohort{cohort("c", "d", nil), cohort("d", "c", nil)}, exactly(4), exactly(0), 0},
		"without bounds":  {"of an endless quota any part may be lent", []view.ClusterQueue{queue("blue", "c", 12, quota(8)), queue("red", "c", 0, quota(core.Unlimited))}, nil, view.Lent{Most: 4}, exactly(0), 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := view.LendingOf(tc.queues, tc.cohorts, of)
			if got.Queues["red"] != tc.red || got.Cohorts["c"] != tc.above || got.Borrowed["c"] != tc.borrowed {
				t.Errorf("red lent %+v, want %+v; c %+v, want %+v, and borrowed %d, want %d: %s",
					got.Queues["red"], tc.red, got.Cohorts["c"], tc.above, got.Borrowed["c"], tc.borrowed, tc.why)
			}
		})
	}
}
