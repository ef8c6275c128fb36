package view

import (
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
			lent, coming := lentAndComing(at, queues)
			row := FlavorCapacity{
				Flavor: at.Flavor, Resource: at.Resource,
				Planned: text(c.Planned), Present: text(c.Present), Healthy: text(c.Healthy),
				Promised: text(c.Promised), Slack: text(c.Slack()), Lent: text(lent), Spares: c.Spares,
			}
			if c.OnDemand {
				coming = min(coming, max(0, c.Planned.Sub(c.Present)))
				row.OnItsWay, row.OnDemand = text(coming), text(max(0, c.Planned.Sub(c.Present).Sub(coming)))
			}
			row.State, row.Since = stateOf(c.LostSince, c.ShortSince, c.Cut)
			out = append(out, row)
		}
	}
	slices.SortFunc(out, func(a, b FlavorCapacity) int {
		return gpusFirst(
			core.FlavorResource{Flavor: a.Flavor, Resource: a.Resource},
			core.FlavorResource{Flavor: b.Flavor, Resource: b.Resource},
		)
	})
	return out
}

// lentAndComing is what queues use of a resource of a flavor that is not their own, and what they have reserved and do
// not use yet.
func lentAndComing(at core.FlavorResource, queues []ClusterQueue) (lent, coming core.Amount) {
	for i := range queues {
		q := &queues[i]
		coming = coming.Add(max(0, q.Reserved[at].Sub(q.Used[at])))
		for _, f := range q.Flavors {
			if f.Flavor != at.Flavor {
				continue
			}
			for _, own := range f.Quotas {
				if own.Resource == at.Resource {
					lent = lent.Add(q.Borrowed(own, q.Reserved[at]))
				}
			}
		}
	}
	return lent, coming
}

// stateOf is the worst that is so of a capacity, and since when: something is lost, too little is there, quotas are cut
// for that.
func stateOf(lost, short time.Time, cut bool) (string, *time.Time) {
	switch {
	case !short.IsZero() && cut:
		return CapacityCut, &short
	case !short.IsZero():
		return CapacityShort, &short
	case !lost.IsZero():
		return CapacityLost, &lost
	}
	return CapacityOK, nil
}
