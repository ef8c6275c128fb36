package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/cli/admin"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/words"
)

// drainFlags are those of taking nodes out of service.
type drainFlags struct {
	conn     cli.Connection
	reason   string
	evict    bool
	noNew    bool
	yes      bool
	dryRun   bool
	wait     bool
	patience time.Duration
}

func newDrainCommand() *cobra.Command {
	var d drainFlags
	cmd := &cobra.Command{
		Use:   "drain NODE...",
		Short: "Take nodes out of service: nothing more starts on them, and jobs with GPUs move away",
		Long: `Take nodes out of service. Nothing more starts on them, and what has GPUs there leaves: AppWrappers
start again elsewhere at no cost of their retries, pods of other jobs are made anew one by one. Jobs
keep their quota. With --no-new what runs there runs on to its end. Who is affected is said first,
and you are asked.

The node says who did it, when and why ("mlbatch nodes" shows it); "mlbatch undrain" puts it back.
Where Autopilot checks the GPUs it may overwrite the label by which pods are told to leave; the
node stays closed.`,
		Example: `  # move everything away, and wait until it is gone
  mlbatch drain node-1 --reason "fan broken" --wait

  # let what runs there end
  mlbatch drain node-1 --reason "kernel update" --no-new

  # who would be affected?
  mlbatch drain node-1 --dry-run`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: others(asking(coreNames("Node"))),
		RunE: func(cmd *cobra.Command, args []string) error {
			if d.noNew && cmd.Flags().Changed("evict") && d.evict {
				return usagef("--evict and --no-new: give one of them")
			}
			if d.wait && d.noNew {
				return usagef("--wait is for what moves away: with --no-new nothing does")
			}
			d.evict = !d.noNew
			return d.drain(cmd, args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&d.reason, "reason", "", "`why`, for those who see the node closed")
	f.BoolVar(&d.evict, "evict", true, "move away what has GPUs there (the default)")
	f.BoolVar(&d.noNew, "no-new", false, "only start nothing more")
	f.BoolVarP(&d.yes, "yes", "y", false, "do not ask")
	f.BoolVar(&d.dryRun, "dry-run", false, "say who is affected, and change nothing")
	f.BoolVar(&d.wait, "wait", false, "wait until all that moves has left")
	f.DurationVar(&d.patience, "timeout", 10*time.Minute, "how long to wait")
	connectionFlags(f, &d.conn)
	return cmd
}

func newUndrainCommand() *cobra.Command {
	var d drainFlags
	cmd := &cobra.Command{
		Use:   "undrain NODE...",
		Short: "Put nodes back that mlbatch drain took out of service",
		Long: `Put nodes back into service. Only what "mlbatch drain" did is undone: a node that somebody else
cordoned, or that a health check condemned, stays as it is, and you are told.`,
		Example:           "  mlbatch undrain node-1",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: others(asking(coreNames("Node"))),
		RunE:              func(cmd *cobra.Command, args []string) error { return d.undrain(cmd, args) },
	}
	connectionFlags(cmd.Flags(), &d.conn)
	return cmd
}

// nodes finds the nodes that were named.
func (d *drainFlags) nodes(ctx context.Context, names []string) (client.Client, []admin.Node, error) {
	cfg, c, err := connect(&d.conn)
	if err != nil {
		return nil, nil, err
	}
	nodes, err := admin.FindNodes(ctx, c, names)
	return c, nodes, d.conn.Unreachable(err, cfg.Host)
}

func (d *drainFlags) drain(cmd *cobra.Command, names []string) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	c, nodes, err := d.nodes(ctx, names)
	if err != nil {
		return err
	}
	leaving := 0
	for _, n := range nodes {
		leave, _ := n.Leaving(d.evict)
		leaving += len(leave)
		if len(n.Jobs) == 0 {
			fmt.Fprintf(out, "On %s runs nothing.\n", n.Name)
			continue
		}
		fmt.Fprintf(out, "On %s:\n", n.Name)
		if err := printRows(out, "", admin.OnNodeColumns(d.evict), n.Jobs, false); err != nil {
			return err
		}
	}
	if d.dryRun {
		fmt.Fprintln(out, "Nothing was changed (dry run).")
		return nil
	}
	if leaving > 0 {
		if err := confirm(cmd, d.yes, fmt.Sprintf("Move %d of them away?", leaving)); err != nil {
			return err
		}
	}
	who, err := cli.WhoAmI(ctx, c)
	if err != nil {
		return err //nolint:wrapcheck // it says what it asked
	}
	for _, n := range nodes {
		others := n.Spec.Unschedulable && view.DrainOf(n.Node) == nil
		done, err := n.Drain(ctx, c, who, d.reason, d.evict, time.Now())
		if err != nil {
			return err //nolint:wrapcheck // it names the node
		}
		switch {
		case !done:
			fmt.Fprintf(out, "node/%s unchanged: it is drained already\n", n.Name)
		case others:
			fmt.Fprintf(out, "node/%s drained; it was cordoned already, and undrain leaves it so\n", n.Name)
		default:
			fmt.Fprintf(out, "node/%s drained\n", n.Name)
		}
	}
	if !d.wait {
		return nil
	}
	return d.await(ctx, c, names)
}

// await waits until what moves has left.
func (d *drainFlags) await(ctx context.Context, c client.Client, names []string) error {
	var left []string
	err := wait.PollUntilContextTimeout(
		ctx,
		500*time.Millisecond,
		d.patience,
		true,
		func(ctx context.Context) (bool, error) {
			var err error
			left, err = admin.Emptied(ctx, c, names)
			return len(left) == 0, err //nolint:wrapcheck // it says what it read
		},
	)
	if wait.Interrupted(err) {
		return fmt.Errorf(
			"after %s there is still %s: mlbatch events and mlbatch why tell what holds it",
			d.patience,
			strings.Join(left, ", "),
		)
	}
	return err //nolint:wrapcheck // it says what it read
}

func (d *drainFlags) undrain(cmd *cobra.Command, names []string) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	c, nodes, err := d.nodes(ctx, names)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		left, err := n.Undrain(ctx, c)
		if err != nil {
			return err //nolint:wrapcheck // it names the node
		}
		if len(left) > 0 {
			fmt.Fprintf(
				out,
				"node/%s undrained; it stays out of service: %s\n",
				n.Name,
				words.Harmless(strings.Join(left, ", ")),
			)
			continue
		}
		fmt.Fprintf(out, "node/%s undrained\n", n.Name)
	}
	return nil
}
