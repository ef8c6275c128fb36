package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/cli/admin"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/words"
)

// nodeCommand is a command about nodes that are named, as a value. The runner (command) finds them.
type nodeCommand struct {
	session

	nodes []admin.Node
	// check finds mistakes in what was typed, if there can be any.
	check func() error
	do    func(ctx context.Context) error
}

func (n *nodeCommand) command(cmd *cobra.Command) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = cobra.MinimumNArgs(1), others(asking(coreNames("Node")))
	return clusterCommand{session: &n.session, check: n.check, do: func(ctx context.Context) (err error) {
		if n.nodes, err = admin.FindNodes(ctx, n.c, n.args); err != nil {
			return err //nolint:wrapcheck // it says what it read
		}
		return n.do(ctx)
	}}.command(cmd)
}

// drainCommand takes nodes out of service.
type drainCommand struct {
	nodeCommand

	reason       string
	evict, noNew bool
	yes, dryRun  bool
	wait         bool
	patience     time.Duration
}

func newDrainCommand() *cobra.Command {
	var d drainCommand
	d.check = func() error {
		if d.noNew && d.cmd.Flags().Changed("evict") && d.evict {
			return errors.New("--evict and --no-new: give one of them")
		}
		if d.wait && d.noNew {
			return errors.New("--wait is for what moves away: with --no-new nothing does")
		}
		d.evict = !d.noNew
		return nil
	}
	d.do = d.drain
	cmd := d.command(&cobra.Command{
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
	})
	f := cmd.Flags()
	f.StringVar(&d.reason, "reason", "", "`why`, for those who see the node closed")
	f.BoolVar(&d.evict, "evict", true, "move away what has GPUs there (the default)")
	f.BoolVar(&d.noNew, "no-new", false, "only start nothing more")
	f.BoolVarP(&d.yes, "yes", "y", false, "do not ask")
	f.BoolVar(&d.dryRun, "dry-run", false, "say who is affected, and change nothing")
	f.BoolVar(&d.wait, "wait", false, "wait until all that moves has left")
	f.DurationVar(&d.patience, "timeout", 10*time.Minute, "how long to wait")
	return cmd
}

func newUndrainCommand() *cobra.Command {
	var u nodeCommand
	u.do = func(ctx context.Context) error {
		for _, n := range u.nodes {
			left, err := n.Undrain(ctx, u.c)
			switch {
			case err != nil:
				return err //nolint:wrapcheck // it names the node
			case len(left) > 0:
				why := words.Harmless(strings.Join(left, ", "))
				fmt.Fprintf(u.out, "node/%s undrained; it stays out of service: %s\n", n.Name, why)
			default:
				fmt.Fprintf(u.out, "node/%s undrained\n", n.Name)
			}
		}
		return nil
	}
	return u.command(&cobra.Command{
		Use:   "undrain NODE...",
		Short: "Put nodes back that mlbatch drain took out of service",
		Long: `Put nodes back into service. Only what "mlbatch drain" did is undone: a node that somebody else
cordoned, or that a health check condemned, stays as it is, and you are told.`,
		Example: "  mlbatch undrain node-1",
	})
}

func (d *drainCommand) drain(ctx context.Context) error {
	out, leaving := d.out, 0
	for _, n := range d.nodes {
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
		if err := confirm(d.cmd, d.yes, fmt.Sprintf("Move %d of them away?", leaving)); err != nil {
			return err
		}
	}
	who, err := cli.WhoAmI(ctx, d.c)
	if err != nil {
		return err //nolint:wrapcheck // it says what it asked
	}
	for _, n := range d.nodes {
		others := n.Spec.Unschedulable && view.DrainOf(n.Node) == nil
		done, err := n.Drain(ctx, d.c, who, d.reason, d.evict, time.Now())
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
	return d.await(ctx)
}

// await waits until what moves has left.
func (d *drainCommand) await(ctx context.Context) error {
	var left []string
	err := wait.PollUntilContextTimeout(
		ctx,
		500*time.Millisecond,
		d.patience,
		true,
		func(ctx context.Context) (bool, error) {
			var err error
			left, err = admin.Emptied(ctx, d.c, d.args)
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
