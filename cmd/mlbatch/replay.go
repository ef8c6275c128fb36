package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/replay"
)

// newReplayCommand decides again what was recorded.
func newReplayCommand() *cobra.Command {
	var until, why, output string
	cmd := &cobra.Command{
		Use:   "replay FILE|DIR",
		Short: "Decide again what a flight recorder recorded, and compare",
		Long: `Feed a recording of the controller to a fresh engine and compare what it decides
with what was decided then: decision by decision, to the byte. FILE is one
recording, DIR what --flight-recorder-dir of "mlbatch controller" names;
"mlbatch up" records into flights/ of its data directory.

With --until the replay stops in between, and --why says where a workload was then
and why it waited. The exit code is 0 if everything is reproduced, 1 at the first
difference, 2 if recordings cannot be read.`,
		Example: `  # is every decision of the cluster on this machine reproduced?
  mlbatch replay ~/.local/share/mlbatch/flights

  # why did this job wait at noon?
  mlbatch replay flights/ --until 2026-03-01T12:00:00Z --why blue/appwrapper-normal-x7k2p

  # for a script
  mlbatch replay flights/flight-00000003.jsonl -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := replayRequest(args[0], until, why)
			if err != nil {
				return usageError{err}
			}
			if output != "" && output != "json" {
				return usageError{fmt.Errorf("-o %s is not known: use json", output)}
			}
			report, err := replay.Run(r)
			if err != nil {
				return unreadableError{fmt.Errorf("replay: %w", err)}
			}
			show := report.Text
			if output == "json" {
				show = report.JSON
			}
			if err := show(cmd.OutOrStdout()); err != nil {
				return err
			}
			if report.Difference != nil {
				return errSilent
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&until, "until", "", "stop before what was decided after this `time`, such as 2026-03-01T12:00:00Z")
	f.StringVar(&why, "why", "", "say where a Workload was in the end, and why it waited: `NAMESPACE/NAME`")
	f.StringVarP(&output, "output", "o", "", "json instead of text")
	return cmd
}

func replayRequest(path, until, why string) (replay.Request, error) {
	r := replay.Request{Path: path}
	if until != "" {
		t, err := time.Parse(time.RFC3339Nano, until)
		if err != nil {
			return r, fmt.Errorf("--until %q: must be a time such as 2026-03-01T12:00:00Z", until)
		}
		r.Until = t
	}
	if why != "" {
		namespace, name, ok := strings.Cut(why, "/")
		if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
			return r, fmt.Errorf("--why %q: must be NAMESPACE/NAME of a Workload", why)
		}
		r.Why = &core.Key{Namespace: namespace, Name: name}
	}
	return r, nil
}
