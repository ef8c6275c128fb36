package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/view/why"
)

// newWhyNotCommand says why one job runs and another does not.
func newWhyNotCommand() *cobra.Command {
	var job jobArg
	var output string
	cmd := &cobra.Command{
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
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains([]string{"", "json", "yaml"}, output) {
				return usageError{fmt.Errorf("-o %s is not known: use json or yaml", output)}
			}
			ref, err := job.ref(args[0])
			if err != nil {
				return err
			}
			var other why.Other
			var is bool
			if other.UID, is = cli.UIDOf(args[1]); !is {
				if other.Ref, err = job.ref(args[1]); err != nil {
					return err
				}
			}
			if ref == other.Ref {
				return usageError{errors.New(args[0] + " is named twice: name the job that waits and the one that runs")}
			}
			cfg, c, err := connect(&job.conn)
			if err != nil {
				return err
			}
			rivals, err := why.GatherRivals(cmd.Context(), c, cli.Controller{Config: cfg}, ref, other, time.Now())
			if err != nil {
				return job.conn.Unreachable(err, cfg.Host)
			}
			receipt, out := why.Compare(rivals), cmd.OutOrStdout()
			if output != "" {
				return printObject(out, output, receipt)
			}
			return cli.PrintComparison(out, &receipt, cli.Style{Width: widthOf(out)}, tableWidth(out))
		},
	}
	f := cmd.Flags()
	f.StringVarP(&output, "output", "o", "", "json or yaml instead of a receipt")
	job.flags(f)
	return cmd
}
