package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/view"
)

// newNodesCommand lists nodes.
func newNodesCommand() *cobra.Command {
	domains, lemons := false, false
	list := &readCommand{
		formats: []string{"wide", "name", "json", "yaml"},
		columns: true,
		sortBy:  byColumn,
		sorts:   titles(cli.NodesInDomainsColumns(time.Time{})),
		watch:   againAndAgain,
		bare:    "without titles and the line below",
		read:    func(ctx context.Context, q *query) (found, error) { return readNodes(ctx, q, domains, lemons) },
	}
	cmd := list.command(&cobra.Command{
		Use:     "nodes",
		Aliases: []string{"node"},
		Short:   "List nodes: health and why, GPUs, which of them are free, whose jobs have the others",
		Long: `List the nodes with what they are good for and why, how many GPUs each offers, how many
of them are free, and whose jobs have the others; below, how full they are all together.
It takes the right to list nodes; what is on them is told to those who may list pods.`,
		Example: `  # which nodes are bad, and how full is it?
  mlbatch nodes

  # where is the most room?
  mlbatch nodes --sort-by -free

  # which are in which rack?
  mlbatch nodes --topology

  # which failed again and again in the last weeks, and what did that cost?
  mlbatch nodes --lemons

  # names, for scripts
  mlbatch nodes -o name

  # which change, again and again
  mlbatch nodes -w`,
		Args: cobra.NoArgs,
	})
	cmd.Flags().
		BoolVar(&domains, "topology", false, "show in which rack, block or other domain each is, and sort by that")
	cmd.Flags().BoolVar(&lemons, "lemons", false,
		"show the nodes that failed in the last eight weeks, the worst first, with the jobs that were lost")
	cmd.MarkFlagsMutuallyExclusive("topology", "lemons")
	cmd.AddCommand(newClearCommand())
	return cmd
}

// untoldPods is said to those who may not know what is on the nodes.
const untoldPods = "You may not list pods of all namespaces: what is on the nodes is not counted."

func readNodes(ctx context.Context, q *query, domains, lemons bool) (found, error) { //nolint:revive // flags
	nodes, seen, err := cli.Nodes(ctx, q.c)
	if err != nil {
		return nil, err
	}
	list := &rows[view.Node]{
		items:   nodes,
		columns: cli.NodeColumns(time.Now()),
		name:    func(n view.Node) string { return n.Name },
	}
	if lemons {
		list.items, list.columns, list.none = cli.Lemons(
			nodes,
		), cli.LemonColumns(
			time.Now(),
		), "No node failed in the last eight weeks, as far as you may know"
		return list, nil
	}
	if domains {
		levels, all, err := cli.TopologyOf(ctx, q.c, "")
		if err != nil {
			return nil, err
		}
		view.InDomains(nodes, all, levels)
		list.columns = cli.NodesInDomainsColumns(time.Now())
	}
	switch {
	case !seen:
		list.notes = []string{untoldPods}
	case (q.output == "" || q.output == "wide") && !q.bare:
		list.below = func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "\n%s.\n", cli.SumOfNodes(nodes))
			return err
		}
	}
	return list, nil
}
