package view

import (
	"cmp"
	"slices"
	"time"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/kube/convert"
)

// FlavorCapacity is how a resource of a flavor stands. Amounts are quantities. Its JSON is stable.
type FlavorCapacity struct {
	Flavor   string `json:"flavor"`
	Resource string `json:"resource"`
	// Planned is what should be there, Present what nodes that exist have, Healthy what of that takes jobs.
	Planned string `json:"planned"`
	Present string `json:"present"`
	Healthy string `json:"healthy"`
	// Promised is what queues and cohorts have for their own, the slack queue left out. Slack is what is healthy beyond
	// that; below 0 it is missing.
	Promised string `json:"promised"`
	Slack    string `json:"slack"`
	// Lent is what queues use that is not their own.
	Lent string `json:"lent"`
	// OnItsWay is, where nodes are made when jobs ask for them, what was asked for and is not there yet; OnDemand is what
	// else could be.
	OnItsWay string `json:"onItsWay,omitempty"`
	OnDemand string `json:"onDemand,omitempty"`
	// Spares is how many of the flavor's nodes only recovery may use, as long as so many are free.
	Spares int `json:"spareNodes,omitempty"`
	// State is ok, lost, short, or cut: nothing is lost, something is, more is promised than healthy, quotas are cut for
	// that. Since is since when.
	State string     `json:"state"`
	Since *time.Time `json:"since,omitempty"`
}

// States of FlavorCapacity.
const (
	CapacityOK    = "ok"
	CapacityLost  = "lost"
	CapacityShort = "short"
	CapacityCut   = "cut"
)

// CapacityOf is how the resources of flavors stand, by flavor, GPUs first.
func CapacityOf(flavors []kueue.ResourceFlavor, queues []ClusterQueue) []FlavorCapacity {
	var out []FlavorCapacity
	for i := range flavors {
		for _, c := range convert.Capacities(&flavors[i]) {
			at := core.FlavorResource{Flavor: flavors[i].Name, Resource: c.Resource}
			text := func(a core.Amount) string { return AmountText(c.Resource, a) }
			var lent, coming core.Amount
			for j := range queues {
				q := &queues[j]
				coming = coming.Add(max(0, q.Reserved[at].Sub(q.Used[at])))
				for _, f := range q.Flavors {
					for _, own := range f.Quotas {
						if f.Flavor == at.Flavor && own.Resource == at.Resource {
							lent = lent.Add(q.Borrowed(own, q.Reserved[at]))
						}
					}
				}
			}
			row := FlavorCapacity{
				Flavor: at.Flavor, Resource: at.Resource,
				Planned: text(c.Planned), Present: text(c.Present), Healthy: text(c.Healthy),
				Promised: text(c.Promised), Slack: text(c.Slack()), Lent: text(lent), Spares: c.Spares,
				State: CapacityOK,
			}
			if c.OnDemand {
				coming = min(coming, max(0, c.Planned.Sub(c.Present)))
				row.OnItsWay, row.OnDemand = text(coming), text(max(0, c.Planned.Sub(c.Present).Sub(coming)))
			}
			since := c.LostSince
			switch {
			case !c.ShortSince.IsZero() && c.Cut:
				row.State, since = CapacityCut, c.ShortSince
			case !c.ShortSince.IsZero():
				row.State, since = CapacityShort, c.ShortSince
			case !c.LostSince.IsZero():
				row.State = CapacityLost
			}
			if !since.IsZero() {
				row.Since = &since
			}
			out = append(out, row)
		}
	}
	other := func(r FlavorCapacity) int {
		if IsGPU(r.Resource) {
			return 0
		}
		return 1
	}
	slices.SortFunc(out, func(a, b FlavorCapacity) int {
		return cmp.Or(
			cmp.Compare(a.Flavor, b.Flavor),
			cmp.Compare(other(a), other(b)),
			cmp.Compare(a.Resource, b.Resource),
		)
	})
	return out
}
