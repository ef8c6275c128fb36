//go:build !noembed

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/mlbatch/mlbatch/examples"
	"github.com/mlbatch/mlbatch/internal/cli/demo"
	"github.com/mlbatch/mlbatch/internal/cli/demo/scene"
	"github.com/mlbatch/mlbatch/internal/local"
	"github.com/mlbatch/mlbatch/internal/local/simnode"
)

// newDemoCommand shows what mlbatch does, and checks what it says.
func newDemoCommand() *cobra.Command {
	var timeScale float64
	var runtimeName string
	cmd := &cobra.Command{
		Use:   "demo [NAME]",
		Short: "Show what mlbatch does, in a fresh cluster, and check what it says",
		Long: `Show what mlbatch does: scenes of less than a minute, each about one thing, for somebody who
has never heard of batch queues. A scene types commands as users would, in a fresh cluster of
its own that is removed at the end, and prints what they say; those about days and weeks run in
virtual time. "mlbatch demo list" lists them:

` + demoList() + `
Without a name it runs the tutorial: the tutorial's users submit their jobs, and what happens
to each of them is printed.

Each ends with its statements and whether they held, PASS or FAIL. It exits with 1 if a
statement did not hold, or an example did not run.`,
		Example: `  # what is there to see?
  mlbatch demo list

  # why a job waits, and what helps
  mlbatch demo why

  # the tutorial's three scenarios
  mlbatch demo

  # one of them, with jobs as slow as in the tutorial
  mlbatch demo evict --time-scale 1

  # in real containers (as root), which takes minutes
  sudo mlbatch demo --runtime containerd

  # one job of each kind
  mlbatch demo kinds`,
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: demoNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := append(args, "all")[0]
			if name == "list" {
				_, err := io.WriteString(cmd.OutOrStdout(), demoList())
				return err
			}
			scaled := cmd.Flags().Changed("time-scale")
			if timeScale <= 0 {
				return usageError{fmt.Errorf("--time-scale %g: must be greater than 0", timeScale)}
			}
			runtime, err := runtimeNamed(runtimeName)
			if err != nil {
				return err
			}
			if runtime == local.Containerd {
				if _, err := demo.Choose(name); err != nil {
					return usageError{
						fmt.Errorf(
							"--runtime %s is for the tutorial: use one of %s",
							runtime,
							strings.Join(demo.Names(), ", "),
						),
					}
				}
				if scaled && timeScale != 1 {
					return usageError{fmt.Errorf("--time-scale %g: real pods take real time: leave it out", timeScale)}
				}
				timeScale = 1
			}
			if s, is := scene.Find(name); is {
				if scaled {
					return usageError{
						fmt.Errorf("--time-scale is for the tutorial and the examples: scene %s has its own", name),
					}
				}
				return runScene(cmd, s)
			}
			play, fleet, err := chooseDemo(name)
			if err != nil {
				return usageError{err}
			}
			return runDemo(
				cmd,
				local.Config{Runtime: runtime, Images: realImages(), Fleet: fleet, TimeScale: timeScale},
				play,
			)
		},
	}
	cmd.Flags().Float64Var(
		&timeScale,
		"time-scale",
		10,
		"how many times faster than real time jobs of the tutorial and the examples run",
	)
	cmd.Flags().StringVar(
		&runtimeName,
		"runtime",
		string(local.Simulated),
		"what runs the tutorial's pods: simulated, or containerd for real containers",
	)
	return cmd
}

// exampleNodes are enough for all examples at the same time: none has to wait for another, or
// gives way to it.
const exampleNodes = 12

// demoNames are all names that there are.
func demoNames() []string {
	var names []string
	for _, s := range scene.All() {
		names = append(names, s.Name)
	}
	names = append(names, demo.Names()...)
	for _, c := range demo.Collections() {
		names = append(names, c.Name)
	}
	return append(names, "list")
}

