package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/view"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// newWhyNotCommand says why one job runs and another does not.
func newWhyNotCommand() *cobra.Command {
	var job jobArg
	var ref view.Ref
	var other why.Other
	ask := &readCommand{
		formats: []string{"json", "yaml"}, instead: "a receipt", job: &job,
		check: func(q *query) (err error) {
			if ref, err = job.ref(q.args[0]); err != nil {
				return err
			}
			var is bool
			if other.UID, is = cli.UIDOf(q.args[1]); !is {
				if other.Ref, err = job.ref(q.args[1]); err != nil {
					return err
				}
			}
			if ref == other.Ref {
				return errors.New(q.args[0] + " is named twice: name the job that waits and the one that runs")
			}
			return nil
		},
		read: func(ctx context.Context, q *query) (found, error) {
			rivals, err := why.GatherRivals(ctx, q.c, cli.Controller{Config: q.cfg}, ref, other, time.Now())
			if err != nil {
				return nil, err
			}
			receipt := why.Compare(rivals)
			return answer{receipt, func(w io.Writer) error {
				return cli.PrintComparison(w, &receipt, cli.Style{Width: widthOf(w)}, tableWidth(w))
			}}, nil
		},
	}
	return ask.command(&cobra.Command{
		Use:   "why-not JOB OTHER",
		Short: "Say why a job waits while another runs: both in numbers, the rule, and whether the other is in the way",
		Long: `Say why JOB waits while OTHER runs, or comes first: priority, time, quota and shares of
both side by side, the rule that decided and the field that sets it, why JOB may not stop
OTHER, and whether JOB would start were OTHER not there, which is tried in a copy of the
controller's state.

Both are NAME or NAMESPACE/NAME. A job of another team is known by the UID that "mlbatch
why" prints; OTHER may be such a UID, and its name is not told.`,
		Example: `  # why does the other job run and mine not?
  mlbatch why-not blue/big blue/small

  # the job of another team that "mlbatch why" named
  mlbatch why-not blue/big 7d0c2a8e-5f6b-4c1d-9e3a-2b4c6d8e0f1a

  # for a script
  mlbatch why-not blue/big blue/small -o json`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: job.completeTwo,
	})
}
