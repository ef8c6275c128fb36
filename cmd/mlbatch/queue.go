package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/view"
)

// queueFlags say of which queues, and in which amounts, a list of queues is.
type queueFlags struct {
	namespace, resource string
}

// newQueueCommand lists queues, or what waits in one.
func newQueueCommand() *cobra.Command {
	cmd := queueList(titles(cli.QueueColumns(nil))).command(&cobra.Command{
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
	})
	cmd.AddCommand(newQueueShowCommand())
	cmd.AddCommand(queueCommands()...)
	return cmd
}

// newQueueShowCommand is what "queue NAME" does, for queues that are called like a subcommand.
func newQueueShowCommand() *cobra.Command {
	return queueList(nil).command(&cobra.Command{
		Use:     "show NAME",
		Short:   "List what waits in a queue, in order; the same as queue NAME",
		Example: "  mlbatch queue show blue-cluster-queue",
		Args:    cobra.ExactArgs(1),
	})
}

// queueList lists queues or, with an argument, what waits in one.
func queueList(sorts []string) *readCommand {
	var f queueFlags
	return &readCommand{
		formats: []string{"wide", "name", "json", "yaml"},
		columns: true,
		sortBy:  "`column` to sort by, instead of the tree, or the order in which they wait; -COLUMN turns the order",
		sorts:   sorts,
		watch:   againAndAgain,
		bare:    withoutTitles,
		flags: func(cmd *cobra.Command) {
			cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "", "`namespace` of LocalQueues")
			cmd.Flags().StringVar(&f.resource, "resource", "",
				"`resource` that amounts are of (default: GPUs, or else the first of a quota)")
		},
		read: func(ctx context.Context, q *query) (found, error) {
			if len(q.args) > 0 {
				return f.waiting(ctx, q, q.args[0])
			}
			return f.all(ctx, q)
		},
	}
}

// all are the queues.
func (f *queueFlags) all(ctx context.Context, q *query) (found, error) {
	queues, _, err := reachable(q.conn, f.namespace, func(namespace string) ([]view.Queue, error) {
		return cli.Queues(ctx, q.c, namespace)
	})
	if err != nil {
		return nil, err
	}
	lines := cli.QueueRows(queues, f.resource)
	if flat := cli.Flat(
		lines,
	); len(flat) > 0 &&
		(q.sortBy != "" || q.output == "name") { // else they are LocalQueues
		lines = flat
	}
	return &rows[cli.QueueRow]{
		items: lines, columns: cli.QueueColumns(lines), none: "There are no queues here that you may see.",
		name: func(r cli.QueueRow) string { return strings.TrimPrefix(r.Namespace+"/"+r.Name, "/") },
	}, nil
}

// waiting is what waits in a queue.
func (f *queueFlags) waiting(ctx context.Context, q *query, name string) (found, error) {
	pending, err := cli.Controller{Config: q.cfg}.Pending(ctx, f.namespace, name)
	if err != nil {
		return nil, cli.NoQueue(ctx, q.c, f.namespace, name, err)
	}
	jobs, err := cli.WaitingRows(ctx, q.c, f.namespace, pending)
	if err != nil {
		return nil, err
	}
	return &rows[cli.WaitingRow]{
		items: jobs, columns: cli.WaitingColumns(time.Now()), none: fmt.Sprintf("Nothing waits in queue %s.", name),
		name: func(r cli.WaitingRow) string { return r.Namespace + "/" + r.Name },
	}, nil
}
