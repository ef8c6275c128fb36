package cli

import (
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mlbatch/mlbatch/internal/view"
)

// FlavorColumns are those of a list of how the capacity of flavors stands.
func FlavorColumns(now time.Time) []Column[view.FlavorCapacity] {
	text := func(title string, rank int, of func(view.FlavorCapacity) string) Column[view.FlavorCapacity] {
		return Column[view.FlavorCapacity]{Title: title, Rank: rank, Text: of}
	}
	amount := func(title string, rank int, of func(view.FlavorCapacity) string) Column[view.FlavorCapacity] {
		c := text(title, rank, of)
		c.Less = func(a, b view.FlavorCapacity) int { return compareQuantities(of(a), of(b)) }
		return c
	}
	return []Column[view.FlavorCapacity]{
		text("FLAVOR", 0, func(r view.FlavorCapacity) string { return r.Flavor }),
		text("RESOURCE", 0, func(r view.FlavorCapacity) string { return r.Resource }),
		amount("PLANNED", 2, func(r view.FlavorCapacity) string { return r.Planned }),
		amount("PRESENT", 3, func(r view.FlavorCapacity) string { return r.Present }),
		amount("HEALTHY", 0, func(r view.FlavorCapacity) string { return r.Healthy }),
		amount("PROMISED", 0, func(r view.FlavorCapacity) string { return r.Promised }),
		amount("SLACK", 0, func(r view.FlavorCapacity) string { return r.Slack }),
		amount("LENT", 1, func(r view.FlavorCapacity) string { return r.Lent }),
		amount("SPARE NODES", 2, func(r view.FlavorCapacity) string {
			if r.Spares == 0 {
				return ""
			}
			return strconv.Itoa(r.Spares)
		}),
		amount("ON ITS WAY", 4, func(r view.FlavorCapacity) string { return r.OnItsWay }),
		amount("ON DEMAND", 5, func(r view.FlavorCapacity) string { return r.OnDemand }),
		{Title: "STATE", State: true, Text: func(r view.FlavorCapacity) string { return r.State }},
		AgeColumn(
			Column[view.FlavorCapacity]{Title: "SINCE", Rank: 1},
			now,
			func(r view.FlavorCapacity) *time.Time { return r.Since },
		),
	}
}

// compareQuantities compares quantities as such; what is none, as nothing is, is least.
func compareQuantities(a, b string) int {
	x, err := resource.ParseQuantity(a)
	y, err2 := resource.ParseQuantity(b)
	switch {
	case err != nil && err2 != nil:
		return 0
	case err != nil:
		return -1
	case err2 != nil:
		return 1
	}
	return x.Cmp(y)
}
