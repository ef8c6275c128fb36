package cli

import (
	"strconv"
	"time"

	"github.com/mlbatch/mlbatch/internal/view"
)

// FlavorColumns are those of a list of how the capacity of flavors stands.
func FlavorColumns(now time.Time) []Column[view.FlavorCapacity] {
	text := func(title string, rank int, of func(view.FlavorCapacity) string) Column[view.FlavorCapacity] {
		return Column[view.FlavorCapacity]{Title: title, Rank: rank, Text: of}
	}
	return []Column[view.FlavorCapacity]{
		text("FLAVOR", 0, func(r view.FlavorCapacity) string { return r.Flavor }),
		text("RESOURCE", 0, func(r view.FlavorCapacity) string { return r.Resource }),
		text("PLANNED", 2, func(r view.FlavorCapacity) string { return r.Planned }),
		text("PRESENT", 3, func(r view.FlavorCapacity) string { return r.Present }),
		text("HEALTHY", 0, func(r view.FlavorCapacity) string { return r.Healthy }),
		text("PROMISED", 0, func(r view.FlavorCapacity) string { return r.Promised }),
		text("SLACK", 0, func(r view.FlavorCapacity) string { return r.Slack }),
		text("LENT", 1, func(r view.FlavorCapacity) string { return r.Lent }),
		text("SPARE NODES", 2, func(r view.FlavorCapacity) string {
			if r.Spares == 0 {
				return ""
			}
			return strconv.Itoa(r.Spares)
		}),
		text("ON ITS WAY", 4, func(r view.FlavorCapacity) string { return r.OnItsWay }),
		text("ON DEMAND", 5, func(r view.FlavorCapacity) string { return r.OnDemand }),
		{Title: "STATE", State: true, Text: func(r view.FlavorCapacity) string { return r.State }},
		AgeColumn(
			Column[view.FlavorCapacity]{Title: "SINCE", Rank: 1},
			now,
			func(r view.FlavorCapacity) *time.Time { return r.Since },
		),
	}
}
