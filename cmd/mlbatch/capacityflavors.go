package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/gather"
)

// checkFlavors refuses what says which gangs are asked about beside --flavors, which asks about none.
func checkFlavors(q *query) error {
	names := []string{"namespace", "queue", "gpus-per-pod", "pods", "level", "resource", "priority-class"}
	for _, name := range names {
		if q.cmd.Flags().Changed(name) {
			return fmt.Errorf("--flavors asks about no gangs: leave out --%s", name)
		}
	}
	return nil
}

// capacityTitles are the columns of gangs, and those that flavors have besides.
func capacityTitles() []string {
	all := slices.Concat(titles(cli.CapacityColumns(true, true)), titles(cli.FlavorColumns(time.Time{})))
	slices.Sort(all)
	return slices.Compact(all)
}

// readFlavors says how the capacity of flavors stands.
func readFlavors(ctx context.Context, q *query) (found, error) {
	all, err := gather.Capacity(ctx, q.c)
	if err != nil {
		return nil, err
	}
	return &rows[view.FlavorCapacity]{
		items: all, columns: cli.FlavorColumns(time.Now()),
		none: "No flavor says how its capacity stands: there are no nodes of any, or no controller runs.",
	}, nil
}

// shortNotes say which flavors have less than was promised; nothing to those who may not read them.
func shortNotes(ctx context.Context, q *query) (notes []string) {
	all, err := gather.Capacity(ctx, q.c)
	if err != nil {
		return nil
	}
	for _, f := range all {
		switch f.State {
		case view.CapacityShort:
			notes = append(notes, fmt.Sprintf(
				"Of %s %s of flavor %s that are promised %s are healthy: mlbatch capacity --flavors says more.",
				f.Promised, f.Resource, f.Flavor, f.Healthy,
			))
		case view.CapacityCut:
			notes = append(notes, fmt.Sprintf(
				"Of %s %s of flavor %s that are promised %s are healthy, and quotas are cut for that: "+
					"mlbatch capacity --flavors says more.",
				f.Promised, f.Resource, f.Flavor, f.Healthy,
			))
		}
	}
	return notes
}
