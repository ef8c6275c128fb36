package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/view"
)

// queueFlags are those of the list of queues.
type queueFlags struct {
	conn      cli.Connection
	namespace string
	resource  string
	output    string
	sortBy    string
	watch     bool
	bare      bool
}

// newQueueCommand lists queues, or what waits in one.
func newQueueCommand() *cobra.Command {
	var q queueFlags
	cmd := &cobra.Command{
		Use:     "queue [NAME]",
		Aliases: []string{"queues"},
		Short:   "List queues: quota, what is used, borrowed and lent, what waits; or what waits in one, in order",
		Long: `List the ClusterQueues in the tree of their cohorts: quota of their own, what is used and
how much of that is borrowed, how much of their own others use (at most, where it begins
with ≤: others may have lent it instead), their share if there is fair sharing, how many
jobs run and wait. Those who may not read ClusterQueues get their LocalQueues, as everybody
does with -n: what its own jobs use, what all jobs of its ClusterQueue do (OF ALL), and that
one's quota.

With a NAME: the jobs that wait in that ClusterQueue or, with -n, in that LocalQueue, in
the order in which they are considered. A queue that is called like a subcommand is shown by
"queue show NAME".`,
		Example: `  # who has and uses what
  mlbatch queue

  # the line in which blue's jobs wait
  mlbatch queue default-queue -n blue

  # another resource than GPUs
  mlbatch queue --resource cpu

  # how the line moves, again and again
  mlbatch queue blue-cluster-queue -w`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: asking(offeredQueues),
		RunE: func(cmd *cobra.Command, args []string) error {
			return q.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args)
		},
	}
	q.flags(cmd)
	cmd.AddCommand(newQueueShowCommand())
	cmd.AddCommand(queueCommands()...)
	return cmd
}

// newQueueShowCommand is what "queue NAME" does, for queues that are called like a subcommand.
func newQueueShowCommand() *cobra.Command {
	var q queueFlags
	cmd := &cobra.Command{
		Use:     "show NAME",
		Short:   "List what waits in a queue, in order; the same as queue NAME",
		Example: "  mlbatch queue show blue-cluster-queue",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return q.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args)
		},
	}
	q.flags(cmd)
	return cmd
}

func (q *queueFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&q.namespace, "namespace", "n", "", "`namespace` of LocalQueues")
	f.StringVar(&q.resource, "resource", "", "`resource` that amounts are of (default: GPUs, or else the first of a quota)")
	f.StringVarP(&q.output, "output", "o", "", "wide, name, json, yaml or custom-columns=TITLE:.field,...")
	f.StringVar(&q.sortBy, "sort-by", "", "`column` to sort by, instead of the tree, or the order in which they wait; -COLUMN turns the order")
	f.BoolVarP(&q.watch, "watch", "w", false, "again and again, until interrupted")
	f.BoolVar(&q.bare, "no-headers", false, "without titles")
	connectionFlags(f, &q.conn)
}

func (q *queueFlags) run(ctx context.Context, out, errs io.Writer, args []string) error {
	if err := checkOutput(q.output, "wide", "name", "json", "yaml"); err != nil {
		return usageError{err}
	}
	cfg, c, err := connect(&q.conn)
	if err != nil {
		return err
	}
	show := func(w io.Writer) error { return q.all(ctx, w, errs, c) }
	if len(args) > 0 {
		show = func(w io.Writer) error { return q.waiting(ctx, w, errs, cfg, c, args[0]) }
	}
	return q.conn.Unreachable(showOrWatch(ctx, out, q.watch, show), cfg.Host)
}

// all prints the queues.
func (q *queueFlags) all(ctx context.Context, out, errs io.Writer, c client.Reader) error {
	queues, _, err := reachable(&q.conn, q.namespace, func(namespace string) ([]view.Queue, error) {
		return cli.Queues(ctx, c, namespace)
	})
	if err != nil {
		return err
	}
	rows := cli.QueueRows(queues, q.resource)
	if len(rows) == 0 && tabular(q.output) {
		fmt.Fprintln(errs, "There are no queues here that you may see.")
		return nil
	}
	if flat := cli.Flat(rows); len(flat) > 0 && (q.sortBy != "" || q.output == "name") { // else they are LocalQueues
		rows = flat
	}
	columns := cli.QueueColumns(rows)
	if q.sortBy != "" {
		if err := cli.SortBy(columns, rows, q.sortBy); err != nil {
			return usageError{err}
		}
	}
	if q.output == "name" {
		return printNames(out, rows, func(r cli.QueueRow) string { return strings.TrimPrefix(r.Namespace+"/"+r.Name, "/") })
	}
	return printRows(out, q.output, columns, rows, q.bare)
}

// waiting prints what waits in a queue.
func (q *queueFlags) waiting(ctx context.Context, out, errs io.Writer, cfg *rest.Config, c client.Client, name string) error {
	pending, err := cli.Controller{Config: cfg}.Pending(ctx, q.namespace, name)
	if err != nil {
		return cli.NoQueue(ctx, c, q.namespace, name, err)
	}
	rows, err := cli.WaitingRows(ctx, c, q.namespace, pending)
	if err != nil {
		return err
	}
	if len(rows) == 0 && tabular(q.output) {
		fmt.Fprintf(errs, "Nothing waits in queue %s.\n", name)
		return nil
	}
	columns := cli.WaitingColumns(time.Now())
	if q.sortBy != "" {
		if err := cli.SortBy(columns, rows, q.sortBy); err != nil {
			return usageError{err}
		}
	}
	if q.output == "name" {
		return printNames(out, rows, func(r cli.WaitingRow) string { return r.Namespace + "/" + r.Name })
	}
	return printRows(out, q.output, columns, rows, q.bare)
}
