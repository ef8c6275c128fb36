package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	kueue "github.com/mlbatch/mlbatch/api/kueue/v1beta2"
	"github.com/mlbatch/mlbatch/internal/cli/admin"
)

// newFlavorCommand lists flavors and makes them.
func newFlavorCommand() *cobra.Command {
	cmd := teamCommand(listFlavors).command(&cobra.Command{
		Use:     "flavor",
		Aliases: []string{"flavors"},
		Short:   "List flavors, the kinds of nodes that quota is counted in, and make them",
		Example: `  # which are there, with how many nodes, and who has quota of them?
  mlbatch flavor

  # a kind of node
  mlbatch flavor create h100 --node-labels nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3`,
		Args: cobra.NoArgs,
	})
	list := teamCommand(listFlavors).command(&cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List flavors",
		Example: "  mlbatch flavor list",
		Args:    cobra.NoArgs,
	})
	cmd.AddCommand(list, newFlavorCreateCommand("create NAME"), newFlavorDeleteCommand("delete NAME"))
	return cmd
}

func listFlavors(ctx context.Context, q *query) (found, error) {
	h, err := admin.TakeHardware(ctx, q.c)
	if err != nil {
		return nil, err
	}
	return &rows[admin.FlavorRow]{
		items:   h.FlavorRows(),
		columns: admin.FlavorColumns(),
		none: fmt.Sprintf(
			"There are no flavors; mlbatch flavor create %s makes one of all nodes.",
			admin.DefaultFlavor,
		),
	}, nil
}

func newFlavorCreateCommand(use string) *cobra.Command {
	var m making
	var n admin.NewFlavor
	var object *kueue.ResourceFlavor
	cmd := writeCommand{
		making: &m, prints: true,
		check: func() (err error) {
			n.Name = m.args[0]
			object, err = n.Object()
			return err //nolint:wrapcheck // it names the flag
		},
		do: func(ctx context.Context) error {
			h, err := admin.TakeHardware(ctx, m.c)
			if err != nil {
				return err //nolint:wrapcheck // it says what it read
			}
			return m.create(ctx, object, h.FlavorHints(object))
		},
	}.command(&cobra.Command{
		Use:   use,
		Short: "Make a flavor: a kind of node that quota is counted in",
		Long: `Make a ResourceFlavor. Without labels it is all nodes; with labels those that have them all.
With --node-taints only pods that tolerate them use it, with --tolerations its pods are given
them. A flavor whose labels no node has admits nothing, unless --on-demand says that its nodes
are made when they are needed.`,
		Example: `  # all nodes
  mlbatch flavor create default-flavor

  # some, which others than its jobs keep off
  mlbatch flavor create spot --node-labels pool=spot --tolerations spot=true:NoSchedule`,
		Args: cobra.ExactArgs(1),
	})
	f := cmd.Flags()
	f.StringSliceVar(&n.Labels, "node-labels", nil, "`KEY=VALUE,...` that its nodes have")
	f.StringSliceVar(&n.Taints, "node-taints", nil, "`KEY=VALUE:EFFECT,...` taints of its nodes")
	f.StringSliceVar(&n.Tolerations, "tolerations", nil, "`KEY=VALUE:EFFECT,...` that its pods are given")
	f.StringVar(&n.Topology, "topology", "", "`Topology` of its nodes")
	f.BoolVar(&n.OnDemand, "on-demand", false, "its nodes are made when pods ask for them")
	return cmd
}

func newFlavorDeleteCommand(use string) *cobra.Command {
	var m making
	return writeCommand{making: &m, do: func(ctx context.Context) error {
		name := m.args[0]
		h, err := admin.TakeHardware(ctx, m.c)
		if err != nil {
			return err //nolint:wrapcheck // it says what it read
		}
		rows := h.FlavorRows()
		at := slices.IndexFunc(rows, func(r admin.FlavorRow) bool { return r.Name == name })
		if at < 0 {
			return fmt.Errorf("there is no flavor %s: mlbatch flavor list names those that there are", name)
		}
		if err := rows[at].Removable(); err != nil {
			return err //nolint:wrapcheck // a sentence for people
		}
		if m.dryRun != dryRunClient {
			if err := admin.DeleteFlavor(ctx, m.c, name); err != nil {
				return err //nolint:wrapcheck // it names the flavor
			}
		}
		fmt.Fprintf(m.out, "resourceflavor/%s deleted%s\n", name, m.suffix())
		return nil
	}}.command(&cobra.Command{
		Use:               use,
		Short:             "Remove a flavor that no queue has quota of",
		Example:           "  mlbatch flavor delete spot",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: asking(kueueNames("ResourceFlavor")),
	})
}
