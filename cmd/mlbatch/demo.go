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

	"github.com/mlbatch/mlbatch/examples"
	"github.com/mlbatch/mlbatch/internal/cli/demo"
	"github.com/mlbatch/mlbatch/internal/local"
	"github.com/mlbatch/mlbatch/internal/local/simnode"
)

// newDemoCommand runs the tutorial in a cluster of its own.
func newDemoCommand() *cobra.Command {
	var timeScale float64
	cmd := &cobra.Command{
		Use:   "demo [" + strings.Join(demoNames(), "|") + "]",
		Short: "Run the tutorial's scenarios in a fresh cluster and check what it promises",
		Long: `Start a fresh cluster in a temporary directory, let the tutorial's users submit
their jobs, print what happens to each of them, and say for each statement of the
tutorial whether it held. The cluster is removed at the end.

With kinds, one job of each kind is run instead, and with workloads the example workloads
of the tutorial, from the manifests in examples, and a line is printed for each.

It exits with 1 if a statement did not hold, or an example did not run.`,
		Example: `  # all three scenarios
  mlbatch demo

  # one of them, with jobs as slow as in the tutorial
  mlbatch demo fault --time-scale 1

  # one job of each kind
  mlbatch demo kinds`,
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: demoNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			play, fleet, err := chooseDemo(append(args, "all")[0])
			if err != nil {
				return usageError{err}
			}
			if timeScale <= 0 {
				return usageError{fmt.Errorf("--time-scale %g: must be greater than 0", timeScale)}
			}
			return runDemo(cmd, fleet, play, timeScale)
		},
	}
	cmd.Flags().Float64Var(&timeScale, "time-scale", 10, "how many times faster than real time jobs run")
	return cmd
}

// exampleNodes are enough for all examples at the same time: none has to wait for another, or
// gives way to it.
const exampleNodes = 12

func demoNames() []string {
	names := demo.Names()
	for _, c := range demo.Collections() {
		names = append(names, c.Name)
	}
	return names
}

// performance is what is played in the cluster.
type performance func(context.Context, demo.Theatre) error

// chooseDemo returns what is played under a name, and on which nodes.
func chooseDemo(name string) (performance, simnode.Fleet, error) {
	fleet := simnode.DefaultFleet()
	for _, c := range demo.Collections() {
		if c.Name == name {
			fleet.Count = exampleNodes
			return func(ctx context.Context, t demo.Theatre) error { return t.PlayAll(ctx, c) }, fleet, nil
		}
	}
	scenarios, err := demo.Choose(name)
	if err != nil {
		return nil, fleet, fmt.Errorf("there is no demo %q: use one of %s", name, strings.Join(demoNames(), ", "))
	}
	return func(ctx context.Context, t demo.Theatre) error { return t.Play(ctx, scenarios) }, fleet, nil
}

func runDemo(cmd *cobra.Command, fleet simnode.Fleet, play performance, timeScale float64) (err error) {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	dir, err := os.MkdirTemp("", "mlbatch-demo-")
	if err != nil {
		return fmt.Errorf("make a directory for the cluster: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	fmt.Fprintln(out, "Starting a cluster of its own for the demo:")
	cluster, err := local.Start(ctx, local.Config{
		DataDir:   dir,
		Fleet:     fleet,
		TimeScale: timeScale,
		Tutorial:  true,
		Samples:   examples.AllRuntimes(),
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
	if err := play(ctx, theatre); !errors.Is(err, demo.ErrFailed) && !errors.Is(err, demo.ErrNotAll) {
		return err
	}
	return errSilent // the report says what failed
}
