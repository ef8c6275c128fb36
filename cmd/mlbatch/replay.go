package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/mlbatch/mlbatch/internal/cli"
	"github.com/mlbatch/mlbatch/internal/cli/whatif"
	"github.com/mlbatch/mlbatch/internal/core"
	"github.com/mlbatch/mlbatch/internal/replay"
	"github.com/mlbatch/mlbatch/internal/words"
)

// exitUnknown is the code if recordings know nothing of what was asked for.
const exitUnknown = 3

// newReplayCommand decides again what was recorded.
func newReplayCommand() *cobra.Command {
	var asked question
	cmd := &cobra.Command{
		Use:   "replay FILE|DIR [JOB]",
		Short: "Decide again what a flight recorder recorded, and compare",
		Long: `Feed a recording of the controller to a fresh engine and compare what it decides
with what was decided then: decision by decision, to the byte. FILE is one
recording, DIR what --flight-recorder-dir of "mlbatch controller" names;
"mlbatch up" records into flights/ of its data directory.

The recordings answer questions as well. --timeline says what happened, to JOB or
to all, --why where JOB was in the end and why it waited, --list which jobs there
were, --summary how many came, waited and were stopped in each queue. --from and
--until say between which times, in UTC; a time without a date is the last in the
recordings. JOB is NAMESPACE/NAME of a job or of its Workload, --queue the name of
a ClusterQueue. --recordings lists the files and decides nothing.

The exit code is 0 if everything is reproduced, 1 at the first difference,
2 if recordings cannot be read, 3 if nothing is known of the job or queue that was
asked for.`,
		Example: `  # is every decision of the cluster on this machine reproduced?
  mlbatch replay ~/.local/share/mlbatch/flights

  # why did this job wait at noon?
  mlbatch replay flights/ --until 12:00 --why blue/train

  # what happened to it, and what in its queue between two times?
  mlbatch replay flights/ --timeline blue/train
  mlbatch replay flights/ --timeline --from 11:30 --until 12:00 --queue blue-cluster-queue

  # which jobs were there, and how long did they wait?
  mlbatch replay flights/ --list
  mlbatch replay flights/ --summary

  # from when are these files, and for a script
  mlbatch replay flights/ --recordings
  mlbatch replay flights/flight-00000003.jsonl -o json`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error { return asked.answer(cmd.OutOrStdout(), args) },
	}
	f := cmd.Flags()
	f.StringVar(&asked.from, "from", "", "answer from this `time` on, see --until")
	f.StringVar(&asked.until, "until", "",
		"stop before what was decided after this `time`: 2026-03-01T12:00:00Z, \"2026-03-01 12:00\" or 12:00 (UTC)")
	f.StringVar(&asked.queue, "queue", "", "only what is of this `ClusterQueue`")
	f.BoolVar(&asked.why, "why", false, "say where JOB was in the end, and why it waited")
	f.BoolVar(&asked.timeline, "timeline", false, "list what happened")
	f.BoolVar(&asked.list, "list", false, "list the jobs and where they were in the end")
	f.BoolVar(&asked.summary, "summary", false, "count what happened in each queue")
	f.BoolVar(&asked.recordings, "recordings", false, "list the recordings")
	f.StringVarP(&asked.output, "output", "o", "", "json or yaml instead of text")
	cmd.MarkFlagsMutuallyExclusive("recordings", "from")
	cmd.MarkFlagsMutuallyExclusive("recordings", "until")
	return cmd
}

// question is what the arguments ask.
type question struct {
	from, until, queue, output               string
	why, timeline, list, summary, recordings bool
}