// demoList is what there is to see, for people.
func demoList() string {
	var b strings.Builder
	line := func(name, title string) { fmt.Fprintf(&b, "  %-11s %s\n", name, title) }
	b.WriteString("Scenes, each under a minute:\n")
	for _, s := range scene.All() {
		line(s.Name, s.Title)
	}
	b.WriteString("\nThe tutorial (all):\n")
	for _, s := range demo.Scenarios() {
		line(s.Name, s.Title)
	}
	b.WriteString("\nExamples:\n")
	for _, c := range demo.Collections() {
		line(c.Name, c.Title)
	}
	return b.String()
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

func runDemo(cmd *cobra.Command, cfg local.Config, play performance) error {
	out := cmd.OutOrStdout()
	return inDemoDir(func(dir string) error {
		return inDemoCluster(cmd, dir, cfg, func(cluster *local.Cluster) error {
			theatre := demo.Theatre{
				Config:    cluster.RESTConfig(),
				Clock:     clock.RealClock{},
				TimeScale: cfg.TimeScale,
				Out:       out,
			}
			return play(cmd.Context(), theatre)
		})
	})
}

func runScene(cmd *cobra.Command, s scene.Scene) error {
	out := cmd.OutOrStdout()
	s.Open(out)
	stage := scene.Stage{Out: out, Clock: clock.RealClock{}}
	if s.Cluster == nil && !s.Shell {
		return told(s.Play(cmd.Context(), stage))
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	return inDemoDir(func(dir string) error {
		data, work := filepath.Join(dir, "cluster"), filepath.Join(dir, "work")
		if err := os.Mkdir(work, 0o700); err != nil {
			return fmt.Errorf("make a working directory: %w", err)
		}
		stage.Shell = scene.Program{Path: self, DataDir: data, Dir: work}
		if s.Cluster == nil {
			return told(s.Play(cmd.Context(), stage))
		}
		cfg := local.Config{Fleet: simnode.DefaultFleet(), TimeScale: s.Cluster.TimeScale}
		cfg.Fleet.Count, cfg.Fleet.Racks = s.Cluster.Nodes, s.Cluster.Racks
		if s.Cluster.Configuration != "" {
			cfg.Configuration = []byte(s.Cluster.Configuration)
		}
		fmt.Fprintln(out)
		return inDemoCluster(cmd, data, cfg, func(*local.Cluster) error { return s.Play(cmd.Context(), stage) })
	})
}

// inDemoDir does something with a directory that is gone afterwards.
func inDemoDir(do func(dir string) error) (err error) {
	dir, err := os.MkdirTemp("", "mlbatch-demo-")
	if err != nil {
		return fmt.Errorf("make a directory for the cluster: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return do(dir)
}

// inDemoCluster does something in a fresh cluster with the tutorial's teams, and stops it.
func inDemoCluster(
	cmd *cobra.Command,
	dir string,
	cfg local.Config,
	do func(*local.Cluster) error,
) (err error) {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	fmt.Fprintln(out, "Starting a cluster of its own for the demo:")
	mlbatch := &installer{}
	cfg.DataDir, cfg.Tutorial, cfg.Samples, cfg.Initial, cfg.Install, cfg.Answered = dir, true, examples.AllRuntimes(), mlbatch.initial, mlbatch.install, mlbatch.answered
	cfg.Progress = func(s local.Milestone) { fmt.Fprintf(out, "%6.1fs  %s\n", s.Took.Seconds(), s.Name) }
	cluster, err := local.Start(ctx, cfg)
	if err != nil {
		return fmt.Errorf("start the demo's cluster: %w", err)
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		err = errors.Join(err, cluster.Stop(stop))
	}()
	return told(do(cluster))
}

// told leaves out an error that the report has told already.
func told(err error) error {
	for _, known := range []error{demo.ErrFailed, demo.ErrNotAll, scene.ErrFailed} {
		if errors.Is(err, known) {
			return errSilent
		}
	}
	return err
}
