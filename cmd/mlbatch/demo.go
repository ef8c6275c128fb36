//go:build !noembed

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/mlbatch/mlbatch/internal/cli/demo"
	"github.com/mlbatch/mlbatch/internal/local"
)

// newDemoCommand runs the tutorial in a cluster of its own.
func newDemoCommand() *cobra.Command {
	var timeScale float64
	cmd := &cobra.Command{
		Use:   "demo [" + strings.Join(demo.Names(), "|") + "]",
		Short: "Run the tutorial's scenarios in a fresh cluster and check what it promises",
		Long: `Start a fresh cluster in a temporary directory, let the tutorial's users submit
their jobs, print what happens to each of them, and say for each statement of the
tutorial whether it held. The cluster is removed at the end.

It exits with 1 if a statement did not hold.`,
		Example: `  # all three scenarios
  mlbatch demo

  # one of them, with jobs as slow as in the tutorial
  mlbatch demo fault --time-scale 1`,
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: demo.Names(),
		RunE: func(cmd *cobra.Command, args []string) error {
			scenarios, err := demo.Choose(append(args, "all")[0])
			if err != nil {
				return usageError{err}
			}
			if timeScale <= 0 {
				return usageError{fmt.Errorf("--time-scale %g: must be greater than 0", timeScale)}
			}
			return runDemo(cmd, scenarios, timeScale)
		},
	}
	cmd.Flags().Float64Var(&timeScale, "time-scale", 10, "how many times faster than real time jobs run")
	return cmd
}

func runDemo(cmd *cobra.Command, scenarios []demo.Scenario, timeScale float64) (err error) {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	dir, err := os.MkdirTemp("", "mlbatch-demo-")
	if err != nil {
		return fmt.Errorf("make a directory for the cluster: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	fmt.Fprintln(out, "Starting a cluster of its own for the demo:")
	cluster, err := local.Start(ctx, local.Config{
		DataDir:   dir,
		TimeScale: timeScale,
		Tutorial:  true,
		Install:   installMLBatch,
		Progress: func(s local.Milestone) {
			fmt.Fprintf(out, "%6.1fs  %s\n", s.Took.Seconds(), s.Name)
		},
	})
	if err != nil {
		return fmt.Errorf("start the demo's cluster: %w", err)
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		err = errors.Join(err, cluster.Stop(stop))
	}()
	theatre := demo.Theatre{Config: cluster.RESTConfig(), Clock: clock.RealClock{}, TimeScale: timeScale, Out: out}
	if err := theatre.Play(ctx, scenarios); !errors.Is(err, demo.ErrFailed) {
		return err
	}
	return errSilent // the report says what failed
}