// answer prints what was asked.
func (q *question) answer(out io.Writer, args []string) error {
	r, err := q.request(args)
	if err != nil {
		return usageError{err}
	}
	if q.recordings {
		return q.files(out, r.Path)
	}
	report, err := replay.Run(r)
	if err != nil {
		if errors.Is(err, replay.ErrTime) {
			return usageError{fmt.Errorf("--from, --until: %w", err)}
		}
		return unreadableError{fmt.Errorf("replay: %w", err)}
	}
	if err := q.print(out, report, func(w io.Writer) error {
		return whatif.PrintReplay(w, report, cli.Layout{Width: tableWidth(out)})
	}); err != nil {
		return err
	}
	switch {
	case report.Difference != nil:
		return errSilent
	case len(report.Unknown) > 0:
		return exitError{code: exitUnknown}
	}
	return nil
}

// files lists recordings. One that cannot be read is listed, and makes the exit code 2.
func (q *question) files(out io.Writer, path string) error {
	all, err := replay.Recordings(path)
	if err != nil {
		return unreadableError{fmt.Errorf("replay: %w", err)}
	}
	if err := q.print(
		out,
		all,
		func(w io.Writer) error { return whatif.PrintRecordings(w, all, cli.Layout{Width: tableWidth(out)}) },
	); err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(r replay.Recording) bool { return r.Error != "" }) {
		return exitError{code: exitUnreadable}
	}
	return nil
}

func (q *question) print(out io.Writer, answer any, text func(io.Writer) error) error {
	if q.output == "" {
		var b strings.Builder
		if err := text(&b); err != nil {
			return err
		}
		for line := range strings.Lines(b.String()) { // what was recorded is others' text
			if _, err := fmt.Fprintln(out, words.Harmless(strings.TrimSuffix(line, "\n"))); err != nil {
				return err
			}
		}
		return nil
	}
	b, err := json.MarshalIndent(answer, "", "  ")
	if err == nil && q.output == "yaml" {
		b, err = yaml.JSONToYAML(b)
	}
	if err == nil {
		_, err = fmt.Fprintln(out, strings.TrimRight(string(b), "\n"))
	}
	return err
}

func (q *question) request(args []string) (replay.Request, error) {
	if q.output != "" && q.output != "json" && q.output != "yaml" {
		return replay.Request{}, fmt.Errorf("-o %s is not known: use json or yaml", q.output)
	}
	r := replay.Request{
		Path:     args[0],
		Queue:    q.queue,
		Why:      q.why,
		List:     q.list,
		Timeline: q.timeline,
		Summary:  q.summary,
	}
	for _, t := range []struct {
		flag, text string
		to         *replay.Time
	}{{"--from", q.from, &r.From}, {"--until", q.until, &r.Until}} {
		if err := readTime(t.to, t.text); err != nil {
			return r, fmt.Errorf("%s %q: %w", t.flag, t.text, err)
		}
	}
	if len(args) > 1 {
		namespace, name, ok := strings.Cut(args[1], "/")
		if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
			return r, fmt.Errorf("%q: must be NAMESPACE/NAME of a job or Workload", args[1])
		}
		r.Job = &core.Key{Namespace: namespace, Name: name}
	}
	switch {
	case r.Why && r.Job == nil:
		return r, errors.New("--why: say of which job, as in: mlbatch replay flights/ --why blue/train")
	case q.recordings && (len(args) > 1 || r.Why || r.List || r.Timeline || r.Summary || r.Queue != ""):
		return r, errors.New("--recordings lists files: it goes with -o only")
	case !r.Why && !r.List && !r.Timeline && !r.Summary && (r.Job != nil || r.Queue != "" || q.from != ""):
		r.Timeline = true
	}
	return r, nil
}

// readTime reads a time, or a time of day.
func readTime(to *replay.Time, text string) error {
	if text == "" {
		return nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateTime, "2006-01-02 15:04", "2006-01-02T15:04:05.999", "2006-01-02T15:04"} {
		if t, err := time.Parse(layout, text); err == nil {
			to.At = t
			return nil
		}
	}
	for _, layout := range []string{"15:04:05.999", "15:04"} {
		if t, err := time.Parse(layout, text); err == nil {
			to.Clock = new(t.Sub(t.Truncate(24 * time.Hour)))
			return nil
		}
	}
	return errors.New("must be a time such as 2026-03-01T12:00:00Z or 12:00")
}
