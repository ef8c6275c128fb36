package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/view"
)

// nodesFlags are those of the list of nodes.
type nodesFlags struct {
	conn   cli.Connection
	output string
	sortBy string
	watch  bool
	bare   bool
}

// newNodesCommand lists nodes.
func newNodesCommand() *cobra.Command {
	var n nodesFlags
	cmd := &cobra.Command{
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

  # names, for scripts
  mlbatch nodes -o name

  # which change, again and again
  mlbatch nodes -w`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return n.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&n.output, "output", "o", "", "wide, name, json, yaml or custom-columns=TITLE:.field,...")
	f.StringVar(&n.sortBy, "sort-by", "", "`column` to sort by; -COLUMN turns the order")
	f.BoolVarP(&n.watch, "watch", "w", false, "again and again, until interrupted")
	f.BoolVar(&n.bare, "no-headers", false, "without titles and the line below")
	connectionFlags(f, &n.conn)
	return cmd
}

func (n *nodesFlags) run(ctx context.Context, out, errs io.Writer) error {
	if err := checkOutput(n.output, "wide", "name", "json", "yaml"); err != nil {
		return usageError{err}
	}
	cfg, c, err := connect(&n.conn)
	if err != nil {
		return err
	}
	show := func(w io.Writer) error { return n.print(ctx, w, errs, c) }
	return n.conn.Unreachable(showOrWatch(ctx, out, n.watch, show), cfg.Host)
}

// print takes the list and prints it.
func (n *nodesFlags) print(ctx context.Context, out, errs io.Writer, c client.Reader) error {
	rows, seen, err := cli.Nodes(ctx, c)
	if err != nil {
		return err
	}
	columns := cli.NodeColumns(time.Now())
	if n.sortBy != "" {
		if err := cli.SortBy(columns, rows, n.sortBy); err != nil {
			return usageError{err}
		}
	}
	if !seen {
		fmt.Fprintln(errs, "You may not list pods of all namespaces: what is on the nodes is not counted.")
	}
	if n.output == "name" {
		return printNames(out, rows, func(r view.Node) string { return r.Name })
	}
	err = printRows(out, n.output, columns, rows, n.bare)
	if err != nil || (n.output != "" && n.output != "wide") || n.bare || !seen {
		return err
	}
	_, err = fmt.Fprintf(out, "\n%s.\n", cli.SumOfNodes(rows))
	return err
}
