package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/replay"
)

// newReplayCommand decides again what was recorded.
func newReplayCommand() *cobra.Command {
	var asked question
	var output string
	cmd := &cobra.Command{
		Use:   "replay FILE|DIR",
		Short: "Decide again what a flight recorder recorded, and compare",
		Long: `Feed a recording of the controller to a fresh engine and compare what it decides
with what was decided then: decision by decision, to the byte. FILE is one
recording, DIR what --flight-recorder-dir of "mlbatch controller" names;
"mlbatch up" records into flights/ of its data directory.

With --until the replay stops in between. --why says where a job was then and why it
waited, --timeline what had happened to it, --list which workloads there were. Times
are in UTC; one without a date is the last in the recordings. The exit code is 0 if
everything is reproduced, 1 at the first difference or if nothing is known of a job
that is asked for, 2 if recordings cannot be read.`,
		Example: `  # is every decision of the cluster on this machine reproduced?
  mlbatch replay ~/.local/share/mlbatch/flights

  # why did this job wait at noon?
  mlbatch replay flights/ --until 12:00 --why blue/train

  # which workloads were there, and what happened to one?
  mlbatch replay flights/ --list
  mlbatch replay flights/ --timeline blue/train

  # for a script
  mlbatch replay flights/flight-00000003.jsonl -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := asked.request(args[0])
			if err != nil {
				return usageError{err}
			}
			if output != "" && output != "json" {
				return usageError{fmt.Errorf("-o %s is not known: use json", output)}
			}
			report, err := replay.Run(r)
			if err != nil {
				if errors.Is(err, replay.ErrTime) {
					return usageError{fmt.Errorf("--until: %w", err)}
				}
				return unreadableError{fmt.Errorf("replay: %w", err)}
			}
			show := report.Text
			if output == "json" {
				show = report.JSON
			}
			if err := show(cmd.OutOrStdout()); err != nil {
				return err
			}
			if report.Difference != nil || len(report.Unknown) > 0 {
				return errSilent
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&asked.until, "until", "", "stop before what was decided after this `time`: 2026-03-01T12:00:00Z, \"2026-03-01 12:00\" or 12:00 (UTC)")
	f.StringVar(&asked.why, "why", "", "say where a job or Workload was in the end, and why it waited: `NAMESPACE/NAME`")
	f.StringVar(&asked.timeline, "timeline", "", "list what happened to a job or Workload: `NAMESPACE/NAME`")
	f.BoolVar(&asked.list, "list", false, "list the Workloads and where they were in the end")
	f.StringVarP(&output, "output", "o", "", "json instead of text")
	return cmd
}

// question is what the flags ask.
type question struct {
	until, why, timeline string
	list                 bool
}

func (q question) request(path string) (replay.Request, error) {
	r := replay.Request{Path: path, List: q.list}
	if err := readUntil(&r, q.until); err != nil {
		return r, err
	}
	for _, x := range []struct {
		flag, name string
		to         **core.Key
	}{{"why", q.why, &r.Why}, {"timeline", q.timeline, &r.Timeline}} {
		if x.name == "" {
			continue
		}
		namespace, name, ok := strings.Cut(x.name, "/")
		if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
			return r, fmt.Errorf("--%s %q: must be NAMESPACE/NAME of a job or Workload", x.flag, x.name)
		}
		*x.to = &core.Key{Namespace: namespace, Name: name}
	}
	return r, nil
}

// readUntil reads a time, or a time of day.
func readUntil(r *replay.Request, text string) error {
	if text == "" {
		return nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateTime, "2006-01-02 15:04", "2006-01-02T15:04:05.999", "2006-01-02T15:04"} {
		if t, err := time.Parse(layout, text); err == nil {
			r.Until = t
			return nil
		}
	}
	for _, layout := range []string{"15:04:05.999", "15:04"} {
		if t, err := time.Parse(layout, text); err == nil {
			r.Clock = new(t.Sub(t.Truncate(24 * time.Hour)))
			return nil
		}
	}
	return fmt.Errorf("--until %q: must be a time such as 2026-03-01T12:00:00Z or 12:00", text)
}
